"""The objective and the feasibility of a schedule: the only place where they are defined.

Source: Moirai (2023), §III: precedence and flows (eq. 4 to 5), memory (eq. 6), operators on one device (eq. 7),
congestion at senders and receivers (eq. 8). The objective is the end of the last operator.

Two spans exclude each other if neither ends before the other starts: what takes no time may stand at an end of another
span, but not inside it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from partita.engines.search.result import PlanEvaluation
from partita.ground.errors import InputError
from partita.ground.rounding import TOLERANCE, leq
from partita.problems.makespan.problem import MakespanPlan, MakespanProblem

#: Name, start and end.
Span = tuple[str, float, float]


class MakespanEvaluation(PlanEvaluation, frozen=True, kw_only=True):
    """What a schedule is worth: the end of its last operator."""

    memory: tuple[float, ...]  #: What the operators of each device hold together.
    busy: tuple[float, ...]  #: Time for which operators run on each device, one by one.


def evaluate(problem: MakespanProblem, plan: MakespanPlan) -> MakespanEvaluation:
    """Objective and feasibility of a schedule, from the problem alone.

    Raises ``InputError`` if it is not a schedule of this problem: an operator is missing or unknown, a device or flow
    is unknown, or a time is not finite.
    """
    _check_names(problem, plan)
    violations = [*_operators(problem, plan), *_precedence(problem, plan), *_flows(problem, plan)]
    count = len(problem.devices)
    running: list[list[Span]] = [[] for _ in range(count)]
    leaving: list[list[Span]] = [[] for _ in range(count)]
    entering: list[list[Span]] = [[] for _ in range(count)]
    memory, busy = [0.0] * count, [0.0] * count
    for op in problem.operators:
        placed = plan.operators[op.id]
        running[placed.device].append((op.label, placed.start, placed.end))
        memory[placed.device] += op.memory
        busy[placed.device] += placed.end - placed.start
    for identity, sent in plan.flows.items():
        span = f"flow {identity}", sent.start, sent.end
        leaving[sent.source].append(span)
        entering[sent.target].append(span)
    for place, device in enumerate(problem.devices):
        if device.memory is not None and not leq(memory[place], device.memory):
            violations.append(
                f"device {device.name!r} holds {memory[place]:g} {problem.memory_unit}, "
                f"{memory[place] - device.memory:g} more than its {device.memory:g}"
            )
        if problem.serial_operators:
            violations += _overlaps(running[place], f"run on device {device.name!r} at the same time")
        if problem.sender_congestion:
            violations += _overlaps(leaving[place], f"leave device {device.name!r} at the same time")
        if problem.receiver_congestion:
            violations += _overlaps(entering[place], f"enter device {device.name!r} at the same time")
    return MakespanEvaluation(
        objective=max(placed.end for placed in plan.operators.values()),
        violations=tuple(violations),
        memory=tuple(memory),
        busy=tuple(busy),
    )


def _check_names(problem: MakespanProblem, plan: MakespanPlan) -> None:
    """Refuse what is no schedule of the problem."""
    known = {op.id for op in problem.operators}
    if missing := known - plan.operators.keys():
        raise InputError(f"the plan does not say where operator {min(missing)} runs ({len(missing)} are missing)")
    if unknown := plan.operators.keys() - known:
        raise InputError(f"the plan names operator {min(unknown)}, which the problem does not have")
    if unknown := plan.flows.keys() - {flow.id for flow in problem.flows}:
        raise InputError(f"the plan names flow {min(unknown)}, which the problem does not have")
    devices = range(len(problem.devices))
    for identity, placed in plan.operators.items():
        _check_entry(f"operator {identity}", (placed.device,), (placed.start, placed.end), devices)
    for identity, sent in plan.flows.items():
        _check_entry(f"flow {identity}", (sent.source, sent.target), (sent.start, sent.end), devices)


def _check_entry(what: str, places: Iterable[int], times: Iterable[float], devices: range) -> None:
    for place in places:
        if place not in devices:
            raise InputError(f"the plan has {what} on device {place}; the devices are 0 to {len(devices) - 1}")
    if not all(map(math.isfinite, times)):
        raise InputError(f"the plan's times of {what} are not finite")


def _lasts(start: float, end: float, time: float) -> bool:
    """Whether a span is so long, up to the rounding of its ends."""
    return abs(end - start - time) <= TOLERANCE * max(abs(end), time)


def _operators(problem: MakespanProblem, plan: MakespanPlan) -> Iterable[str]:
    """Devices that operators may have, their lengths and classes."""
    homes: dict[int, tuple[int, str]] = {}
    for op in problem.operators:
        placed = plan.operators[op.id]
        device, time = problem.devices[placed.device].name, op.times[placed.device]
        if placed.start < 0:
            yield f"{op.label} starts at {placed.start:g}, before 0"
        if time is None:
            yield f"{op.label} is on device {device!r}, where it cannot run"
        elif not _lasts(placed.start, placed.end, time):
            yield f"{op.label} lasts {placed.end - placed.start:g} on device {device!r}; it takes {time:g} there"
        if op.colocation is not None:
            home, first = homes.setdefault(op.colocation, (placed.device, op.label))
            if home != placed.device:
                yield f"{op.label} is not on the device of {first}, both are of colocation class {op.colocation}"


def _precedence(problem: MakespanProblem, plan: MakespanPlan) -> Iterable[str]:
    """What waits for what, whatever is moved."""
    for pair in [(flow.source, flow.target) for flow in problem.flows] + list(problem.precedence):
        before, after = (plan.operators[identity] for identity in pair)
        if not leq(before.end, after.start):
            yield (
                f"operator {pair[1]} starts at {after.start:g}, before its predecessor {pair[0]} ends at {before.end:g}"
            )


def _flows(problem: MakespanProblem, plan: MakespanPlan) -> Iterable[str]:
    """Flows between devices: there, of the right length, after the producer and before the reader."""
    names = [device.name for device in problem.devices]
    for flow in problem.flows:
        before, after, sent = plan.operators[flow.source], plan.operators[flow.target], plan.flows.get(flow.id)
        if (sent is None) != (before.device == after.device):
            is_moved, where = ("is not", "two devices") if sent is None else ("is", "one device")
            yield f"flow {flow.id} {is_moved} moved, but operators {flow.source} and {flow.target} are on {where}"
        if sent is None or before.device == after.device:
            continue
        if (sent.source, sent.target) != (before.device, after.device):
            yield (
                f"flow {flow.id} goes from device {names[sent.source]!r} to {names[sent.target]!r}, its operators are "
                f"on {names[before.device]!r} and {names[after.device]!r}"
            )
        time = flow.times[sent.source][sent.target]
        if not _lasts(sent.start, sent.end, time):
            yield f"flow {flow.id} lasts {sent.end - sent.start:g}; it takes {time:g} between these devices"
        if not leq(before.end, sent.start):
            yield f"flow {flow.id} starts at {sent.start:g}, before its producer {flow.source} ends at {before.end:g}"
        if not leq(sent.end, after.start):
            yield f"operator {flow.target} starts at {after.start:g}, before flow {flow.id} arrives at {sent.end:g}"


def _overlaps(spans: list[Span], what: str) -> Iterable[str]:
    """Spans that exclude each other; each is compared with the one before it that ends last."""
    last: Span | None = None
    for span in sorted(spans, key=lambda entry: entry[1:]):
        if last is not None and not (leq(last[2], span[1]) or leq(span[2], last[1])):
            yield f"{last[0]} and {span[0]} {what}"
        if last is None or span[2] >= last[2]:
            last = span
