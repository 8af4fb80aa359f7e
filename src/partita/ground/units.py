"""Units, formatting and the one numerical tolerance, which is relative: no number counts as small by itself.

Inside partita times are seconds and sizes are bytes, unless a problem read from an instance file says otherwise in its
``unit`` field.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

NumberT = TypeVar("NumberT", float, "npt.NDArray[np.float64]")

GIB = 1024**3

#: Bytes of one of each; case does not matter.
_BYTES = {
    "": 1.0,
    "b": 1.0,
    **{f"{prefix}b": 1e3**power for power, prefix in enumerate("kmgtp", 1)},
    **{f"{prefix}ib": 1024.0**power for power, prefix in enumerate("kmgtp", 1)},
}

_AMOUNT = re.compile(r"([-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?|[-+]?inf(?:inity)?|nan)\s*([kmgtp]?i?b)?", re.IGNORECASE)


def parse_bytes(text: str) -> float:
    """Bytes: ``40GB`` (10⁹ each), ``40GiB`` (2³⁰ each), ``80e9``, ``inf`` for no limit.

    Raises ``ValueError`` if it is no number with a unit of bytes, or without one.
    """
    match = _AMOUNT.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is no number of bytes")
    return float(match[1]) * _BYTES[(match[2] or "").lower()]


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
        return f"{value:.4g} {'device' if unit == 'devices' and value == 1 else unit}"
    if value == 0:
        return "0 s"
    for scale, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if abs(value) >= scale:
            return f"{value / scale:.4g} {name}"
    return f"{value / 1e-9:.4g} ns"


def format_duration(seconds: float) -> str:
    """A time for people that may be long: 92.98 days, 3.1 hours, 13.2 minutes, or as ``format_time`` says."""
    for scale, name in ((86_400.0, "day"), (3600.0, "hour"), (60.0, "minute")):
        if scale <= seconds < math.inf:
            amount = f"{seconds / scale:.4g}"
            return f"{amount} {name}{'' if amount == '1' else 's'}"
    return format_time(seconds)


def format_count(value: float) -> str:
    """A large count for people: 1.56 G, 340 M, 12 k."""
    for scale, name in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= scale:
            return f"{value / scale:.3g} {name}"
    return f"{value:.3g}"
