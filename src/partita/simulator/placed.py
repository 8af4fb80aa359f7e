"""Pipelines on physical devices: stages and replicas whose links differ, and the step that they make.

``placed_program`` runs a lowered pipeline where it is placed: each replica pays for the links between its own devices
and those that it talks to.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from partita.costs.collectives import Level, collective_time, exposed_once
from partita.engines.kernels.arrays import Floats
from partita.ground.errors import InputError
from partita.nouns.topology.counted import CountedLinks
from partita.simulator.pipeline import Exchange, Exchanged, Pipeline, PipelineStage, StageWork
from partita.simulator.program import End, Program, Step
from partita.simulator.schedules import find_schedule
from partita.simulator.stages import staged_program
from partita.simulator.steps import StepSummary, step_summary
from partita.simulator.timeline import BACKWARD

#: [device, device] bytes per second: a matrix, or what is indexed as one.
Bandwidths = Floats | CountedLinks

#: Parts of the gradients that are exchanged one after the other while the backward part goes on.
BUCKETS = 8

#: By stage, then by replica: the devices of the replica, which run in lockstep.
Layout = tuple[tuple[tuple[int, ...], ...], ...]


def ring_bytes(stage: PipelineStage) -> float:
    """Bytes that each device of a stage moves over its links in a ring all-reduce: 2·(R − 1)/R of its parameters."""
    return 2.0 * (stage.data_parallel - 1) / stage.data_parallel * stage.parameter_bytes


def links_of(bandwidth: Bandwidths, ends: Sequence[Sequence[int]], others: Sequence[Sequence[int]]) -> Floats:
    """(n,) Bytes per second between groups: of each pair the slowest two devices that exchange the same part.

    All groups of one side have as many devices.
    """
    one, other = np.array(ends, dtype=np.int64), np.array(others, dtype=np.int64)
    part = np.arange(max(one.shape[1], other.shape[1]))
    found: Floats = bandwidth[one[:, part % one.shape[1]], other[:, part % other.shape[1]]].min(axis=1)
    return found


def all_reduce_s(
    stage: PipelineStage, row: Sequence[tuple[int, ...]], bandwidth: Bandwidths, machine_of: Sequence[int] = ()
) -> float:
    """Seconds of a stage's all-reduce on given devices: one ring, or in levels over machines if that is faster.

    In levels, the replicas of a machine scatter what they have among them, all that hold the same part reduce it over
    the machines, each over its own links, and the machine gathers it again. That needs as many replicas in each of
    the machines.
    """
    if stage.data_parallel < 2 or stage.parameter_bytes == 0:
        return 0.0
    found = _ring(stage.parameter_bytes, row, bandwidth)
    machines = _by_machine(row, machine_of)
    each = len(machines[0])
    if len(machines) > 1 and each > 1:
        inside = max(_ring(stage.parameter_bytes, members, bandwidth) for members in machines)
        across = max(_ring(stage.parameter_bytes / each, alike, bandwidth) for alike in zip(*machines, strict=True))
        found = min(found, inside + across)
    return found


#: Seconds per byte that some groups take to sum gradients up, to gather weights, and to sum shares up, each of the
#: collective of that name.
Rates = Callable[[Exchanged, tuple[str, str, str]], tuple[float, float, float]]


def exchange_s(exchange: Exchange, rates: Rates) -> float:
    """What the replicas of a stage wait for once in a step, given what a byte takes those that exchange it."""
    kinds = "reduce-scatter" if exchange.scattered else "all-reduce", "all-gather", "all-reduce"
    reduce, gather = ([0.0] * len(exchange.forward_s) for _ in range(2))
    for part in (exchange, exchange.experts):
        if part is None:
            continue
        reducing, gathering, summing = rates(part, kinds)
        for rate, found, sizes, waits in (
            (reducing, reduce, part.reduce_bytes, part.reduce_wait_s),
            (gathering, gather, part.gather_bytes, part.gather_wait_s),
            (summing, reduce, part.sum_bytes, part.sum_wait_s),
        ):
            for place, (size, wait) in enumerate(zip(sizes, waits, strict=True)):
                found[place] += size * rate + wait if size > 0 else 0.0
    if not exchange.overlap:
        return exchange.rest_s + sum(reduce) + sum(gather)
    waited = exposed_once(exchange.forward_s, exchange.backward_s, reduce, gather, exchange.occupied)
    return exchange.rest_s + waited


def _placed_rates(row: Sequence[tuple[int, ...]], bandwidth: Bandwidths, machine_of: Sequence[int]) -> Rates:
    """Where replicas have these devices."""

    def rates(part: Exchanged, kinds: tuple[str, str, str]) -> tuple[float, float, float]:
        groups = _cut(row, part.width) if part.width else [*row]
        each = len(groups) // part.copies
        near = [groups[first : first + each] for first in range(0, len(groups), each)]
        far = [list(ring) for ring in zip(*near, strict=True)] if part.copies > 1 else []
        # Nobody goes on before the slowest of them has ended.
        reduce, gather, total = (
            max((_seconds_per_byte(kind, ring, bandwidth, machine_of) for ring in rings), default=0.0)
            for kind, rings in zip(kinds, (near, near, far), strict=True)
        )
        return reduce, gather, total

    return rates


def _cut(row: Sequence[tuple[int, ...]], width: int) -> list[tuple[int, ...]]:
    """The devices of all replicas in groups of so many."""
    devices = [device for group in row for device in group]
    return [tuple(devices[first : first + width]) for first in range(0, len(devices), width)]


def _seconds_per_byte(
    kind: str, row: Sequence[tuple[int, ...]], bandwidth: Bandwidths, machine_of: Sequence[int]
) -> float:
    """Of a collective of a stage's replicas: in levels where each machine has as many of them, else around one ring."""
    inside = _by_machine(row, machine_of)
    across = list(zip(*inside, strict=True))
    levels = [Level(len(rings[0]), _slowest(rings, bandwidth)) for rings in (inside, across) if len(rings[0]) > 1]
    return collective_time(kind, 1.0, levels)


