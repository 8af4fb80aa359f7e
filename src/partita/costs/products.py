"""How much of a device's best rate a product of matrices reaches, by its shape.

A product is cut into tiles of the result, one for each multiprocessor at a time. Tiles that stick out over the edge do
work for nothing (*tile quantisation*); so do multiprocessors without a tile in the last round (*wave quantisation*);
and every tile takes some time to fill and to be written, whatever its inner dimension. Small tiles leave less unused,
but read each number more often. Source: NVIDIA, "Matrix Multiplication Background User's Guide" (Deep Learning
Performance documentation), sections 3 and 4.
"""

from __future__ import annotations

import math

#: Rows and columns of the result that one multiprocessor makes at a time, and how much of the best rate such a tile
#: reaches: the less, the fewer multiplications there are for every number it reads.
TILES = ((256, 128, 1.0), (128, 256, 1.0), (128, 128, 0.95), (128, 64, 0.85), (64, 128, 0.85), (64, 64, 0.7))

#: Steps of the inner dimension that filling and writing a tile take as long as.
TILE_OVERHEAD = 64


#: Rows of matrices that begin at other places than multiples of so many bytes are read by slower kernels.
ALIGNMENT_BYTES = 16


def is_aligned(shape: tuple[int, int, int, int], consecutive: str, number_bytes: int) -> bool:
    """Whether the rows of all three matrices of a product begin at multiples of ``ALIGNMENT_BYTES``.

    The shape is that of ``shape_efficiency``; ``consecutive`` says which of m, n and k the rows are made of, as in
    ``graph.Operator``.
    """
    return all(shape["bmnk".index(letter)] * number_bytes % ALIGNMENT_BYTES == 0 for letter in consecutive)


def shape_efficiency(shape: tuple[int, int, int, int], multiprocessors: int) -> float:
    """Share of a device's best rate that a product reaches, above 0 and at most 1, given its multiprocessors.

    The shape is batch, rows, columns and inner dimension: b products of m × k with k × n.
    """
    batch, rows, columns, inner = shape
    useful = batch * rows * columns
    if not useful or not inner:
        return 1.0
    best = 0.0
    for height, width, rate in TILES:
        tiles = batch * math.ceil(rows / height) * math.ceil(columns / width)
        rounds = math.ceil(tiles / multiprocessors)
        best = max(best, rate * useful / (rounds * multiprocessors * height * width))
    return best * inner / (inner + TILE_OVERHEAD)
