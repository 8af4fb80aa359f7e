"""Units, formatting and the one numerical tolerance.

Inside partita times are seconds and sizes are bytes, unless a problem read from an instance file says otherwise in its
``unit`` field.
"""

from __future__ import annotations

import math

__all__ = ["GB", "KIB", "MIB", "GIB", "TOLERANCE", "format_bytes", "format_count", "format_time", "leq"]

KIB = 1024
MIB = 1024**2
GIB = 1024**3
GB = 10**9

#: Relative tolerance at which two floating-point values of one quantity count as equal.
TOLERANCE = 1e-9


def leq(left: float, right: float) -> bool:
    """Whether ``left <= right`` up to the relative tolerance."""
    return left <= right + TOLERANCE * max(1.0, abs(left), abs(right)) if math.isfinite(right) else left <= right


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
