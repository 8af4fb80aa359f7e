"""Boxes of caps lose no row, and stages of one kind are alike."""

from __future__ import annotations

import random

import numpy as np

from partita.problems.hybrid.instance import stage_kinds
from partita.problems.hybrid.step.solvers.step_family import Box


def test_boxes_beside_a_row_lose_no_row() -> None:
    draw = random.Random(5)
    for _ in range(200):
        lows = tuple(draw.choice((0.0, draw.random())) for _ in range(3))
        box = Box(lows=lows, highs=tuple(low + draw.choice((0.5, 1.0)) for low in lows))
        costs = tuple(draw.uniform(low, high) for low, high in zip(box.lows, box.highs, strict=True))
        parts, rest = box.beside(costs)
        assert rest.least <= sum(costs) <= rest.least + 1e-9
        for _ in range(50):
            row = [draw.uniform(low, high) for low, high in zip(box.lows, box.highs, strict=True)]
            inside = [
                part
                for part in (*parts, rest)
                if all(low <= cost <= high for low, cost, high in zip(part.lows, row, part.highs, strict=True))
            ]
            assert inside
            # Where no cost is smaller, a row takes no less than the one that was found.
            assert inside != [rest] or sum(row) >= sum(costs) - 1e-9


def test_stages_of_one_kind_are_alike() -> None:
    counts = np.array([[0, 1, 2, 2, 3], [0, 0, 0, 1, 1]])
    inner, outer = np.nonzero(np.triu(np.ones((5, 5)), 1))
    differences = [tuple(column) for column in (counts[:, outer] - counts[:, inner]).T.tolist()]
    example, found = stage_kinds(counts, inner, outer)
    assert len(example) == len(set(differences))
    assert [differences[k] for k in example[found]] == differences
    beside = np.arange(len(inner)) % 2 * 0.5
    example, found = stage_kinds(counts, inner, outer, beside)
    assert len(example) == len(set(zip(differences, beside.tolist(), strict=True)))
    assert (beside[example[found]] == beside).all()


def test_kinds_whose_numbers_collide_are_told_apart() -> None:
    """Counts made of the very factors that tell them apart: both stages have the same number."""
    _, one, other = np.random.default_rng(0).integers(1, 1 << 62, size=3).tolist()
    counts = np.array([[0, other, 0], [0, 0, one]], dtype=np.int64)
    example, found = stage_kinds(counts, np.array([0, 0]), np.array([1, 2]))
    assert example.tolist() == found.tolist() == [0, 1]
