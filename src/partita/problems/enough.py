"""What would be enough where a problem has no plan: the smallest count, or size of memory, for which one is found.

Both are sentences, empty where nothing is found that is enough. What is asked whether something has a plan may take as
many seconds as it is told; the clock is the time for all of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from partita.engines.search.monitor import Monitor
from partita.ground.units import format_bytes

#: No probe gets less time than this.
_LEAST_S = 0.05


def smallest_count(
    fits: Callable[[int, float], bool | None], present: int, most: int, noun: str, clock: Monitor
) -> str:
    """The smallest count with a plan: double it until there is one, then bisect while there is a third of the time.

    ``fits`` says whether a count has a plan, None if unknown; ``present`` is not enough, ``most`` the largest to try.
    """
    exact = True

    def enough(count: int) -> bool:
        nonlocal exact
        answer = fits(count, max(_LEAST_S, min(3.0, clock.remaining_s / 3)))
        exact = exact and answer is not None
        return bool(answer)

    low, high = present, present + 1
    if high > most or clock.remaining_s <= 0:
        return ""
    while not enough(high):
        if high >= most or clock.remaining_s <= 0:
            return ""
        low, high = high, min(most, 2 * high)
    while high - low > 1 and clock.remaining_s > (clock.time_limit_s or 0.0) / 3:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    word = "the smallest count that fits is" if exact and high - low == 1 else "enough would be"
    return f"{word} {high} {noun}"


def smallest_memory(
    used: Callable[[float, float], float | bool | None],
    present: float,
    clock: Monitor,
    *,
    enough: float = math.inf,
    precision: float,
    probe_s: float = math.inf,
) -> str:
    """The smallest memory of a device with a plan: first without limit, then by bisection.

    ``used`` says for a limit what the fullest device of a plan needs, False if it is proven that there is none, None if
    unknown. ``present`` is not enough, ``enough`` is. It ends when the bracket is as tight as ``precision``, relative;
    a limit gets at most ``probe_s`` after the first look without any.
    """
    low, high, exact = present, enough, True
    size = math.inf
    while clock.remaining_s > 0 and (math.isinf(high) or high - low > precision * high):
        most = clock.remaining_s / 2
        answer = used(size, max(_LEAST_S, most if math.isinf(size) else min(probe_s, most)))
        if answer is not None and answer is not False:
            high = min(high, size, float(answer))
        elif math.isfinite(size):
            exact = exact and answer is False
            low = size
        elif answer is False or math.isinf(high):
            return ""
        size = (low + high) / 2
    if math.isinf(high):
        return ""
    word = "the smallest memory per device that fits is about" if exact else "enough memory per device would be"
    return f"{word} {format_bytes(high)} ({math.ceil(high)} bytes)"
