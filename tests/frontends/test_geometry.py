"""Geometries: equal regions are equal values, and disjointness is never claimed wrongly."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partita.frontends.records import disjoint, geometry_bytes, make_geometry


def of(array: np.ndarray, base: np.ndarray) -> tuple:
    itemsize = base.itemsize
    offset = (array.__array_interface__["data"][0] - base.__array_interface__["data"][0]) // itemsize
    return make_geometry(offset, array.shape, [s // itemsize for s in array.strides], itemsize)


def bytes_of(geometry: tuple) -> set[int]:
    offset, pairs = geometry
    steps = [range(0, extent * stride, stride) for extent, stride in pairs]
    return {offset + sum(choice) for choice in itertools.product(*steps)}


def test_reshapes_and_permutations_of_a_region_are_one_geometry() -> None:
    base = np.zeros((2, 3, 4), np.float32)
    # 24 elements of 4 bytes, all contiguous: one run of 96 bytes at offset 0.
    assert of(base, base) == (0, ((96, 1),))
    assert of(base.transpose(2, 0, 1), base) == of(base, base)
    assert of(base.reshape(6, 4), base) == of(base, base)


def test_broadcast_is_its_base() -> None:
    base = np.zeros((3, 1), np.float32)
    assert of(np.broadcast_to(base, (3, 7)), base) == of(base, base)


def test_column_slice_has_a_run_per_row() -> None:
    base = np.zeros((5, 6), np.float32)
    # Columns 2..3 of 6: offset 2·4 bytes, five rows 6·4 = 24 bytes apart, each a run of 2·4 = 8 bytes.
    assert of(base[:, 2:4], base) == (8, ((5, 24), (8, 1)))
    assert geometry_bytes(of(base[:, 2:4], base)) == 40


def test_other_columns_and_interleaved_columns_are_disjoint() -> None:
    base = np.zeros((5, 6), np.float32)
    assert disjoint(of(base[:, :3], base), of(base[:, 3:], base))
    assert disjoint(of(base[:, ::2], base), of(base[:, 1::2], base))
    assert not disjoint(of(base[:, :4], base), of(base[:, 3:], base))
    assert not disjoint(of(base[:3], base), of(base[:, :1], base))


def test_empty_tensor() -> None:
    assert geometry_bytes(make_geometry(0, (0, 4), (4, 1), 4)) == 0


@st.composite
def boxes(draw: st.DrawFn) -> tuple[slice, slice, slice]:
    cuts = []
    for extent in (3, 4, 5):
        start = draw(st.integers(0, extent - 1))
        cuts.append(slice(start, draw(st.integers(start + 1, extent)), draw(st.integers(1, 2))))
    return tuple(cuts)


@given(boxes(), boxes())
def test_disjoint_agrees_with_the_bytes(a: tuple, b: tuple) -> None:
    base = np.zeros((3, 4, 5), np.int16)
    first, second = of(base[a], base), of(base[b], base)
    assert len(bytes_of(first)) == base[a].size * 2 == geometry_bytes(first)
    assert disjoint(first, second) == (not bytes_of(first) & bytes_of(second))


@pytest.mark.parametrize("pieces", [2, 3, 16])
def test_chunks_of_a_large_last_dimension_are_disjoint(pieces: int) -> None:
    width = 48 * pieces
    parts = [make_geometry(48 * i, (4096, 48), (width, 1), 2) for i in range(pieces)]
    assert all(disjoint(a, b) for a, b in itertools.combinations(parts, 2))
