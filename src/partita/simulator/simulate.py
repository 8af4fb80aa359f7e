"""Simulate: a program in, its time line and what can be read off it out."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np

from partita.engines.kernels.arrays import Floats, Longs
from partita.ground.errors import InputError, StuckError
from partita.ground.shown import brief
from partita.simulator.batch_end import add_ends
from partita.simulator.builder import ProgramTasks, owner_name
from partita.simulator.critical import critical_path
from partita.simulator.engine import Times, run
from partita.simulator.memory import memory_curves
from partita.simulator.program import Program
from partita.simulator.rounds import offsets
from partita.simulator.timeline import SORTS, Timeline
from partita.simulator.transfers import add_messages


@dataclass(frozen=True)
class DeviceUse:
    """How the devices of one replica, which run in lockstep, spend the step."""

    devices: tuple[str, ...]  #: Their names.
    #: Number of the place in the program, and of the replica.
    place: int
    instance: int
    busy: float  #: Time that they work.
    #: Time that they move data or synchronise without working, traffic inside the replica included, and while they work
    #: or have such traffic.
    communication_exposed: float
    communication_hidden: float
    idle: float  #: The rest: they wait.
    #: The most that each holds at once, and when; None if nothing is known of memory.
    peak_memory_bytes: float | None = None
    peak_time: float | None = None

    __repr__ = brief


@dataclass(frozen=True)
class Simulation:
    """What a simulated step says, in the program's unit of time."""

    #: What ran, and when.
    program: Program
    timeline: Timeline
    #: The step: from the start (or from the end of the batch before, where batches follow without a break) to the end
    #: of the last task.
    begin: float
    finish: float
    uses: tuple[DeviceUse, ...]  #: One entry for each replica of each place of devices.
    #: Time between two microbatches once that has settled: the longest of all places, so that it is never less than
    #: what the busiest device takes. None if the batch is too short for that, or never settles.
    period: float | None
    done: Floats  #: (places, microbatches) When each place has done with each microbatch.
    #: (microbatches,) When the first step of each microbatch starts and its last one ends.
    entered: Floats
    left: Floats
    #: Two of (steps, microbatches): when the work of every step starts and ends; nan where it has none.
    worked: tuple[Floats, Floats]
    #: Two of (parts, microbatches): the same of every part of every step, copies and transfers included.
    passed: tuple[Floats, Floats]

    __repr__ = brief

    @property
    def step_time(self) -> float:
        """Time of one batch."""
        return self.finish - self.begin

    @property
    def throughput(self) -> float:
        """Microbatches per unit of time."""
        return self.program.microbatches / self.step_time if self.step_time > 0 else math.inf

    @property
    def bubble_fraction(self) -> float:
        """Share of the devices' time in which they wait: neither work nor move data."""
        devices = sum(len(use.devices) for use in self.uses)
        whole = self.step_time * devices
        return sum(use.idle * len(use.devices) for use in self.uses) / whole if whole > 0 else 0.0

    @property
    def latencies(self) -> Floats:
        """(microbatches,) Time of each from its first to its last step."""
        return self.left - self.entered

    def held(self, place: int, instance: int, time: float) -> list[int]:
        """The microbatches whose activations the devices of a replica hold at an instant, ascending."""
        own = np.arange(instance, self.program.total, self.program.places[place].instances)
        count = np.zeros(len(own), dtype=np.int64)
        for number in self._steps_at.get(place, ()):
            step = self.program.steps[number]
            start, end = (table[number, own] for table in self.worked)
            count += (step.saves > 0) & (start <= time)
            count -= (step.frees > 0) & (end <= time)
        return [int(m) for m in own[count > 0]]

    @functools.cached_property
    def _steps_at(self) -> dict[int, list[int]]:
        """The steps of every place."""
        found: dict[int, list[int]] = {}
        for number, step in enumerate(self.program.steps):
            found.setdefault(step.place, []).append(number)
        return found

    def critical(self) -> list[int]:
        """The slices that the step's length is made of, first first."""
        return critical_path(self.timeline)


def build(program: Program) -> ProgramTasks:
    """The tasks of a program: every part of every step, for every microbatch, with what it waits for and takes."""
    tasks = ProgramTasks(program)
    tasks.add_steps()
    if tasks.contended:
        # Transfers between the ends of every message, over engines of devices and links that are shared or taken.
        add_messages(tasks)
    if program.ends:
        add_ends(tasks)
    return tasks.finish()


