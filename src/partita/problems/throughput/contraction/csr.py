"""Lists of lists as arrays: row i of a pair (pointer, members) is ``members[pointer[i]:pointer[i + 1]]``."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int32]
Places = npt.NDArray[np.integer]


def csr(members: Sequence[Sequence[int]]) -> tuple[Ints, Ints]:
    """The pair of a list of lists."""
    pointer = np.zeros(len(members) + 1, dtype=np.int32)
    np.cumsum([len(row) for row in members], out=pointer[1:])
    flat = np.fromiter((v for row in members for v in row), dtype=np.int32, count=int(pointer[-1]))
    return pointer, flat


def lists(pointer: Places, members: Places) -> list[list[int]]:
    """The list of lists of a pair."""
    flat = members.tolist()
    return [flat[start:end] for start, end in itertools.pairwise(pointer.tolist())]


def rows_of(row: Places, member: Places, count: int) -> tuple[Ints, Ints]:
    """The members of each of ``count`` rows, in the order given."""
    pointer = np.zeros(count + 1, dtype=np.int32)
    np.cumsum(np.bincount(row, minlength=count), out=pointer[1:])
    return pointer, np.ascontiguousarray(member[np.argsort(row, kind="stable")], dtype=np.int32)


def transposed(pointer: Ints, members: Ints, count: int) -> tuple[Ints, Ints]:
    """The rows that each of ``count`` members is in, ascending."""
    rows = np.repeat(np.arange(len(pointer) - 1, dtype=np.int32), np.diff(pointer))
    return rows_of(members, rows, count)


def chosen_rows(pointer: Ints, members: Ints, chosen: Places, names: Ints | None = None) -> tuple[Ints, Ints]:
    """Some rows, in this order; members with other ``names`` are sorted by them."""
    sizes = np.diff(pointer)[chosen]
    starts = np.zeros(len(chosen) + 1, dtype=np.int64)
    np.cumsum(sizes, out=starts[1:])
    flat = members[np.arange(starts[-1]) + np.repeat(pointer[:-1][chosen] - starts[:-1], sizes)]
    if names is not None:
        flat = names[flat]
        flat = flat[np.lexsort((flat, np.repeat(np.arange(len(chosen)), sizes)))]
    return starts.astype(np.int32), np.ascontiguousarray(flat, dtype=np.int32)
