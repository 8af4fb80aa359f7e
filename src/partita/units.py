"""Units, formatting and the one numerical tolerance, which is relative: no number counts as small by itself.

Inside partita times are seconds and sizes are bytes, unless a problem read from an instance file says otherwise in its
``unit`` field.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

NumberT = TypeVar("NumberT", float, "npt.NDArray[np.float64]")

GIB = 1024**3

#: Relative tolerance at which two floating-point values of one quantity count as equal.
TOLERANCE = 1e-9


def leq(left: float, right: float) -> bool:
    """Whether ``left <= right``, or above it by a share of ``TOLERANCE`` of the larger in magnitude at most.

    Nothing but 0 counts as 0, and the answer stays when both are multiplied by the same positive number.
    """
    if left <= right or not (math.isfinite(left) and math.isfinite(right)):
        return left <= right
    return left - right <= TOLERANCE * max(abs(left), abs(right))


def up_to(limit: NumberT) -> NumberT:
    """What searches may fill of a limit (or an array of them, not negative; infinite for none) on what a device holds.

    That is half of what ``leq`` lets through: the other half is for sums that the evaluator forms in another order.
    """
    return limit * (1.0 + TOLERANCE / 2)


def format_bytes(value: float | None) -> str:
    """Bytes for people, in binary units; ``None`` and infinity are unlimited."""
    if value is None or math.isinf(value):
        return "unlimited"
    size = float(value)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(size) < 1024 or unit == "TiB":
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.2f} {unit}"
        size /= 1024
    raise AssertionError("unreachable")


def format_time(value: float, unit: str = "s") -> str:
    """A time for people; seconds choose their own prefix, other units are printed as they are."""
    if unit != "s":
        return f"{value:.4g} {unit}"
    if value == 0:
        return "0 s"
    for scale, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if abs(value) >= scale:
            return f"{value / scale:.4g} {name}"
    return f"{value / 1e-9:.4g} ns"


def format_count(value: float) -> str:
    """A large count for people: 1.56 G, 340 M, 12 k."""
    for scale, name in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= scale:
            return f"{value / scale:.3g} {name}"
    return f"{value:.3g}"