def simulate(program: Program) -> Simulation:
    """Run a program.

    Raises ``InputError`` if some of its actions can never run.
    """
    if program.microbatches < 1:
        raise InputError(f"{program.name}: microbatches is {program.microbatches}; it must be at least 1")
    if program.ends and program.orders is None:
        raise InputError(f"{program.name}: a program without orders has no end of a batch; leave its ends out")
    tasks = build(program)
    try:
        times = run(tasks.graph)
    except StuckError as error:
        raise InputError(
            f"{program.name} cannot run under schedule {program.schedule}: {_stuck(tasks, error.task)}"
        ) from None
    timeline = _timeline(program, tasks, times)
    ends = _batch_ends(program, tasks, times)
    finish = timeline.finish
    begin = 0.0
    if not program.flushes:
        begin, finish = ends[program.counted - 1], ends[program.counted]
    done, entered, left = _passages(program, tasks, times)
    return Simulation(
        program=program,
        timeline=timeline,
        begin=begin,
        finish=finish,
        uses=tuple(_uses(program, tasks, times, timeline, begin, finish)),
        period=_period(program, tasks, done),
        done=done,
        entered=entered,
        left=left,
        worked=(
            np.where(tasks.works >= 0, times.start[tasks.works], np.nan),
            np.where(tasks.works >= 0, times.end[tasks.works], np.nan),
        ),
        passed=_rows(program, tasks, times),
    )


def _stuck(tasks: ProgramTasks, task: int) -> str:
    """What of a program can never start, in words."""
    program, step = tasks.program, int(tasks.step[task])
    if step < 0:
        return "the end of a batch is never reached"
    action = program.steps[step]
    what = SORTS[action.sort].name
    return (
        f"the {what} of stage {action.stage} for microbatch {int(tasks.microbatch[task])} at "
        f"{program.places[action.place].name} waits for something that waits for it; use another schedule or split"
    )


def _timeline(program: Program, tasks: ProgramTasks, times: Times) -> Timeline:
    """Everything that has a lane; what has none stands for what let it happen."""
    shown = tasks.lane >= 0
    number = np.cumsum(shown) - 1
    cause = times.cause.copy()
    hidden = np.flatnonzero(~shown)
    if len(hidden):
        source = np.arange(len(cause))
        for task in hidden[np.argsort(times.end[hidden], kind="stable")].tolist():
            found = tasks.stand_in.get(task, int(cause[task]))
            source[task] = found if found < 0 or shown[found] else source[found]
        known = cause >= 0
        cause[known] = source[cause[known]]
    cause = np.where(cause >= 0, number[cause], -1)
    stage = np.array([step.stage for step in program.steps] or [-1], dtype=np.int64)
    return Timeline(
        name=f"{program.name}: {program.schedule}, {program.microbatches} {program.pieces[1]}",
        unit=program.unit,
        devices=tuple(
            owner_name(devices) for place in program.places if not place.is_link for devices in place.replicas
        ),
        lanes=tuple(tasks.lanes),
        start=times.start[shown],
        end=times.end[shown],
        lane=tasks.lane[shown],
        sort=tasks.sort[shown],
        stage=np.where(tasks.step[shown] >= 0, stage[tasks.step[shown]], -1),
        microbatch=tasks.microbatch[shown],
        names=_names(program, tasks.step[shown]),
        cause=cause[shown],
        flows=_flows(tasks, number, shown),
        memory=memory_curves(program, tasks.works, times.start, times.end),
    )


def _names(program: Program, steps: Longs) -> tuple[str, ...]:
    """The names of slices by their steps; empty if no step has one."""
    named = [step.name for step in program.steps]
    return tuple(named[step] if step >= 0 else "" for step in steps) if any(named) else ()


