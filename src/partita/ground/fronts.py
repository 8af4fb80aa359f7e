"""Points that no other one beats in two numbers: Pareto's front."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def front(one: npt.ArrayLike, other: npt.ArrayLike, *, margin: float = 0.0) -> npt.NDArray[np.int64]:
    """Places of the points that none is as good as in both numbers, by the first number; less is better.

    Of equal points it has the first. The second number is less where it is so by more than a share, the ``margin``.
    """
    first, second = np.asarray(one, np.float64), np.asarray(other, np.float64)
    order = np.lexsort((second, first))
    second = second[order]
    better = np.ones(len(order), dtype=np.bool_)
    better[1:] = second[1:] < np.minimum.accumulate(second)[:-1] * (1.0 - margin)
    return order[better]
