"""What products reach by their shape, by hand."""

from __future__ import annotations

import pytest

from partita.costs.products import TILE_OVERHEAD, is_aligned, shape_efficiency

#: So long that filling and writing a tile hardly counts.
LONG = 64 * 10**9


@pytest.mark.parametrize(
    ("shape", "multiprocessors", "expected"),
    [
        # Two tiles of 256 × 128 fill two multiprocessors.
        ((1, 256, 256, LONG), 2, 1.0),
        # Three: a second round for one tile uses 3 of 4; tiles of 128 × 128 at 0.95 fill 6 of 6 in three rounds.
        ((1, 768, 128, LONG), 2, 0.95),
        # One tile more than there are multiprocessors: half of two rounds, whatever the tile; small ones fill better.
        ((1, 256, 128 * 109, LONG), 108, max(109 / 216, 0.95 * 218 / 324, 0.85 * 436 / 540, 0.7 * 872 / 972)),
        # 130 rows reach into a second tile: of 128 × 128 tiles 130/256 is used, of 256 × 128 also, of 64 × 128 130/192.
        ((1, 130, 128, LONG), 1, 0.85 * 130 / 192),
        # A batch of products fills the device together.
        ((108, 256, 128, LONG), 108, 1.0),
        # A short inner dimension: the tile's overhead takes as long as the work.
        ((1, 256, 128, TILE_OVERHEAD), 1, 0.5),
    ],
)
def test_quantisation(shape: tuple[int, int, int, int], multiprocessors: int, expected: float) -> None:
    assert shape_efficiency(shape, multiprocessors) == pytest.approx(expected, rel=1e-6)


def test_efficiency_is_a_share() -> None:
    for rows in (1, 7, 100, 4096):
        for columns in (1, 33, 5000):
            assert 0 < shape_efficiency((1, rows, columns, 50), 108) <= 1
    assert shape_efficiency((0, 5, 5, 5), 108) == 1.0


@pytest.mark.parametrize(
    ("shape", "consecutive", "number_bytes", "expected"),
    [
        # Words of a vocabulary along the rows of the result, then of the factors; tokens lie along no row.
        ((1, 4096, 50257, 768), "kn", 2, False),
        ((1, 4096, 768, 50257), "kn", 2, False),
        ((1, 50257, 768, 4096), "mn", 2, False),
        ((1, 4095, 50304, 768), "kn", 2, True),
        ((1, 50304, 768, 4095), "mn", 2, True),
        # 16 bytes are four numbers of four bytes, or sixteen of one.
        ((7, 3, 12, 4), "kn", 4, True),
        ((1, 64, 24, 64), "kn", 1, False),
    ],
)
def test_alignment(shape: tuple[int, int, int, int], consecutive: str, number_bytes: int, expected: bool) -> None:
    assert is_aligned(shape, consecutive, number_bytes) is expected
