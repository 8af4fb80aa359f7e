"""The front has the points that no other one is as good as, each once."""

from __future__ import annotations

import numpy as np

from partita.ground.fronts import front


def test_as_by_definition() -> None:
    """Small whole numbers, so that many are equal."""
    random = np.random.default_rng(0)
    sizes = []
    for _ in range(300):
        points = random.integers(0, 6, (int(random.integers(0, 9)), 2)).tolist()
        wanted = [
            place
            for place, (x, y) in enumerate(points)
            if not any(a <= x and b <= y and ((a, b) != (x, y) or other < place) for other, (a, b) in enumerate(points))
        ]
        found = front([x for x, _ in points], [y for _, y in points]).tolist()
        assert sorted(found) == wanted
        assert [points[place][0] for place in found] == sorted(points[place][0] for place in found)
        sizes.append(len(found))
    assert sum(size > 1 for size in sizes) > 100


def test_a_margin_leaves_out_what_is_hardly_better() -> None:
    assert front([1.0, 2.0, 3.0], [4.0, 4.0 - 1e-9, 3.0], margin=1e-6).tolist() == [0, 2]
    assert front([1.0, 2.0, 3.0], [4.0, 4.0 - 1e-9, 3.0]).tolist() == [0, 1, 2]