def _flows(tasks: ProgramTasks, number: Longs, shown: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Longs:
    """Pairs of slices of one microbatch on different lanes of which one waits for the other."""
    before, after = tasks.graph.before, tasks.graph.after
    linked = shown[before] & shown[after] & (tasks.lane[before] != tasks.lane[after])
    linked &= tasks.microbatch[before] == tasks.microbatch[after]
    return np.stack([number[before[linked]], number[after[linked]]], axis=1).astype(np.int64)


def _batch_ends(program: Program, tasks: ProgramTasks, times: Times) -> list[float]:
    """When each batch has ended."""
    batch = tasks.microbatch // program.microbatches
    return [float(times.end[batch == k].max()) for k in range(program.batches)]


def _passages(program: Program, tasks: ProgramTasks, times: Times) -> tuple[Floats, Floats, Floats]:
    """When every place has done with every microbatch, and when each enters and leaves."""
    done = np.zeros((len(program.places), program.total))
    entered, left = np.full(program.total, math.inf), np.zeros(program.total)
    stepped = np.flatnonzero(tasks.step >= 0)
    micro = tasks.microbatch[stepped]
    np.minimum.at(entered, micro, times.start[stepped])
    np.maximum.at(left, micro, times.end[stepped])
    place = np.array([step.place for step in program.steps], dtype=np.int64)[tasks.step[stepped]]
    np.maximum.at(done, (place, micro), times.end[stepped])
    return done, entered, left


def _period(program: Program, tasks: ProgramTasks, done: Floats) -> float | None:
    """Time between two microbatches, over the longest part of the run that neither fills nor drains.

    Where streams take what is ready first, microbatches may overtake each other and the pace of one part of a run may
    be above that of all of it; then it is at least what the busiest stream needs for a microbatch.
    """
    if not program.settles:
        return None
    instances = [place.instances for place in program.places]
    turn = math.lcm(*instances)
    depth = sum(place.instances for place in program.places if not place.is_link)
    if program.orders is None:
        depth = int(offsets(program).max()) + max(instances)
    last = program.total - 1 - depth
    turns = (last - max(depth, program.total // 4)) // turn
    if turns < 1:
        return None
    span = turns * turn
    pace = (done[:, last] - done[:, last - span]) / span + _per_microbatch(program)
    dynamic = program.orders is not None and len(tasks.graph.held) > 0
    return max(float(pace.max()), _busiest(program, tasks) if dynamic else 0.0)


def _per_microbatch(program: Program) -> Floats:
    """What the end of a batch costs each place for each of its microbatches."""
    found = np.zeros(len(program.places))
    every = program.end_every or program.microbatches
    for number, end in enumerate(program.ends):
        found[number] += end.sync / every
        if end.link >= 0:
            found[end.link] += end.link_sync / every
    return found


def _busiest(program: Program, tasks: ProgramTasks) -> float:
    """The longest that some stream is busy for a microbatch."""
    stepped = (tasks.lane >= 0) & (tasks.step >= 0)
    busy = np.bincount(tasks.lane[stepped], weights=tasks.graph.duration[stepped], minlength=len(tasks.lanes))
    return float(busy.max()) / program.total


def _uses(
    program: Program, tasks: ProgramTasks, times: Times, timeline: Timeline, begin: float, finish: float
) -> list[DeviceUse]:
    """How every replica spends the time from ``begin`` to ``finish``."""
    work = np.array([sort.work for sort in SORTS])
    device = np.array([lane.device for lane in tasks.lanes], dtype=np.int64)
    start, end = np.clip(times.start, begin, finish), np.clip(times.end, begin, finish)
    lane = tasks.lane
    counted = (lane >= 0) & (end > start)
    rows = np.flatnonzero(counted)
    owner, is_work = device[lane[rows]], work[tasks.sort[rows]]
    starts, ends = start[rows], end[rows]
    share = np.array([step.traffic for step in program.steps] + [0.0])[tasks.step[rows]] * is_work
    there = owner >= 0
    traffic = np.bincount(owner[there], ((ends - starts) * share)[there], minlength=len(timeline.devices))
    for moved, lanes in tasks.received:
        # Who receives moves data, too.
        owner, is_work = np.concatenate([owner, device[lanes]]), np.concatenate([is_work, np.zeros(len(moved), bool)])
        starts, ends = np.concatenate([starts, start[moved]]), np.concatenate([ends, end[moved]])
    order = np.lexsort((starts, owner))
    owner, is_work, starts, ends = owner[order], is_work[order], starts[order], ends[order]
    bounds = np.searchsorted(owner, np.arange(len(timeline.devices) + 1))
    found, number = [], 0
    for place_number, place in enumerate(program.places):
        for instance, devices in enumerate(place.replicas):
            mine = slice(int(bounds[number]), int(bounds[number + 1]))
            working, all_starts, all_ends = is_work[mine], starts[mine], ends[mine]
            working_time = _union(all_starts[working], all_ends[working])
            busy = working_time - float(traffic[number])
            moving = _union(all_starts[~working], all_ends[~working])
            either = _union(all_starts, all_ends)
            curve = timeline.memory[number] if timeline.memory else None
            found.append(
                DeviceUse(
                    devices=devices,
                    place=place_number,
                    instance=instance,
                    busy=busy,
                    communication_exposed=_above(either - busy, finish),
                    communication_hidden=_above(moving - (either - working_time), finish),
                    idle=_above(finish - begin - either, finish),
                    peak_memory_bytes=None if curve is None else curve.peak_bytes,
                    peak_time=None if curve is None else curve.peak_time,
                )
            )
            number += 1
    return found


def _rows(program: Program, tasks: ProgramTasks, times: Times) -> tuple[Floats, Floats]:
    """Start and end of every part: the tasks of each are numbered in a row."""
    parts = tasks.step >= 0
    return times.start[parts].reshape(-1, program.total), times.end[parts].reshape(-1, program.total)


def _above(time: float, scale: float) -> float:
    """A difference of sums of times; what is left by rounding is nothing."""
    return time if time > 1e-12 * scale else 0.0


def _union(start: Floats, end: Floats) -> float:
    """Length of the union of intervals that are sorted by their starts."""
    if not len(start):
        return 0.0
    reached = np.concatenate([[-math.inf], np.maximum.accumulate(end)[:-1]])
    return float(np.maximum(end - np.maximum(start, reached), 0.0).sum())