def _by_machine(row: Sequence[tuple[int, ...]], machine_of: Sequence[int]) -> list[list[tuple[int, ...]]]:
    """The replicas of each machine where all have as many of them, else all of them as if they were in one."""
    machines: dict[int, list[tuple[int, ...]]] = {}
    for group in row if machine_of else ():
        machines.setdefault(machine_of[group[0]], []).append(group)
    return [*machines.values()] if len({*map(len, machines.values())}) == 1 else [list(row)]


def _slowest(rings: Sequence[Sequence[tuple[int, ...]]], bandwidth: Bandwidths) -> float:
    """Bytes per second of the slowest link of some rings."""
    before = [group for ring in rings for group in (ring[-1], *ring[:-1])]
    return float(links_of(bandwidth, before, [group for ring in rings for group in ring]).min())


def _ring(size: float, members: Sequence[tuple[int, ...]], bandwidth: Bandwidths) -> float:
    """Seconds of a ring all-reduce over its slowest link: 2·(R − 1)/R of the bytes pass each of R."""
    count = len(members)
    return 2.0 * (count - 1) / count * size / _slowest([members], bandwidth)


def placed_program(
    plan: Pipeline,
    layout: Layout,
    bandwidth: Bandwidths,
    *,
    kinds: Sequence[str] = (),
    machine_of: Sequence[int] = (),
    microbatches: int | None = None,
    schedule: str | None = None,
    alike: Sequence[Sequence[int]] = (),
) -> Program:
    """What happens when a plan runs on given devices, those of each replica; bandwidths are by device and device.

    Each end of a transfer pays bytes over the bandwidth of its own row, as in the mapping problem, in its work; half of
    that where devices send and receive at once. ``kinds`` of every device say stage times; without them all are as
    planned. ``machine_of`` every device allows exchanges in levels; without it there is one ring. ``microbatches`` and
    ``schedule`` are what to run instead of what was planned. ``alike`` are groups of replicas that do the same at the
    same times (``alike_replicas``): of each one runs, with the devices of all.

    Raises ``InputError`` if the plan's stages are not in a row, or the schedule cannot run it.
    """
    if not plan.passed_once:
        raise InputError(
            f"{plan.name}: its stages wait for each other in a circle; they are not simulated where they are placed"
        )
    count, total = len(plan.stages), plan.microbatches if microbatches is None else microbatches
    kept = tuple(tuple(row[group[0]] for group in alike) for row in layout) if alike else layout
    edges = [(number, count + number) for number in range(count)] if plan.training else []
    for one in plan.handovers:
        shift = count if one.backward else 0
        edges.append((shift + one.source, shift + one.target))
    behind = 0
    stages: list[PipelineStage] = []
    for stage, row in zip(reversed(plan.stages), reversed(layout), strict=True):
        behind += stage.data_parallel
        if stage.exchange is not None:
            end = End(sync=exchange_s(stage.exchange, _placed_rates(row, bandwidth, machine_of)), update=stage.update_s)
        else:
            sync = all_reduce_s(stage, row, bandwidth, machine_of)
            end = End(sync=sync, behind=_behind(sync), update=stage.update_s)
        stages.append(
            PipelineStage(
                replicas=tuple(
                    tuple(f"device:{device}" for replica in group for device in row[replica])
                    for group in alike or [(replica,) for replica in range(len(row))]
                ),
                forward=StageWork(stage.planned_s[0]),
                backward=StageWork(stage.planned_s[1]) if plan.training else None,
                in_flight=min(-(-behind // stage.data_parallel), total),
                end=end,
            )
        )
    pipeline = Pipeline(
        name=plan.name, unit="s", stages=tuple(reversed(stages)), edges=tuple(dict.fromkeys(edges)), notes=plan.notes
    )
    program = staged_program(pipeline, find_schedule(schedule or plan.schedule), total)
    times = _times(plan, kept, bandwidth, kinds, total * program.batches)
    steps = [_timed(step, plan, kept, kinds, times) for step in program.steps]
    return replace(program, steps=steps)


def _behind(sync: float) -> tuple[tuple[float, float], ...]:
    """Gradients are exchanged as they come, evenly over the backward part of the last microbatch."""
    return tuple((k / BUCKETS, sync / BUCKETS) for k in range(1, BUCKETS + 1)) if sync > 0 else ()


def _timed(
    step: Step, plan: Pipeline, layout: Layout, kinds: Sequence[str], times: list[tuple[Floats, Floats]]
) -> Step:
    """A step with what it takes of each microbatch."""
    if step.letter not in ("F", "B", "I", "W"):
        return step
    stage = plan.stages[step.stage]
    forward, backward = times[step.stage]
    if step.letter in ("F", "B"):
        return replace(step, times=forward if step.letter == "F" else backward)
    # Where the backward part is split, transfers go with the first part, which others wait for.
    later = _work(stage, layout[step.stage], kinds, len(backward))[1] * stage.later_share
    if step.letter == "W":
        return replace(step, times=later if step.absent is None else np.where(step.absent, 0.0, later))
    whole = np.zeros(len(backward), dtype=bool) if step.sorts is None else step.sorts == BACKWARD
    return replace(step, times=np.where(whole, backward, backward - later))


def placed_step(plan: Pipeline, layout: Layout, bandwidth: Bandwidths, **settings: object) -> StepSummary:
    """The step of a plan on given devices; parameters and errors as for ``placed_program``."""
    asked = settings.pop("microbatches", None)
    total = plan.microbatches if asked is None else int(str(asked))
    schedule, kinds = settings.get("schedule") or plan.schedule, settings.get("kinds") or ()
    alike: list[tuple[int, ...]] = []
    if plan.passed_once and find_schedule(str(schedule)).flush:
        alike = alike_replicas(plan, layout, bandwidth, total, kinds)  # type: ignore[arg-type]
    if alike:
        total = total // plan.stages[0].data_parallel * len(alike)

    def make(microbatches: int) -> Program:
        return placed_program(plan, layout, bandwidth, microbatches=microbatches, alike=alike, **settings)  # type: ignore[arg-type]

    return step_summary(make, total)


def alike_replicas(
    plan: Pipeline, layout: Layout, bandwidth: Bandwidths, microbatches: int, kinds: Sequence[str] = ()
) -> list[tuple[int, ...]]:
    """Groups of replicas whose stages take as long each, and hand over as fast; none if replicas are not independent.

    Where all stages have as many replicas, and each of these as many microbatches, the k-th replica of a stage talks to
    the k-th ones alone until all exchange what they have learnt.
    """
    count = plan.stages[0].data_parallel
    if any(stage.data_parallel != count for stage in plan.stages) or microbatches % count:
        return []
    times = _times(plan, layout, bandwidth, kinds, count)
    works = [_work(stage, row, kinds, count) for stage, row in zip(plan.stages, layout, strict=True)]
    columns = np.column_stack([part for pair in (*times, *works) for part in pair])
    found: dict[bytes, list[int]] = {}
    for replica, column in enumerate(np.ascontiguousarray(columns)):
        found.setdefault(column.tobytes(), []).append(replica)
    return [tuple(group) for group in found.values()]


def _work(
    stage: PipelineStage, row: Sequence[tuple[int, ...]], kinds: Sequence[str], microbatches: int
) -> tuple[Floats, Floats]:
    """(microbatches,) Forward and backward seconds of a stage on the devices of its replicas."""
    rows = np.array([max_work(stage, [kinds[d] for d in devices] if kinds else ()) for devices in row]).reshape(-1, 2)
    turns = rows[np.arange(microbatches) % len(row)]
    return turns[:, 0].copy(), turns[:, 1].copy()


def max_work(stage: PipelineStage, kinds: Sequence[str]) -> tuple[float, float]:
    """Forward and backward seconds of a replica whose devices are of some kinds: those of the slowest."""
    found = [stage.by_kind.get(kind, (math.inf, math.inf)) for kind in kinds] or [stage.planned_s]
    return max(found, key=sum)


def _times(
    plan: Pipeline, layout: Layout, bandwidth: Bandwidths, kinds: Sequence[str], microbatches: int
) -> list[tuple[Floats, Floats]]:
    """By stage, (microbatches,) seconds of its forward and of its backward part with its transfers."""
    found = [_work(stage, row, kinds, microbatches) for stage, row in zip(plan.stages, layout, strict=True)]
    counted = 0.5 if plan.duplex else 1.0
    for one in plan.handovers:
        a, b = len(layout[one.source]), len(layout[one.target])
        turns = range(min(math.lcm(a, b), microbatches))
        sources, targets = ([layout[end][m % n] for m in turns] for end, n in ((one.source, a), (one.target, b)))
        turn = np.arange(microbatches) % math.lcm(a, b)
        for end, mine, theirs in ((one.source, sources, targets), (one.target, targets, sources)):
            found[end][one.backward][:] += (counted * one.bytes / links_of(bandwidth, mine, theirs))[turn]
    return found
