"""A certificate that every way to lay stages one after the other was gone through, below a target.

The stages of an acyclic split, in the order of their pipeline, fill up sets that hold the predecessors of all that is
in them: downsets. For every downset that can be filled with stages below the target, each on a device of its own, the
smallest numbers of devices of each kind that do it are counted; a next stage is any set that leads to another downset.
Where the whole model is not filled by the devices there are, some stage of every split takes the target at least. The
check makes that count anew, so the certificate states little more than the target.

What a stage works, takes from the stages before, and hands to these (gradients), it also does in every larger stage on
the same downset: where that reaches the target no larger one is looked at. What it exchanges with later operators
counts, too, and may become less.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any, NamedTuple

from partita.checker.certificate import Certificate, Problem, classes
from partita.checker.numbers import TOLERANCE, FailedCheckError, exact, undominated
from partita.checker.throughput.costs import (
    links,
    parameter_bytes,
    present,
    recomputes,
    together,
    training,
    transfer,
    work,
)
from partita.checker.walks import in_order, reached

#: Most downsets and stages that are looked at, in about a second: more are no compact proof.
MOST_SETS, MOST_STAGES = 5_000, 60_000

#: About how many downsets are looked at to tell how many stages there are.
_LOOKS = 8

#: Devices of each kind that are used.
Counts = tuple[int, ...]


class Downsets(Certificate, frozen=True, kw_only=True, tag="downsets"):
    """See the module; ``value`` is the target."""

    says = "stages below the target, laid one after the other in every way, use up the devices before the model is run"

    sets: int  #: How many downsets there are.

    def scope(self, problem: Problem) -> str:
        return "acyclic"

    def proves(self, problem: Problem) -> Fraction:
        """The target."""
        target = exact(self.value)
        graph = BlockGraph(problem, target)
        found = graph.downsets(most=self.sets)
        if len(found) != self.sets:
            raise FailedCheckError(f"there are not {self.sets} sets of operators that hold all their predecessors")
        if _fills(graph, found):
            raise FailedCheckError(f"the devices there are run the whole model in less than {self.value!r}")
        return target


def not_covered(problem: Problem) -> str | None:
    """What of a problem the count knows nothing of; None if it knows all."""
    if problem.get("groups") or problem.get("streaming", False) or problem.get("row") is not None:
        return "groups of devices, memory over the limit at a price, and chains of units"
    if problem.get("max_replicas", 1) > 1:
        return "replicas of a stage"
    if problem.get("schedule", {}).get("name", "inference") == "gpipe" and training(problem):
        return "an objective that is no largest load"
    return None


def bits(members: int) -> Iterator[int]:
    """The places of the bits of a number."""
    while members:
        lowest = members & -members
        yield lowest.bit_length() - 1
        members ^= lowest


class BlockTensor(NamedTuple):
    """A tensor between blocks: where it is made, a bit for each block that reads it, its time on every kind."""

    source: int
    readers: int
    times: tuple[int, ...]


class BlockGraph:
    """Blocks of operators that share a stage in every acyclic split, and what they cost on each kind of devices.

    Times are whole numbers: multiples of a small enough unit.

    Raises ``FailedCheckError`` if the problem has features that the count knows nothing of.
    """

    def __init__(self, problem: Problem, target: Fraction) -> None:
        refused = not_covered(problem)
        if refused is not None:
            raise FailedCheckError(f"it is not for {refused}")
        self.problem = problem
        self.kinds = present(problem)
        self.members = _blocks(problem)
        self.everything = (1 << len(self.members)) - 1
        home = {op["id"]: place for place, row in enumerate(self.members) for op in row}
        self.before, self.after = [0] * len(self.members), [0] * len(self.members)
        for u, v in links(problem, home):
            if u != v:
                self.before[v] |= 1 << u
                self.after[u] |= 1 << v
        #: Blocks that come after nothing.
        self.first = sum(1 << place for place, before in enumerate(self.before) if not before)
        self.memory = BlockMemory(problem, home, self.kinds)
        again = recomputes(problem)
        works = [[work(row, kind, again) for kind in self.kinds] for row in self.members]
        moves = list(_moves(problem, home, self.kinds))
        told = [time for row in works for time in row if time is not None] + [t for _, _, row in moves for t in row]
        self.unit = math.lcm(target.denominator, *(time.denominator for time in told))
        self.target = int(target * self.unit)
        #: Of every block on every kind, None where it cannot run.
        self.work = [tuple(None if time is None else int(time * self.unit) for time in row) for row in works]
        self.moves = [BlockTensor(u, readers, tuple(int(t * self.unit) for t in row)) for u, readers, row in moves]
        self.touching: list[list[BlockTensor]] = [[] for _ in self.members]
        for move in self.moves:
            for place in bits(move.readers | 1 << move.source):
                self.touching[place].append(move)

    def downsets(self, most: float = math.inf) -> dict[int, int]:
        """Every set of blocks that holds their predecessors and the blocks that may be next, as bits.

        There are no more than one above ``most``.
        """
        found = {0: self.first}
        pending = [0]
        while pending and len(found) <= most:
            inner = pending.pop()
            for place in bits(found[inner]):
                outer = inner | 1 << place
                if outer not in found:
                    found[outer] = self.ready(found[inner], outer, place)
                    pending.append(outer)
        return found

    def ready(self, before: int, filled: int, place: int) -> int:
        """The blocks that may be next, given those before the last one was filled in."""
        new = (w for w in bits(self.after[place] & ~filled) if not self.before[w] & ~filled)
        return before & ~filled | sum(1 << w for w in new)

    def fits(self, held: Held) -> list[bool]:
        """On which kinds there is memory for what is held, if no more than one microbatch is in flight."""
        return [limit is None or held.own + held.space <= limit for limit in self.memory.limits]


class Held(NamedTuple):
    """What blocks hold on one device, in the unit of ``BlockMemory``."""

    own: int = 0  #: All but working memory.
    space: int = 0  #: The largest working memory.


class BlockMemory:
    """What blocks hold, in multiples of a small enough unit, and what every kind has room for, rounding included."""

    def __init__(self, problem: Problem, home: Mapping[int, int], kinds: list[int]) -> None:
        blocks = 1 + max(home.values(), default=-1)
        own, space = [Fraction(0)] * blocks, [Fraction(0)] * blocks
        largest = problem.get("working_memory", "largest") == "largest"
        for op in problem["operators"]:
            place = home[op["id"]]
            own[place] += exact(op.get("memory_bytes", 0.0))
            if largest:
                space[place] = max(space[place], exact(op.get("workspace_bytes", 0.0)))
        shared = [(_mask(home, one["users"]), parameter_bytes(one)) for one in problem.get("parameters", ())]
        shared += [(_mask(home, one["users"]), exact(one["bytes"])) for one in problem.get("saved", ())]
        stated = [problem["kinds"][kind].get("memory_bytes") for kind in kinds]
        limits = [None if limit is None else exact(limit) * (1 + TOLERANCE) for limit in stated]
        told = [*own, *space, *(size for _, size in shared), *(limit for limit in limits if limit is not None)]
        unit = math.lcm(*(size.denominator for size in told))
        self.own, self.space = ([int(size * unit) for size in row] for row in (own, space))
        self.shared = [(users, int(size * unit)) for users, size in shared if size]
        self.limits = [None if limit is None else int(limit * unit) for limit in limits]
        #: What every block shares with others or has for itself alone: bits of the users, size.
        self.used: list[list[tuple[int, int]]] = [[] for _ in range(blocks)]
        for users, size in self.shared:
            for place in bits(users):
                self.used[place].append((users, size))
        everything = sum(self.own) + max(self.space, default=0) + sum(size for _, size in self.shared)
        self.binds = any(limit is not None and everything > limit for limit in self.limits)

    def with_block(self, held: Held, stage: int, place: int) -> Held:
        """What is held by some blocks and one more; nothing where it cannot be too much."""
        if not self.binds:
            return held
        new = sum(size for users, size in self.used[place] if not users & stage)
        return Held(held.own + self.own[place] + new, max(held.space, self.space[place]))


def _mask(home: Mapping[int, int], ids: Iterable[int]) -> int:
    return sum(1 << place for place in {home[identity] for identity in ids})


def _moves(
    problem: Problem, home: Mapping[int, int], kinds: list[int]
) -> Iterator[tuple[int, int, tuple[Fraction, ...]]]:
    """Of every tensor that goes between blocks: its source, bits of its readers, and its time on every kind."""
    for tensor in problem.get("tensors", ()):
        source = home[tensor["producer"]]
        readers = _mask(home, tensor["consumers"]) & ~(1 << source)
        if readers:
            yield source, readers, tuple(transfer(problem["kinds"][kind], tensor["size"]) for kind in kinds)


def _blocks(problem: Problem) -> list[list[Mapping[str, Any]]]:
    """Colocation classes, joined where they come before each other."""
    rows = classes(problem)
    home = {op["id"]: place for place, row in enumerate(rows) for op in row}
    after: dict[int, set[int]] = {place: set() for place in range(len(rows))}
    for u, v in links(problem, home):
        after[u].add(v)
    # Those in a circle, and behind one, are left out of the order.
    behind = {place: reached(after, place) for place in after.keys() - set(in_order(after))}
    found: dict[int, list[Mapping[str, Any]]] = {}
    for place, row in enumerate(rows):
        first = min([place, *(other for other in behind.get(place, ()) if place in behind.get(other, ()))])
        found.setdefault(first, []).extend(row)
    return list(found.values())


class LaidBlocks(NamedTuple):
    """Blocks laid on a downset, as bits, and by kind of devices what they cost."""

    #: The stage, and the blocks that may be next.
    blocks: int
    ready: int
    work: tuple[int | None, ...]  #: Of all blocks; None where one of them cannot run.
    #: What enters and leaves.
    into: tuple[int, ...]
    out: tuple[int, ...]
    stays: tuple[tuple[int, int], ...]  #: The part of both that is exchanged with the downset, as pairs.
    held: Held


def _fills(graph: BlockGraph, sets: Mapping[int, int]) -> bool:
    """Whether stages below the target, each on a device of its own, fill the whole model.

    Raises ``FailedCheckError`` if more than ``MOST_STAGES`` would have to be looked at.
    """
    counts = [graph.problem["kinds"][kind]["count"] for kind in graph.kinds]
    fewest: dict[int, list[Counts]] = {0: [(0,) * len(counts)]}
    looked = 0
    for inner in sorted(sets, key=int.bit_count):
        if not any(used < most for row in fewest.get(inner, ()) for used, most in zip(row, counts, strict=True)):
            continue
        for stage in _stages(graph, inner, sets[inner]):
            looked += 1
            if looked > MOST_STAGES:
                raise FailedCheckError("there are too many stages to look at")
            below = [
                done is not None and together(graph.problem, done, into, out) < graph.target
                for done, into, out in zip(stage.work, stage.into, stage.out, strict=True)
            ]
            if not any(below):
                continue
            places = [k for k, fits in enumerate(graph.fits(stage.held)) if fits and below[k]]
            new = [
                (*used[:k], used[k] + 1, *used[k + 1 :])
                for used in fewest[inner]
                for k in places
                if used[k] < counts[k]
            ]
            if new:
                fewest[inner | stage.blocks] = undominated([*fewest.get(inner | stage.blocks, ()), *new])
    return graph.everything in fewest


def stages_about(graph: BlockGraph, sets: Mapping[int, int]) -> int:
    """About how many stages lead from downsets to others, told from a few of these."""
    apart = max(1, len(sets) // _LOOKS)
    some = sorted(sets, key=int.bit_count)[::apart]
    return apart * sum(1 for inner in some for _ in _stages(graph, inner, sets[inner]))


def _stages(graph: BlockGraph, inner: int, ready: int) -> Iterator[LaidBlocks]:
    """Every stage that leads from a downset to another, but those that cannot be below the target, nor larger ones."""
    nothing = (0,) * len(graph.kinds)
    pending = [LaidBlocks(0, ready, nothing, nothing, nothing, ((0, 0),) * len(graph.kinds), Held())]
    seen = {0}
    while pending:
        stage = pending.pop()
        if stage.blocks:
            yield stage
        for place in bits(stage.ready):
            blocks = stage.blocks | 1 << place
            if blocks not in seen:
                seen.add(blocks)
                larger = _with(graph, inner, stage, place)
                if any(
                    done is not None and together(graph.problem, done, *stays) < graph.target
                    for done, stays in zip(larger.work, larger.stays, strict=True)
                ):
                    pending.append(larger)


def _with(graph: BlockGraph, inner: int, stage: LaidBlocks, place: int) -> LaidBlocks:
    blocks = stage.blocks | 1 << place
    into, out, stays = list(stage.into), list(stage.out), list(stage.stays)
    for move in graph.touching[place]:
        if move.source == place:
            entered, left = move.readers & stage.blocks, move.readers & ~blocks
            signs = (-1 if entered else 0), (1 if left else 0)
            kept = 0, (1 if move.readers & inner else 0)
        elif stage.blocks >> move.source & 1:
            signs = 0, (0 if move.readers & ~blocks else -1)
            kept = 0, 0
        else:
            first = 0 if move.readers & stage.blocks else 1
            signs = first, 0
            kept = (first if inner >> move.source & 1 else 0), 0
        for k, time in enumerate(move.times):
            into[k] += signs[0] * time
            out[k] += signs[1] * time
            stays[k] = stays[k][0] + kept[0] * time, stays[k][1] + kept[1] * time
    done = tuple(
        None if before is None or time is None else before + time
        for before, time in zip(stage.work, graph.work[place], strict=True)
    )
    ready = graph.ready(stage.ready, inner | blocks, place)
    held = graph.memory.with_block(stage.held, stage.blocks, place)
    return LaidBlocks(blocks, ready, done, tuple(into), tuple(out), tuple(stays), held)
