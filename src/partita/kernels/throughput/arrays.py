"""What the kernels of the contiguous throughput problem read: named tuples of plain arrays."""

from __future__ import annotations

from typing import Any, NamedTuple, get_type_hints

import numpy as np
import numpy.typing as npt

__all__ = ["Arrays", "Bools", "Bytes", "Floats", "Ints", "Longs", "Words", "as_arrays", "bit_rows"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.int8]
Bools = npt.NDArray[np.bool_]
Words = npt.NDArray[np.uint64]


class Arrays(NamedTuple):
    """An instance in search order: n items (topologically numbered), m nets, K kinds, c covers.

    The fields are those of ``problems.throughput.contraction.instance.Instance``, kinds first where there is a
    choice, so that one
    kind is contiguous: ``work`` (K, n), ``net_cost`` (K, m). ``memory`` includes the tolerance. ``limits`` holds the
    switches [memory limited, recompute, backwards, covers].
    """

    work: Floats
    net_ptr: Ints
    net_pins: Ints
    item_net_ptr: Ints
    item_nets: Ints
    net_cost: Floats
    net_source: Ints
    net_entering: Floats
    succ_ptr: Ints
    succ: Ints
    pred_ptr: Ints
    pred: Ints
    fixed: Floats
    active: Floats
    workspace: Floats
    item_cover_ptr: Ints
    item_covers: Ints
    cover_fixed: Floats
    cover_active: Floats
    memory: Floats
    devices: Longs
    in_flight: Longs
    limits: Longs


def as_arrays(values: dict[str, Any]) -> Arrays:
    """Arrays from a mapping, each contiguous and of the type the kernels are compiled for."""
    types = {Floats: np.float64, Ints: np.int32, Longs: np.int64}
    hints = get_type_hints(Arrays)
    return Arrays(**{name: np.ascontiguousarray(values[name], dtype=types[hints[name]]) for name in Arrays._fields})


def bit_rows(mask: Bools) -> Words:
    """(r, w) words of 64 bits from an (r, n) mask: bit v of a row is its column v."""
    n = mask.shape[1]
    padded = np.zeros((mask.shape[0], (n + 63) // 64 * 64), dtype=np.uint8)
    padded[:, :n] = mask
    return np.ascontiguousarray(np.packbits(padded, axis=1, bitorder="little").view(np.uint64))
