"""Optimal throughput plans of tiny problems by trying everything; values come from ``independent_evaluator`` alone.

What is assigned are colocation classes (operators without a class are their own). Devices of one kind in one group are
alike, a *pool*, so only how many of each pool are taken matters. A value is a tuple: the largest load, or under GPipe's
objective the largest forward and the largest backward load, whose sum is the objective.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import lru_cache

import msgspec

from partita.nouns.pipeline import Contiguity, Plan, Stage
from partita.problems.throughput.problem import ThroughputProblem
from second_opinions import independent_evaluator as independent

__all__ = ["all_plans", "best", "best_acyclic", "best_free"]

Block = tuple[int, int, int]
"""A stage: bit mask of classes, number of its pool, replicas."""

Value = tuple[float, ...]


class _Table:
    """Classes as bits, pools of devices, and the loads and memory of every block, computed when asked for."""

    def __init__(self, problem: ThroughputProblem) -> None:
        self.problem = problem
        members: dict[object, list[int]] = {}
        for op in problem.operators:
            members.setdefault(("alone", op.id) if op.colocation is None else op.colocation, []).append(op.id)
        self.classes = list(members.values())
        self.full = (1 << len(self.classes)) - 1
        class_of = {identity: number for number, ids in enumerate(self.classes) for identity in ids}
        self.arrows = {
            (class_of[a], class_of[b]) for a, b in independent.order_pairs(problem) if class_of[a] != class_of[b]
        }
        self.after = [0] * len(self.classes)
        for a, b in self.arrows:
            self.after[a] |= 1 << b
        group_of = independent.device_groups(problem)
        self.pools: dict[tuple[int, int], list[str]] = {}
        for place, kind in enumerate(problem.kinds):
            for number in range(kind.count):
                name = f"{kind.name}:{number}"
                self.pools.setdefault((place, group_of[name]), []).append(name)
        self.kind = [kind for kind, _ in self.pools]
        self.group = [group for _, group in self.pools]
        self.counts = tuple(len(names) for names in self.pools.values())
        self.phases = 2 if problem.schedule.name == "gpipe" and any(op.backward for op in problem.operators) else 1
        self._loads: dict[tuple[Block, int], Value | None] = {}
        self._links: dict[tuple[int, int], Value] = {}
        self._memories: dict[tuple[int, int], float] = {}

    def ids(self, mask: int) -> set[int]:
        return {identity for number, ids in enumerate(self.classes) if mask >> number & 1 for identity in ids}

    def loads(self, block: Block, devices_to_end: int) -> Value | None:
        """Loads of a block, None where it cannot run or does not fit."""
        in_flight = independent.in_flight_of(self.problem, devices_to_end, block[2])
        # Only what exceeds the memory makes time depend on the microbatches in flight.
        key = (block, in_flight if self.problem.streaming else 0)
        if key not in self._loads:
            self._loads[key] = independent.loads_of(
                self.problem, self.kind[block[1]], self.ids(block[0]), in_flight, block[2]
            )
        return self._loads[key] if self._loads[key] is None or self.fits(block, in_flight) else None

    def fits(self, block: Block, in_flight: int) -> bool:
        limit = self.problem.kinds[self.kind[block[1]]].memory_bytes
        if limit is None or self.problem.streaming:
            return True
        key = (block[0], in_flight)
        if key not in self._memories:
            self._memories[key] = independent.memory_of(self.problem, self.ids(block[0]), in_flight)
        return self._memories[key] <= limit + 1e-9 * max(1.0, limit)

    def link(self, group: int, mask: int) -> Value:
        """Loads of the link of a group that holds the classes."""
        if not self.problem.groups:
            return (0.0,) * self.phases
        key = (group, mask)
        if key not in self._links:
            self._links[key] = independent.group_loads(self.problem, group, self.ids(mask))
        return self._links[key]

    def positions(self, blocks: list[Block]) -> list[int] | None:
        """Positions of blocks in a pipeline, None where there is none."""
        home = [next(i for i, block in enumerate(blocks) if block[0] >> c & 1) for c in range(len(self.classes))]
        arrows = {(home[a], home[b]) for a, b in self.arrows if home[a] != home[b]}
        return independent.pipeline_positions(len(blocks), arrows, [self.group[block[1]] for block in blocks])


def best(problem: ThroughputProblem, contiguity: str) -> float | None:
    """Optimal objective for a contiguity, None if there is no feasible plan. Remembered for problems seen before."""
    return _remembered(msgspec.json.encode(problem), contiguity)


@lru_cache(maxsize=20_000)
def _remembered(encoded: bytes, contiguity: str) -> float | None:
    problem = msgspec.json.decode(encoded, type=ThroughputProblem)
    return best_acyclic(problem) if contiguity == "acyclic" else best_free(problem)


def _worst(*values: Value) -> Value:
    return tuple(max(column) for column in zip(*values, strict=True))


def _beaten(value: Value, front: list[Value]) -> bool:
    return any(all(a <= b for a, b in zip(other, value, strict=True)) for other in front)


def best_acyclic(problem: ThroughputProblem) -> float | None:
    """Optimal objective over all acyclic splits, None if there is no feasible one.

    Stages are chosen from the last to the first, so that the number of devices to the end is known; each takes any set
    of classes that no remaining class comes after. A group is left for good when another one is entered.
    """
    table = _Table(problem)
    known: dict[object, list[Value]] = {}
    groups = range(max(1, len(problem.groups)))

    def solve(remaining: int, counts: tuple[int, ...], group: int, entered: int, left: frozenset[int]) -> list[Value]:
        """Values not beaten by another; ``entered`` is what remained when the present group was entered."""
        if not remaining:
            return [table.link(group, entered)]
        key = (remaining, counts, group, entered, left)
        if key in known:
            return known[key]
        front: list[Value] = []

        def offer(values: list[Value], *own: Value) -> None:
            for value in values:
                total = _worst(value, *own)
                if not _beaten(total, front):
                    front[:] = [other for other in front if not _beaten(other, [total])] + [total]

        if remaining != entered:
            # Go on with another group, which must take something.
            done = table.link(group, entered & ~remaining)
            for other in groups:
                if other != group and other not in left:
                    offer(solve(remaining, counts, other, remaining, left | {group}), done)
        used = sum(table.counts) - sum(counts)
        pools = [p for p, count in enumerate(counts) if count and table.group[p] == group]
        mask = remaining if pools else 0
        while mask:
            outside = remaining & ~mask
            closed = all(not table.after[c] & outside for c in range(len(table.classes)) if mask >> c & 1)
            for pool in pools if closed else ():
                for replicas in range(1, min(problem.max_replicas, counts[pool]) + 1):
                    own = table.loads((mask, pool, replicas), used + replicas)
                    if own is None or _beaten(own, front):
                        continue
                    rest = tuple(c - replicas * (p == pool) for p, c in enumerate(counts))
                    offer(solve(outside, rest, group, entered, left), own)
            mask = (mask - 1) & remaining
        known[key] = front
        return front

    fronts = [value for group in groups for value in solve(table.full, table.counts, group, table.full, frozenset())]
    return min((sum(value) for value in fronts), default=None)


def best_free(problem: ThroughputProblem) -> float | None:
    """Optimal objective over all splits, None if there is no feasible one."""
    value = best_acyclic(problem)
    table = _Table(problem)
    # Acyclic splits are done; where memory depends on the position, the order of the others is free.
    for blocks in _assignments(table):
        if table.positions(blocks) is not None:
            continue
        for order in itertools.permutations(blocks):
            found = _value(table, list(order))
            if found is not None and (value is None or found < value):
                value = found
            if not problem.schedule.positional:
                break
    return value


def _value(table: _Table, blocks: list[Block]) -> float | None:
    """Objective of blocks in the order of the pipeline, None where one cannot run or does not fit."""
    values: list[Value] = []
    to_end = 0
    for block in reversed(blocks):
        to_end += block[2]
        loads = table.loads(block, to_end)
        if loads is None:
            return None
        values.append(loads)
    for group in range(len(table.problem.groups)):
        mask = sum(block[0] for block in blocks if table.group[block[1]] == group)
        values.append(table.link(group, mask))
    return sum(_worst(*values))


def _assignments(table: _Table) -> Iterator[list[Block]]:
    """Every way to split the classes into blocks on pools of devices."""

    def extend(remaining: int, counts: tuple[int, ...], blocks: list[Block]) -> Iterator[list[Block]]:
        if not remaining:
            yield list(blocks)
            return
        lowest = remaining & -remaining
        others = remaining & ~lowest
        mask = others
        while True:
            for pool, count in enumerate(counts):
                for replicas in range(1, min(count, table.problem.max_replicas) + 1):
                    block = (mask | lowest, pool, replicas)
                    # The last stage holds the fewest microbatches: what does not fit there fits nowhere.
                    if table.loads(block, replicas) is None:
                        continue
                    blocks.append(block)
                    rest = tuple(c - replicas * (p == pool) for p, c in enumerate(counts))
                    yield from extend(others & ~mask, rest, blocks)
                    blocks.pop()
            if not mask:
                return
            mask = (mask - 1) & others

    yield from extend(table.full, table.counts, [])


def all_plans(problem: ThroughputProblem, contiguity: Contiguity = "free") -> Iterator[Plan]:
    """Every plan that keeps colocation classes together, up to the numbering of alike devices, feasible or not.

    With ``acyclic`` only splits that are; both in a pipeline order where there is one. Where memory depends on the
    position, every pipeline order comes (every order at all for splits that have none).
    """
    table = _Table(problem)
    for labels in _labels(table):
        masks: dict[tuple[int, int], int] = {}
        for number, device in enumerate(labels):
            masks[device] = masks.get(device, 0) | 1 << number
        for replicas in itertools.product(range(1, problem.max_replicas + 1), repeat=len(masks)):
            blocks = [(mask, pool, r) for ((pool, _), mask), r in zip(masks.items(), replicas, strict=True)]
            taken = [sum(r for _, p, r in blocks if p == pool) for pool in range(len(table.counts))]
            if any(t > count for t, count in zip(taken, table.counts, strict=True)):
                continue
            cyclic = table.positions(blocks) is None
            if cyclic and contiguity == "acyclic":
                continue
            for order in itertools.permutations(blocks):
                if cyclic or table.positions(list(order)) == list(range(len(order))):
                    yield _plan(table, list(order), contiguity)
                    if not problem.schedule.positional:
                        break


def _labels(table: _Table) -> Iterator[list[tuple[int, int]]]:
    """A device (pool, number) for every class; the numbers of a pool are first used in ascending order."""

    def extend(chosen: list[tuple[int, int]]) -> Iterator[list[tuple[int, int]]]:
        if len(chosen) == len(table.classes):
            yield chosen
            return
        for pool, count in enumerate(table.counts):
            used = len({device for device in chosen if device[0] == pool})
            for number in range(min(used + 1, count)):
                yield from extend([*chosen, (pool, number)])

    yield from extend([])


def _plan(table: _Table, blocks: list[Block], contiguity: Contiguity) -> Plan:
    names = [list(pool) for pool in table.pools.values()]
    stages = []
    for mask, pool, replicas in blocks:
        ids = table.ids(mask)
        devices = [names[pool].pop(0) for _ in range(replicas)]
        stages.append(
            Stage(
                devices=tuple(devices),
                kind=table.problem.kinds[table.kind[pool]].name,
                operators=tuple(op.id for op in table.problem.operators if op.id in ids),
                data_parallel=replicas,
            )
        )
    return Plan(stages=tuple(stages), contiguity=contiguity)
