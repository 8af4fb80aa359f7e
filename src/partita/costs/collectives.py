"""Times of collective operations among devices of one machine and of several, in any unit of time.

A group of d devices moves (d − 1)/d of a tensor for a gather or scatter, twice that for a sum that all get (Thakur,
Rabenseifner and Gropp, "Optimization of Collective Communication Operations in MPICH", IJHPCA 2005, §4). Over several
machines it is hierarchical: the members of a machine share out the tensor, and each exchanges its part with its peers
in the other machines; both go on at once, chunk by chunk, so that the slower one takes the time. A call takes a latency
and a little more for every hop: of a tree for a sum over switched links (Jeaugey, "Massively Scale Your Deep Learning
Training with NCCL 2.4", 2019), of a ring otherwise. Where all exchange parts of their own with all others, each part
goes straight to its reader, over the links inside the machine or between machines, both at once.

A collective that goes on behind work runs on some of the device's multiprocessors, a block of threads for each of its
channels (NVIDIA, *NCCL User Guide*, environment variables, ``NCCL_MAX_NCHANNELS``), so that work goes on more slowly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

#: Part of a device that a collective takes away: 24 channels, on the 108 multiprocessors of an A100 or 132 of an H100.
OCCUPIED = 0.2


@dataclass(frozen=True)
class Level:
    """One level of a group: devices of a machine, or machines."""

    size: int  #: Members that talk to each other at this level.
    bandwidth: float  #: Bytes per unit of time that each device sends at this level while all of its machine do.
    #: Fixed time of a call, and of every hop.
    call_time: float = 0.0
    hop_time: float = 0.0
    switched: bool = False  #: Whether any two members reach each other directly.


def sent_share(kind: str, size: int) -> float:
    """How much of a tensor each of so many devices sends."""
    return (size - 1) / size * (2 if kind == "all-reduce" else 1)


def hops(kind: str, size: int, *, switched: bool) -> int:
    """Messages that wait for one another in a call of so many devices."""
    if kind == "all-reduce":
        return 2 * (math.ceil(math.log2(size)) if switched else size - 1)
    return size - 1


def collective_time(kind: str, size_bytes: float, levels: Sequence[Level]) -> float:
    """Time of an ``all-reduce``, ``all-gather``, ``reduce-scatter`` or ``all-to-all``.

    The tensor of so many bytes is the whole one; of an ``all-to-all`` it is what each device has, of which it sends an
    equal part to each. Levels are given from the inside out; those with one member cost nothing.
    """
    inner, moving, waiting, call = 1, 0.0, 0.0, 0.0
    members = math.prod(level.size for level in levels)
    for level in levels:
        if level.size > 1:
            if kind == "all-to-all":
                share = (level.size - 1) * inner / members
            else:
                share = sent_share(kind, level.size) / inner
            moving = max(moving, size_bytes * share / level.bandwidth)
            waiting += hops(kind, level.size, switched=level.switched) * level.hop_time
            call = max(call, level.call_time)
            inner *= level.size
    return moving + waiting + call


def dispatch_time(size_bytes: float, copies: float, levels: Sequence[Level], reach: float = 1.0) -> float:
    """Time in which every device sends its tokens to those that need them, each token once wherever it is needed.

    Of the bytes, ``copies`` rows are of one token, whose readers are drawn evenly from a ``reach`` of all. A token
    crosses to another machine once
    and goes on from there over the links inside, to each of its readers once (DeepSeek-AI, "DeepSeek-V3 Technical
    Report", 2024, section 3.2.2). Levels are machines' devices and machines.
    """
    token = size_bytes / max(copies, 1.0)
    members = math.prod(level.size for level in levels)
    moving = waiting = call = 0.0
    for number, level in enumerate(levels):
        if level.size > 1:
            targets = members if number == 0 else level.size
            drawn = max(1.0, reach * targets)
            reached = drawn * (1.0 - (1.0 - 1.0 / drawn) ** copies) * (targets - 1) / targets
            moving = max(moving, token * reached / level.bandwidth)
            waiting += hops("all-to-all", level.size, switched=level.switched) * level.hop_time
            call = max(call, level.call_time)
    return moving + waiting + call


def neighbour_time(size_bytes: float, levels: Sequence[Level]) -> float:
    """Time in which every device of a ring sends so many bytes to the next one: that of the slowest link in use."""
    return max((size_bytes / level.bandwidth + level.call_time for level in levels if level.size > 1), default=0.0)


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

    All are by layer in the order of the forward part: its work, and what exchanging its gradients and weights takes.
    Layers exchange one after the other: gradients once their backward part has ended, weights in the order in which
    they are needed. Exchanges take the ``occupied`` part of the device away from the work that hides them.
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
