"""What a device waits for when exchanges go on behind its work, layer by layer, in any unit of time.

A collective runs on some of the device's multiprocessors, a block of threads for each of its channels (NVIDIA, *NCCL
User Guide*, environment variables, ``NCCL_MAX_NCHANNELS``), so that work goes on more slowly beside it.
"""

from __future__ import annotations

from collections.abc import Sequence

#: Part of a device that a collective takes away: 24 channels, on the 108 multiprocessors of an A100 or 132 of an H100.
OCCUPIED = 0.2


def exposed(exchange: float, work: float, occupied: float = 0.0) -> float:
    """By how much an exchange behind work makes it longer: what does not hide, and what the hidden part takes away."""
    return max(occupied * exchange, exchange - (1.0 - occupied) * work)


def exposed_once(
    forward: Sequence[float],
    backward: Sequence[float],
    reduce: Sequence[float],
    gather: Sequence[float],
    occupied: float = 0.0,
) -> float:
    """By how much a step is longer for gradients exchanged behind backward work, and weights ahead of forward work.

    Layers exchange one after the other: gradients once their backward part has ended, weights in the order in which
    they are needed.

    Parameters
    ----------
    forward, backward, reduce, gather
        By layer in the order of the forward part: its work, and what exchanging its gradients and weights takes.
    occupied
        Part of the device that an exchange takes away from the work that hides it.
    """
    left = 0.0
    for work, exchange in zip(reversed(backward), reversed(reduce), strict=True):
        left = max(0.0, left - work) + exchange
    there = end = 0.0
    for work, exchange in zip(forward, gather, strict=True):
        there += exchange
        end = max(end, there) + work
    waited = left + end - sum(forward)
    return waited + occupied * (sum(reduce) + sum(gather) - waited)
