"""The types of what kernels read, and the making of their named tuples and of rows of bits."""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar, get_type_hints

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.int8]
Bools = npt.NDArray[np.bool_]
Words = npt.NDArray[np.uint64]

#: Types of the arrays; other fields are switches, counts, and named tuples of their own.
_TYPES = {Floats: np.float64, Ints: np.int32, Longs: np.int64, Bytes: np.int8, Bools: np.bool_, Words: np.uint64}
_COUNTS = {int, bool}

Struct = TypeVar("Struct", bound=tuple[Any, ...])

_hints = cache(get_type_hints)


def zeros(struct: type[Struct], *rows: tuple[str, int | tuple[int, ...]], **given: Any) -> Struct:
    """A named tuple of zeros: rows have names of fields and the shape of each; the other fields are ``given``."""
    for names, shape in rows:
        for name in names.split():
            given[name] = np.zeros(shape, _TYPES[_hints(struct)[name]])
    return struct(**given)


def as_arrays(struct: type[Struct], values: dict[str, Any]) -> Struct:
    """A named tuple from a mapping with its fields, each array contiguous and of the type that kernels expect."""
    fields: dict[str, Any] = {}
    for name, hint in _hints(struct).items():
        if hint in _TYPES:
            fields[name] = np.ascontiguousarray(values[name], dtype=_TYPES[hint])
        else:
            fields[name] = hint(values[name]) if hint in _COUNTS else values[name]
    return struct(**fields)


def bit_rows(mask: Bools) -> Words:
    """(r, w) words of 64 bits from an (r, n) mask: bit v of a row is its column v."""
    n = mask.shape[1]
    padded = np.zeros((mask.shape[0], (n + 63) // 64 * 64), dtype=np.uint8)
    padded[:, :n] = mask
    return np.ascontiguousarray(np.packbits(padded, axis=1, bitorder="little").view(np.uint64))


def row_masks(words: Words, n: int) -> Bools:
    """(…, n) masks of rows of bits: what ``bit_rows`` made them from."""
    return np.unpackbits(words.view(np.uint8), axis=-1, bitorder="little")[..., :n].astype(bool)
