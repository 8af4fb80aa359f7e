"""From a plan of stages and a topology to a mapping problem.

Every number is of a whole batch: with M microbatches, a replica of a stage with R of them works on M/R, and moves the
tensors of M/R; the ring of the replicas reduces the parameters once.

- **Blocks.** Tensor-parallel groups are innermost: the devices of every machine are cut into blocks of consecutive
  devices, as many as the largest group has, and a block is a device of the mapping problem. Between two blocks the
  slowest of the pairs that hold the same part counts. Groups that are smaller share a block with others of their stage,
  and with other stages if they must.
- **Unequal groups.** Where groups of several sizes share blocks, every block is a stage of its own; it exchanges bytes
  with the replicas that its microbatches come from and go to, and half of the all-reduce's bytes with each neighbour in
  the ring: that is between half of what the ring takes and all of it.
- **Unequal devices.** A stage has its time on every kind on which it can run. On others it takes more than any replica
  can take where it is allowed, so that no best mapping puts it there.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, groupby
from typing import Any

import numpy as np

from partita.ground.errors import InputError
from partita.nouns.catalogue.loader import load_catalogue
from partita.nouns.topology.counted import CountedLinks, counted
from partita.nouns.topology.topology import Bandwidths, Topology
from partita.problems.facets.stages import FromResult
from partita.problems.mapping.evaluate import evaluate
from partita.problems.mapping.problem import MappingProblem, MappingStage, MappingTransfer, Placement
from partita.simulator.pipeline import Pipeline, PipelineStage
from partita.simulator.placed import Layout, max_work, ring_bytes

#: MappingStage and replica.
Replica = tuple[int, int]


class MappingFromResult(FromResult[MappingProblem]):
    """Plans of stages become mapping problems on any topology that has devices enough."""

    quick = "swap-annealing"
    simple = ("consecutive", "point-to-point-first")

    def placing(self, staged: Pipeline, topology: Topology) -> PlacedStages:
        return PlacedStages(staged, topology)


class PlacedStages:
    """A plan of stages on a topology as a mapping problem.

    Raises ``InputError`` if there are not devices enough, or groups do not fit into machines.
    """

    def __init__(self, staged: Pipeline, topology: Topology) -> None:
        self.staged, self.topology = staged, topology
        self.kinds = _kinds(staged, topology)
        size = max(stage.group * stage.together for stage in staged.ranks)
        #: By device of the problem, those of the topology.
        self.blocks = _blocks(topology, self.kinds, size, max(map(_inside, staged.ranks)))
        self.uniform = len({(stage.group, stage.together) for stage in staged.ranks}) == 1
        self.together = staged.ranks[0].together if self.uniform else 1  #: Replicas of a block.
        #: By stage and replica of the problem, the replicas of the plan that are there.
        self.packs: list[list[list[Replica]]]
        if self.uniform:
            self.packs = [
                [
                    [(s, r) for r in range(first, first + self.together)]
                    for first in range(0, stage.data_parallel, self.together)
                ]
                for s, stage in enumerate(staged.ranks)
            ]
        else:
            self.packs = [[pack] for pack in _packs(staged, size)]
        needed = sum(len(row) for row in self.packs)
        if needed > len(self.blocks):
            groups = "devices" if size == 1 else f"groups of {size} consecutive devices of a machine"
            if size > max(Counter(topology.machine_of).values()):
                groups = f"groups of {size} consecutive devices that fill machines"
            raise InputError(
                f"{staged.name}: the plan needs {needed} {groups}, and {topology.name} has {len(self.blocks)}; plan it "
                "for fewer devices, or take a larger topology"
            )
        self.home = {one: (s, r) for s, row in enumerate(self.packs) for r, pack in enumerate(row) for one in pack}
        self.problem = self._problem()

    def layout(self, plan: Placement) -> Layout:
        """The devices of the topology that a mapping says."""
        taken = {
            (s, r): list(self.blocks[plan.placement[s][r]]) for s, row in enumerate(self.packs) for r in range(len(row))
        }
        rows = []
        for s, stage in enumerate(self.staged.ranks):
            row = []
            for r in range(stage.data_parallel):
                room = taken[self.home[s, r]]
                row.append(tuple(room[: stage.group]))
                del room[: stage.group]
            rows.append(tuple(row))
        return tuple(rows)

    def plan(self, layout: Layout) -> Placement | None:
        """The mapping that says a layout; None if its groups are no blocks."""
        number = {block: place for place, block in enumerate(self.blocks)}
        rows = []
        for row in self.packs:
            found = []
            for pack in row:
                place = number.get(tuple(device for s, r in pack for device in layout[s][r]))
                if place is None:
                    return None
                found.append(place)
            rows.append(tuple(found))
        plan = Placement(placement=tuple(rows))
        return plan if evaluate(self.problem, plan).feasible else None

    def in_order(self) -> Layout | None:
        """The devices that the plan itself names, counted among those of their kind."""
        rows = []
        for stage in self.staged.ranks:
            able = [d for d, kind in enumerate(self.kinds) if kind == stage.kind]
            if not stage.own or max(device for group in stage.own for device in group) >= len(able):
                return None
            rows.append(tuple(tuple(able[device] for device in group) for group in stage.own))
        used = [device for row in rows for group in row for device in group]
        return tuple(rows) if len(set(used)) == len(used) else None

    def _problem(self) -> MappingProblem:
        staged = self.staged
        bandwidth = self._bandwidth()
        stages = []
        limit = 2.0 * self._as_it_is(bandwidth)
        replicas = len(self.packs[0])
        # Blocks of the same kinds of devices are alike.
        made = [tuple(self.kinds[device] for device in block) for block in self.blocks]
        for row in self.packs:
            known = {kinds: max(self._batch_s(one, kinds, limit) for one in row[0]) for kinds in dict.fromkeys(made)}
            times = [known[kinds] for kinds in made]
            members = sorted({s for s, _ in row[0]})
            name = ", ".join(staged.ranks[s].name for s in members)
            stage = staged.ranks[members[0]]
            if not self.uniform:
                name += f" (replica {', '.join(str(r) for _, r in row[0])})"
            alike = len(set(times)) == 1
            stages.append(
                MappingStage(
                    name=name,
                    time_s=times[0] if alike else None,
                    times_s=None if alike else tuple(times),
                    parameter_bytes=self._reduced(stage, len(row)) if self.uniform else 0.0,
                    replicas=None if len(row) == replicas else len(row),
                )
            )
        names = self.topology.names
        links: dict[str, Any]
        if isinstance(bandwidth, CountedLinks):
            links = {"machines": bandwidth.machines}
        else:
            links = {"bandwidth_bytes_per_s": tuple(map(tuple, bandwidth.tolist()))}
        return MappingProblem(
            name=f"{staged.name} on {self.topology.name}",
            replicas=replicas,
            stages=tuple(stages),
            transfers=tuple(self._transfers()),
            **links,
            devices=tuple(
                names[block[0]] if len(block) == 1 else f"{names[block[0]]} … {names[block[-1]]}"
                for block in self.blocks
            ),
            notes=(*staged.notes, *self.topology.notes, *self._notes()),
        )

    def _reduced(self, stage: PipelineStage, blocks: int) -> float:
        """Bytes of parameters with which a ring of blocks moves as much as that of the replicas in them."""
        if self.together == 1:
            return stage.parameter_bytes
        return ring_bytes(stage) * blocks / (2.0 * (blocks - 1)) if blocks > 1 else 0.0

    def _notes(self) -> list[str]:
        notes = [f"Times are of a batch of {self.staged.microbatches} microbatches."]
        if self.staged.parts > 1:
            notes.append("Interleaved plans are placed by what each device moves, without a simulated step.")
        size = len(self.blocks[0])
        if size > 1:
            wide = any(s.together > 1 or (s.exchange is not None and s.exchange.width) for s in self.staged.ranks)
            notes.append(
                f"A device is a block of {size} consecutive devices, which share out sequences or experts."
                if wide
                else f"A device is a block of {size} consecutive devices of a machine: the largest tensor-parallel "
                "group."
            )
        if not self.uniform:
            notes.append(
                "Stages have groups of different sizes, so each block is mapped as a stage of its own, and half of the "
                "all-reduce counts on each link of the ring."
            )
        return notes

    def _bandwidth(self) -> Bandwidths:
        """[block, block] bytes per second."""
        matrix = self.topology.bandwidth_bytes_per_s
        if isinstance(matrix, CountedLinks):
            # Between two blocks every device has its own link, and all of a machine's are alike.
            machine = self.topology.machine_of
            sizes = Counter(machine[block[0]] for block in self.blocks)
            entries = {machine[block[0]]: matrix.home(block[0])[2] for block in self.blocks}
            return counted(
                (size, entries[number].inside_bytes_per_s, entries[number].outside_bytes_per_s)
                for number, size in sizes.items()
            )
        members = np.array(self.blocks)
        found = np.full((len(members), len(members)), math.inf)
        for column in members.T:
            found = np.minimum(found, matrix[np.ix_(column, column)])
        np.fill_diagonal(found, 0.0)
        return found

    def _batch_s(self, one: Replica, kinds: tuple[str, ...], otherwise: float) -> float:
        """Seconds of a replica for its share of a batch on the devices of a block of some kinds."""
        stage = self.staged.ranks[one[0]]
        found = sum(max_work(stage, kinds))
        return otherwise if math.isinf(found) else self._turns(one) * found + stage.update_s

    def _turns(self, one: Replica) -> float:
        """Microbatches of a batch that a replica works on."""
        return self.staged.microbatches / self.staged.ranks[one[0]].data_parallel

    def _as_it_is(self, bandwidth: Bandwidths) -> float:
        """More than any replica takes where it is allowed to be, whatever its links."""
        if isinstance(bandwidth, CountedLinks):
            slowest = min(bandwidth.pairs(), default=math.inf)
        else:
            slowest = float(bandwidth[bandwidth > 0].min(initial=math.inf))
        staged = self.staged
        moved = sum(one.bytes for one in staged.handovers) * staged.microbatches * 2
        moved += sum(2 * ring_bytes(stage) for stage in staged.ranks)
        own = max(
            sum(work) * staged.microbatches + stage.update_s
            for stage in staged.ranks
            for work in stage.by_kind.values()
        )
        return own + (moved / slowest if moved else 0.0)

    def _transfers(self) -> list[MappingTransfer]:
        staged = self.staged
        found: dict[tuple[int, int], float] = {}

        def add(source: Replica, target: Replica, size: float) -> None:
            ends = self.home[source][0], self.home[target][0]
            if ends[0] != ends[1] and size > 0:
                found[ends] = found.get(ends, 0.0) + size

        for one in staged.handovers:
            a, b = staged.ranks[one.source].data_parallel, staged.ranks[one.target].data_parallel
            if self.uniform:
                # Each replica of a block has its own links.
                count = len(self.packs[0]) * self.together
                add((one.source, 0), (one.target, 0), one.bytes * staged.microbatches / count)
                continue
            turn = math.lcm(a, b)
            for m in range(turn):
                add((one.source, m % a), (one.target, m % b), one.bytes * staged.microbatches / turn)
        for s, stage in enumerate(staged.ranks if not self.uniform else ()):
            if stage.data_parallel > 1:
                for r in range(stage.data_parallel):
                    add((s, r), (s, (r + 1) % stage.data_parallel), ring_bytes(stage) / 2)
        return [MappingTransfer(source=a, target=b, bytes=size) for (a, b), size in sorted(found.items())]


def _kinds(staged: Pipeline, topology: Topology) -> tuple[str, ...]:
    """Of every device, the name by which stages know its kind; empty for those that no stage can use."""
    known = list(dict.fromkeys(kind for stage in staged.ranks for kind in stage.by_kind))
    if not topology.kinds:
        return (staged.ranks[0].kind,) * topology.device_count
    specs = load_catalogue().devices
    # A device of a user's own cluster file is none of the catalogue's.
    accelerator = {name: name not in specs or specs[name].accelerator for name in dict.fromkeys(topology.kinds)}
    if len(known) == 1:
        alone = not any(accelerator.values())
        return tuple(known[0] if accelerator[kind] or alone or kind in known else "\0" for kind in topology.kinds)
    missing = [kind for kind in dict.fromkeys(topology.kinds) if kind not in known]
    if len(missing) == len(accelerator):
        raise InputError(
            f"{staged.name}: its stages run on {', '.join(known)}, and {topology.name} has {', '.join(missing)}; take "
            "a topology of such devices"
        )
    return topology.kinds


def _inside(stage: PipelineStage) -> int:
    """Devices of a stage that share out tensors: they are in one machine, whatever else a block has."""
    return stage.group if stage.exchange is None or not stage.exchange.width else stage.exchange.width


def _blocks(topology: Topology, kinds: Sequence[str], size: int, inside: int) -> list[tuple[int, ...]]:
    """Blocks of so many consecutive devices, of those that some stage can use.

    They are in one machine, or fill several; of them ``inside`` at a time are in one.
    """
    found: list[tuple[int, ...]] = []
    members: dict[int, list[int]] = {}
    for device, machine in enumerate(topology.machine_of):
        if kinds[device] != "\0":
            members.setdefault(machine, []).append(device)
    for number, alike in groupby(members.values(), key=len):
        # Blocks that are larger than machines are of whole ones.
        rows = [list(chain.from_iterable(some)) for some in _runs(list(alike), max(1, size // number))]
        for row in rows if size <= number or size % number == number % inside == 0 else ():
            found += [tuple(row[first : first + size]) for first in range(0, len(row) - size + 1, size)]
    return found


def _runs(rows: list[list[int]], size: int) -> Iterator[list[list[int]]]:
    """So many rows at a time, in order; what is left over is no run."""
    return (rows[first : first + size] for first in range(0, len(rows) - size + 1, size))


def _packs(staged: Pipeline, size: int) -> list[list[Replica]]:
    """Replicas that share a block of devices: those of one stage, and what is left over where there is room."""
    found: list[list[Replica]] = []
    rest: list[tuple[int, list[Replica]]] = []
    for s, stage in enumerate(staged.ranks):
        room = size // stage.group
        whole = stage.data_parallel // room * room
        found += [[(s, r) for r in range(first, first + room)] for first in range(0, whole, room)]
        if whole < stage.data_parallel:
            left = [(s, r) for r in range(whole, stage.data_parallel)]
            rest.append((len(left) * stage.group, left))
    open_packs: list[tuple[int, list[Replica]]] = []
    for needed, left in sorted(rest, key=lambda entry: -entry[0]):
        place = next((i for i, (free, _) in enumerate(open_packs) if free >= needed), None)
        if place is None:
            open_packs.append((size - needed, left))
        else:
            free, pack = open_packs[place]
            open_packs[place] = free - needed, [*pack, *left]
    found += [pack for _, pack in open_packs]
    return sorted(found)
