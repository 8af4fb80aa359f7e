"""Which variants of the throughput problem one uses, so that every component can say what it takes on."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Literal

import msgspec

from partita.ground.errors import InputError
from partita.problems.throughput.devices import TRANSFER_TIMES, LinkedGroup
from partita.problems.throughput.problem import ThroughputProblem

#: Seconds per time unit.
_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6}

Variant = Literal["overlap", "duplex", "gpipe", "replicas", "groups", "streaming", "peak", "row"]

#: What each variant is in words, and whether a problem uses it.
_VARIANTS: dict[Variant, tuple[str, Callable[[ThroughputProblem], bool]]] = {
    "overlap": (
        "communication that overlaps with work (communication=overlap)",
        lambda p: p.communication == "overlap",
    ),
    "duplex": (
        "communication in both directions at once (communication=duplex)",
        lambda p: p.communication == "duplex",
    ),
    "gpipe": ("the GPipe objective (schedule gpipe on a training problem)", lambda p: p.gpipe),
    "replicas": ("replicated stages (max_replicas above 1)", lambda p: p.max_replicas > 1),
    "groups": ("groups of devices behind slower links", lambda p: bool(p.groups)),
    "streaming": ("memory over the limit at a price (streaming)", lambda p: p.streaming),
    "peak": (
        "memory that depends on the order in which operators run (working_memory=peak)",
        lambda p: p.working_memory == "peak",
    ),
    "row": ("stages that are runs of a chain of units", lambda p: p.row is not None),
}


def variants_of(problem: ThroughputProblem) -> tuple[Variant, ...]:
    """The variants that a problem uses; none for the plain one."""
    return tuple(variant for variant, (_, used) in _VARIANTS.items() if used(problem))


def refuse_variants(problem: ThroughputProblem, supported: Collection[Variant] = ()) -> str | None:
    """None if a component that supports these variants can take the problem on, otherwise what it does not know."""
    missing = [_VARIANTS[variant][0] for variant in variants_of(problem) if variant not in supported]
    if not missing:
        return None
    return f"it does not know {', nor '.join(missing)}; use the solver {solver_of(problem)!r} with acyclic splits"


def solver_of(problem: ThroughputProblem) -> str:
    """The solver that knows all that an acyclic split of a problem may have to keep."""
    return "exact" if problem.row is None else "row"


def split_evenly(problem: ThroughputProblem, groups: int, bandwidth: float) -> ThroughputProblem:
    """The problem with its devices in groups of (nearly) equal size, the larger ones first; 1 for none.

    ``bandwidth`` is that of each group's link, as a fraction of the slowest accelerator's own. ``InputError`` if there
    are more groups than devices, or a number is out of range.
    """
    if groups < 1 or groups > problem.device_count:
        raise InputError(f"{groups} groups of {problem.device_count} devices: each group needs a device")
    if not 0 < bandwidth < float("inf"):
        raise InputError(f"the groups' bandwidth is {bandwidth}; it must be positive and finite")
    if groups == 1:
        return problem.replace(groups=())
    paying = [kind for kind in problem.kinds if kind.accelerator and kind.count > 0] or list(problem.kinds)
    return problem.replace(
        groups=tuple(
            LinkedGroup(
                name=f"group:{number}",
                counts=tuple(kind.count // groups + (number < kind.count % groups) for kind in problem.kinds),
                transfer_time_per_unit=max(kind.transfer_time_per_unit for kind in paying) / bandwidth,
                transfer_latency=max(kind.transfer_latency for kind in paying),
            )
            for number in range(groups)
        )
    )


def scale_bandwidth(problem: ThroughputProblem, factor: float) -> ThroughputProblem:
    """The problem with every bandwidth times ``factor``; the fixed time per transfer stays."""
    if factor == 1.0:
        return problem
    slowed = [name for name in TRANSFER_TIMES if name != "transfer_latency"]
    return problem.with_links(slowed, lambda time: time / factor)


def reload_at(problem: ThroughputProblem, bytes_per_s: float) -> ThroughputProblem:
    """The problem with another bandwidth for fetching what does not fit into memory.

    ``InputError`` if the bandwidth is not positive, or the problem's time unit is not known.
    """
    if not bytes_per_s > 0:
        raise InputError(f"the reload bandwidth is {bytes_per_s}; it must be positive")
    if problem.unit not in _SECONDS:
        raise InputError(
            f"problem {problem.name!r} has times in {problem.unit!r}, for which bytes per second mean nothing"
        )
    time = 1.0 / (bytes_per_s * _SECONDS[problem.unit])
    return problem.replace(kinds=tuple(msgspec.structs.replace(k, reload_time_per_byte=time) for k in problem.kinds))
