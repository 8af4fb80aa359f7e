"""What failures and checkpoints take from a run that computes for weeks, and how often it is best to save.

Failures come at random, each independent of the others (a Poisson process). A run computes for an interval, saves, and
goes on; a failure takes it back to what was saved last, after a restart, in which it may fail again.

Source: Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps", 2006, equation 13 for the
expected time; the interval is its exact minimum rather than the paper's series.
"""

from __future__ import annotations

import math

#: Halvings of the bracket of the best interval: beyond what a double tells apart.
_HALVINGS = 200


def expected_s(work_s: float, checkpoint_s: float, restart_s: float, between_s: float) -> float:
    """Seconds in which an interval of work is done and saved, failures and what they take included.

    ``between_s`` is the mean time between failures of the whole machine, infinite for none. Infinite where failures are
    so frequent that no interval ends.
    """
    whole = work_s + checkpoint_s
    if math.isinf(between_s):
        return whole
    try:
        return between_s * math.exp(restart_s / between_s) * math.expm1(whole / between_s)
    except OverflowError:
        return math.inf


def best_interval_s(checkpoint_s: float, between_s: float) -> float:
    """Seconds of work between two checkpoints that lose least; infinite without failures, 0 where saving is free.

    The minimum of the expected time per second of work is where (1 − x)·exp(x + C/M) = 1, x being the interval over
    the time between failures M and C what a checkpoint takes; restarts do not change it.
    """
    if math.isinf(between_s):
        return math.inf
    low, high, saved = 0.0, 1.0, checkpoint_s / between_s
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if middle < 1 and math.log1p(-middle) + middle + saved > 0:
            low = middle
        else:
            high = middle
    return low * between_s
