"""What tasks are made with: rows of them, lanes, what waits for what and what is taken; and the steps of a program."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from partita.engines.kernels.arrays import Floats, Longs
from partita.simulator.engine import TaskGraph
from partita.simulator.program import Place, Program
from partita.simulator.rounds import IN, OUT, WORK, in_rounds, offsets, parts_of
from partita.simulator.timeline import COPY_IN, COPY_OUT, TRANSFER, Lane

#: The stream that each part of a step runs on.
_STREAMS = {
    "sum": ("compute", "compute", "compute"),
    "overlap": ("copy", "compute", "copy"),
    "duplex": ("in", "compute", "out"),
}


class ProgramTasks:
    """The tasks of one program, and where each belongs: rows of tasks are added one after the other, then ``finish``.

    Attributes
    ----------
    program, graph
        What they are the tasks of, and what the engine runs.
    sort, lane, step, microbatch
        (n,) For every task; −1 where it has none. A task without lane only passes on that something has happened.
    stand_in
        Tasks without lane by the task that the time line shows for it.
    lanes
        Of the time line, those of a device together.
    works
        (steps, microbatches) The task that does the work of a step.
    received
        Transfers with the lanes of the devices that receive them.
    """

    graph: TaskGraph
    sort: Longs
    lane: Longs
    step: Longs
    microbatch: Longs
    works: Longs

    def __init__(self, program: Program) -> None:
        self.program = program
        self.total = program.total
        #: Whether tensors move once, at both ends at the same time; where that takes the devices they do it end by end.
        self.contended = program.contention != "dedicated" and any(
            not place.is_link and place.streams != "sum" for place in program.places
        )
        #: Links between machines that move at the same time what comes at the same time.
        self.shares = program.contention == "shared" and not self.contended
        self.count = 0
        self.rows: list[tuple[Floats, Floats, Longs, Longs, Longs, Longs]] = []
        self.before: list[Longs] = []
        self.after: list[Longs] = []
        self.holds: list[tuple[Longs, Longs]] = []
        self.uses: list[tuple[Longs, Longs]] = []
        self.things = 0
        self.capacity: list[float] = []
        self.stand_in: dict[int, int] = {}
        self.received: list[tuple[Longs, Longs]] = []
        self.link_things: dict[int, Longs] = {}
        self.device_things: dict[int, Longs] = {}
        self.shared_links: dict[int, Longs] = {}
        self.lanes: list[Lane] = []
        self.lane_of: dict[tuple[int, str], Longs] = {}
        self._number_lanes()

    # -- rows, edges, lanes ---------------------------------------------------------------------------------------

    def add(
        self,
        durations: Floats | float,
        sort: Longs | int,
        lane: Longs | int,
        step: int = -1,
        microbatches: Longs | None = None,
        amount: float = 0.0,
    ) -> Longs:
        """New tasks, one for each microbatch (one alone if there are none); their numbers."""
        mine = np.array([-1], dtype=np.int64) if microbatches is None else microbatches
        n = len(mine)
        full = np.full(n, 0, dtype=np.int64)
        self.rows.append(
            (np.zeros(n) + durations, np.full(n, amount), full + sort, full + lane, full + step, mine.astype(np.int64))
        )
        self.count += n
        return np.arange(self.count - n, self.count, dtype=np.int64)

    def wait(self, after: Longs, before: Longs) -> None:
        """Let tasks wait for others, one by one (or all for one)."""
        after, before = np.broadcast_arrays(after, before)
        self.before.append(np.ascontiguousarray(before))
        self.after.append(np.ascontiguousarray(after))

    def chain(self, first: Longs, last: Longs) -> None:
        """Let each of a chain of blocks wait for the one before it; blocks from their first to their last task."""
        self.wait(first[1:], last[:-1])

    def _number_lanes(self) -> None:
        """Lanes in the order in which they are shown: of each device together, links last."""
        device = 0
        placed: dict[tuple[int, str], list[int]] = {}
        for number, place in enumerate(self.program.places):
            if place.is_link:
                continue
            streams = ["compute"]
            if self.contended:
                streams.append("link")
            else:
                streams += dict.fromkeys(s for s in _STREAMS[place.streams] if s != "compute")
            if self.program.ends:
                streams.append("sync")
            for devices in place.replicas:
                for stream in streams:
                    placed.setdefault((number, stream), []).append(len(self.lanes))
                    self.lanes.append(
                        Lane(device, owner_name(devices), stream, shared=place.parallel or stream == "link")
                    )
                device += 1
        for number, place in enumerate(self.program.places):
            if not place.is_link:
                continue
            streams = ["in", "out"] if place.streams == "duplex" else ["link"]
            for instance in range(place.instances):
                owner = place.name if place.instances == 1 else f"{place.name} ({instance})"
                for stream in streams:
                    placed.setdefault((number, stream), []).append(len(self.lanes))
                    self.lanes.append(Lane(-1, owner, stream, shared=self.shares or place.parallel))
        self.lane_of = {key: np.array(lanes, dtype=np.int64) for key, lanes in placed.items()}

    def lanes_at(self, place: int, stream: str, microbatches: Longs) -> Longs:
        """The lane of a stream of a place, for every microbatch."""
        found: Longs = self.lane_of[place, stream][microbatches % self.program.places[place].instances]
        return found

    def stream(self, place: Place, part: int, outward: bool) -> str:
        """The stream that a part of a step runs on."""
        if not place.is_link:
            return _STREAMS[place.streams][part]
        return ("out" if outward else "in") if place.streams == "duplex" else "link"

    # -- steps ----------------------------------------------------------------------------------------------------

    def add_steps(self) -> None:
        """Every part of every step, what waits for what, and the order of each place."""
        program = self.program
        self.micro = np.arange(self.total, dtype=np.int64)
        # (steps, 3) Number of the first task of each part, −1 for none: task = first + microbatch.
        self.column = np.full((len(program.steps), 3), -1, dtype=np.int64)
        read = {source for source, _ in program.edges}
        for number, step in enumerate(program.steps):
            place = program.places[step.place]
            if place.is_link and self.contended and number in read:
                # Messages move what it hands on.
                continue
            for part in [WORK] if self.contended else parts_of(place, step):
                time = (step.incoming, step.time if step.times is None else step.times, step.outgoing)[part]
                work = step.sort if step.sorts is None else step.sorts
                sort = (COPY_IN, TRANSFER if place.is_link else work, COPY_OUT)[part]
                lanes = self.lanes_at(step.place, self.stream(place, part, step.outward), self.micro)
                if step.absent is not None:
                    lanes = np.where(step.absent, -1, lanes)
                shared = self.shares and place.is_link and step.time > 0
                amount = step.time if shared else 0.0
                added = self.add(0.0 if shared else time, sort, lanes, number, self.micro, amount=amount)
                if shared:
                    self.uses.append((added, self._capacity(step.place)[self.micro % place.instances]))
                self.column[number, part] = added[0]
            parts = self.column[number][self.column[number] >= 0]
            for earlier, later in itertools.pairwise(parts):
                self.wait(later + self.micro, earlier + self.micro)
        self.head = np.array([min(c for c in row if c >= 0) if max(row) >= 0 else -1 for row in self.column.tolist()])
        self.tail = self.column.max(axis=1)
        self._edges()
        self._order()
        if program.barrier:
            self._barrier()

    def _edges(self) -> None:
        """What waits for what of the same microbatch; messages take the place of the edges that they carry."""
        carried = {(m.source, m.target) for m in self.program.messages} if self.contended else set()
        for source, target in self.program.edges:
            if self.head[target] >= 0 and self.tail[source] >= 0 and (source, target) not in carried:
                self.wait(self.head[target] + self.micro, self.tail[source] + self.micro)

    def _order(self) -> None:
        """What each stream does one after the other, and what is taken by whoever comes first."""
        if self.program.orders is None:
            self._rounds()
        for order in self.program.orders or ():
            self.chain_blocks(self.program.places[order.place], order.steps, order.microbatches)
        for number, place in enumerate(self.program.places):
            turns = (place.is_link and not self.shares and not place.parallel) or (
                place.streams == "overlap" and not self.contended
            )
            if self.program.orders is not None and turns:
                for stream in ("link", "in", "out", "copy"):
                    columns = [int(self.column[s, part]) for s, part, name in self._parts(number) if name == stream]
                    if columns:
                        self.link_things[number] = self.take_turns(number, columns)

    def _barrier(self) -> None:
        """Let all backward steps wait for all forward ones."""
        letters = np.array([step.letter if self.head[s] >= 0 else "" for s, step in enumerate(self.program.steps)])
        passed = self.add(0.0, TRANSFER, -1)
        for s in np.flatnonzero(letters == "F"):
            self.wait(np.repeat(passed, self.total), self.tail[s] + self.micro)
        for s in np.flatnonzero((letters == "B") | (letters == "I")):
            self.wait(self.head[s] + self.micro, np.repeat(passed, self.total))

    def _parts(self, number: int) -> Iterator[tuple[int, int, str]]:
        """Every part of what a place does: its step, which part it is, and the stream that it runs on."""
        place = self.program.places[number]
        for s in self._steps_at(number):
            for part in (IN, WORK, OUT):
                if self.column[s, part] >= 0:
                    yield s, part, self.stream(place, part, self.program.steps[s].outward)

    def chain_blocks(self, place: Place, steps: Longs, microbatches: Longs) -> None:
        """The order of one instance: whole steps where transfers take the device, otherwise each part by its stream."""
        if place.streams == "sum" or self.contended:
            self.chain(self.head[steps] + microbatches, self.tail[steps] + microbatches)
            return
        # One engine for both directions takes what is ready first: in the order of the steps it would hold up inputs.
        for part in (WORK,) if place.streams == "overlap" else (IN, WORK, OUT):
            columns = self.column[steps, part]
            there = columns >= 0
            tasks = columns[there] + microbatches[there]
            self.chain(tasks, tasks)

    def _rounds(self) -> None:
        depth = offsets(self.program)
        for number, place in enumerate(self.program.places):
            if place.is_link and self.shares:
                continue
            for units, first, last in self._streams(number, place, depth):
                for instance in range(place.instances):
                    unit, micro = in_rounds(units, instance, place.instances, self.total)
                    self.chain(first[unit] + micro, last[unit] + micro)

    def _streams(self, number: int, place: Place, depth: Longs) -> Iterator[tuple[list[tuple[int, int]], Longs, Longs]]:
        """Every stream of a place: (offset, unit) of what it does, and the first and last task of every unit."""
        mine = self._steps_at(number)
        if not mine:
            return
        if not place.is_link and (place.streams == "sum" or self.contended):
            yield [(int(depth[s].max()), s) for s in mine], self.head, self.tail
            return
        flat = self.column.reshape(-1)
        found: dict[str, list[tuple[int, int]]] = {}
        for s, part, stream in self._parts(number):
            found.setdefault(stream, []).append((int(depth[s, part]), 3 * s + part))
        for units in found.values():
            yield units, flat, flat

    def _steps_at(self, place: int) -> list[int]:
        return [s for s, step in enumerate(self.program.steps) if step.place == place and self.head[s] >= 0]

    def _capacity(self, place: int) -> Longs:
        """The instances of a link, as links that are shared: time is what they move."""
        if place not in self.shared_links:
            count = self.program.places[place].instances
            self.shared_links[place] = np.arange(len(self.capacity), len(self.capacity) + count, dtype=np.int64)
            self.capacity += [1.0] * count
        return self.shared_links[place]

    # -- what is shared -------------------------------------------------------------------------------------------

    def new_things(self, count: int) -> Longs:
        """Things to be held."""
        self.things += count
        return np.arange(self.things - count, self.things, dtype=np.int64)

    def hold(self, tasks: Longs, things: Longs) -> None:
        """Let each task hold a thing."""
        tasks, things = np.broadcast_arrays(tasks, things)
        self.holds.append((np.ascontiguousarray(tasks), np.ascontiguousarray(things)))

    def take_turns(self, place: int, columns: Sequence[int]) -> Longs:
        """Let parts of steps take turns as they become ready; the things that stand for the place's instances."""
        things = self.new_things(self.program.places[place].instances)
        for column in columns:
            self.hold(column + self.micro, things[self.micro % len(things)])
        return things

    # -- the graph ------------------------------------------------------------------------------------------------

    def finish(self) -> ProgramTasks:
        """Make the graph of all that was added."""
        durations, amounts, self.sort, self.lane, self.step, self.microbatch = (
            np.concatenate(part) for part in zip(*self.rows, strict=True)
        )
        release = np.zeros(self.count)
        if self.program.interval > 0:
            reached = {target for _, target in self.program.edges}
            for number, head in enumerate(self.head):
                if head >= 0 and number not in reached:
                    release[head + self.micro] = self.micro * self.program.interval
        for step, head in zip(self.program.steps, self.head, strict=True):
            if step.not_before is not None and head >= 0:
                release[head + self.micro] = np.maximum(release[head + self.micro], step.not_before)
        held_offsets, held = _by_task(self.holds, self.count)
        used_offsets, used = _by_task(self.uses, self.count)
        none = np.zeros(0, dtype=np.int64)
        self.graph = TaskGraph(
            duration=durations,
            amount=amounts,
            release=release,
            priority=np.zeros(self.count),
            before=np.concatenate(self.before) if self.before else none,
            after=np.concatenate(self.after) if self.after else none,
            held_offsets=held_offsets,
            held=held,
            used_offsets=used_offsets,
            used=used,
            things=self.things,
            capacity=np.array(self.capacity, dtype=np.float64),
        )
        column = self.column[:, WORK : WORK + 1]
        self.works = np.where(column >= 0, column + self.micro, -1)
        # What was concatenated is not held twice.
        del self.rows, self.before, self.after, self.holds, self.uses
        return self


def _by_task(pairs: Sequence[tuple[Longs, Longs]], count: int) -> tuple[Longs, Longs]:
    """Pairs of tasks and what they take, as offsets by task and what they take."""
    offsets_ = np.zeros(count + 1, dtype=np.int64)
    if not pairs:
        return offsets_, np.zeros(0, dtype=np.int64)
    tasks, things = (np.concatenate(part) for part in zip(*pairs, strict=True))
    order = np.lexsort((things, tasks))
    np.cumsum(np.bincount(tasks, minlength=count), out=offsets_[1:])
    return offsets_, things[order]


def owner_name(devices: Sequence[str]) -> str:
    """Devices in lockstep in short: ``device:0``, ``device:0–7``."""
    if len(devices) < 2:
        return devices[0] if devices else ""
    first, last = devices[0], devices[-1]
    stem = first[: len(first) - len(first.split(":")[-1])]
    return f"{first}–{last.removeprefix(stem)}"
