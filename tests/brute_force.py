"""Optimal throughput plans of tiny problems by trying everything; values come from ``independent_evaluator`` alone.

What is assigned are colocation classes (operators without a class are their own). Devices of one kind are alike, so
only how many of each kind are taken matters.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import cached_property, lru_cache

import msgspec

import independent_evaluator as independent
from partita.throughput.plan import Contiguity, Plan, Stage
from partita.throughput.problem import ThroughputProblem

__all__ = ["all_plans", "best", "best_acyclic", "best_free"]

Block = tuple[int, int]
"""A stage: bit mask of classes, number of its device kind."""


class _Table:
    """Classes as bits, and the load and memory of every set of classes, computed when asked for."""

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
        self._loads: dict[Block, float | None] = {}
        self._memories: dict[tuple[int, int], float] = {}

    def ids(self, mask: int) -> set[int]:
        return {identity for number, ids in enumerate(self.classes) if mask >> number & 1 for identity in ids}

    def load(self, block: Block) -> float | None:
        """Load of a block, None where it cannot run."""
        if block not in self._loads:
            self._loads[block] = independent.load_of(self.problem, block[1], self.ids(block[0]))
        return self._loads[block]

    def fits(self, block: Block, stages_to_end: int) -> bool:
        limit = self.problem.kinds[block[1]].memory_bytes
        if limit is None:
            return True
        in_flight = independent.in_flight_of(self.problem, stages_to_end)
        key = (block[0], in_flight)
        if key not in self._memories:
            self._memories[key] = independent.memory_of(self.problem, self.ids(block[0]), in_flight)
        return self._memories[key] <= limit + 1e-9 * max(1.0, limit)

    def cyclic(self, masks: list[int]) -> bool:
        home = [next(i for i, mask in enumerate(masks) if mask >> c & 1) for c in range(len(self.classes))]
        arrows = {(home[a], home[b]) for a, b in self.arrows if home[a] != home[b]}
        return independent.pipeline_positions(len(masks), arrows) is None

    @cached_property
    def counts(self) -> tuple[int, ...]:
        return tuple(kind.count for kind in self.problem.kinds)


def best(problem: ThroughputProblem, contiguity: str) -> float | None:
    """Optimal objective for a contiguity, None if there is no feasible plan. Remembered for problems seen before."""
    return _remembered(msgspec.json.encode(problem), contiguity)


@lru_cache(maxsize=20_000)
def _remembered(encoded: bytes, contiguity: str) -> float | None:
    problem = msgspec.json.decode(encoded, type=ThroughputProblem)
    return best_acyclic(problem) if contiguity == "acyclic" else best_free(problem)


def best_acyclic(problem: ThroughputProblem) -> float | None:
    """Optimal objective over all acyclic splits, None if there is no feasible one.

    Stages are chosen from the last to the first, so that the number of stages to the end is known; each takes any set
    of classes that no remaining class comes after.
    """
    table = _Table(problem)
    known: dict[tuple[int, tuple[int, ...]], float | None] = {}

    def solve(remaining: int, counts: tuple[int, ...]) -> float | None:
        if not remaining:
            return 0.0
        key = (remaining, counts)
        if key in known:
            return known[key]
        value: float | None = None
        stages_to_end = sum(table.counts) - sum(counts) + 1
        free_kinds = [kind for kind, count in enumerate(counts) if count]
        mask = remaining if free_kinds else 0
        while mask:
            outside = remaining & ~mask
            closed = all(not table.after[c] & outside for c in range(len(table.classes)) if mask >> c & 1)
            for kind in free_kinds if closed else ():
                load = table.load((mask, kind))
                if load is None or (value is not None and load >= value):
                    continue
                if not table.fits((mask, kind), stages_to_end):
                    continue
                rest = solve(outside, tuple(c - (k == kind) for k, c in enumerate(counts)))
                if rest is not None and (value is None or max(load, rest) < value):
                    value = max(load, rest)
            mask = (mask - 1) & remaining
        known[key] = value
        return value

    return solve(table.full, table.counts)


def best_free(problem: ThroughputProblem) -> float | None:
    """Optimal objective over all splits, None if there is no feasible one."""
    value = best_acyclic(problem)
    table = _Table(problem)
    # Acyclic splits are done; where memory depends on the position, the order of the others is free.
    for load, blocks in _assignments(table, value):
        if value is not None and load >= value:
            continue
        if table.cyclic([mask for mask, _ in blocks]) and _orders_fit(table, blocks):
            value = load
    return value


def _assignments(table: _Table, limit: float | None) -> Iterator[tuple[float, list[Block]]]:
    """Every way to split the classes into blocks with kinds, with its largest load, if that is below the limit."""

    def extend(remaining: int, counts: tuple[int, ...], load: float, blocks: list[Block]) -> Iterator:
        if not remaining:
            yield load, list(blocks)
            return
        lowest = remaining & -remaining
        others = remaining & ~lowest
        mask = others
        while True:
            for kind, count in enumerate(counts):
                block = (mask | lowest, kind)
                own = table.load(block) if count else None
                if own is None or (limit is not None and own >= limit) or not table.fits(block, 1):
                    continue
                blocks.append(block)
                yield from extend(
                    others & ~mask, tuple(c - (k == kind) for k, c in enumerate(counts)), max(load, own), blocks
                )
                blocks.pop()
            if not mask:
                return
            mask = (mask - 1) & others

    yield from extend(table.full, table.counts, 0.0, [])


def _orders_fit(table: _Table, blocks: list[Block]) -> bool:
    """Whether some order of the blocks fits in memory."""
    if not table.problem.schedule.positional:
        return all(table.fits(block, len(blocks)) for block in blocks)
    return any(
        all(table.fits(block, len(blocks) - position) for position, block in enumerate(order))
        for order in itertools.permutations(blocks)
    )


def all_plans(problem: ThroughputProblem, contiguity: Contiguity = "free") -> Iterator[Plan]:
    """Every plan that keeps colocation classes together, up to the numbering of devices of one kind, feasible or not.

    With ``acyclic`` only splits that are; both in a pipeline order where there is one. Where memory depends on the
    position, every pipeline order comes (every order at all for splits that have none).
    """
    table = _Table(problem)
    for labels in _labels(table):
        masks: dict[tuple[int, int], int] = {}
        for number, device in enumerate(labels):
            masks[device] = masks.get(device, 0) | 1 << number
        blocks = [(mask, kind) for (kind, _), mask in masks.items()]
        cyclic = table.cyclic([mask for mask, _ in blocks])
        if cyclic and contiguity == "acyclic":
            continue
        for order in itertools.permutations(blocks):
            if cyclic or _goes_forward(table, [mask for mask, _ in order]):
                yield _plan(table, list(order), contiguity)
                if not problem.schedule.positional:
                    break


def _labels(table: _Table) -> Iterator[list[tuple[int, int]]]:
    """A device (kind, number) for every class; the numbers of a kind are first used in ascending order."""

    def extend(chosen: list[tuple[int, int]]) -> Iterator[list[tuple[int, int]]]:
        if len(chosen) == len(table.classes):
            yield chosen
            return
        for kind, count in enumerate(table.counts):
            used = len({device for device in chosen if device[0] == kind})
            for number in range(min(used + 1, count)):
                yield from extend([*chosen, (kind, number)])

    yield from extend([])


def _goes_forward(table: _Table, masks: list[int]) -> bool:
    home = {c: i for i, mask in enumerate(masks) for c in range(len(table.classes)) if mask >> c & 1}
    return all(home[a] <= home[b] for a, b in table.arrows)


def _plan(table: _Table, blocks: list[Block], contiguity: Contiguity) -> Plan:
    used = [0] * len(table.counts)
    stages = []
    for mask, kind in blocks:
        name = table.problem.kinds[kind].name
        ids = table.ids(mask)
        stages.append(
            Stage(
                device=f"{name}:{used[kind]}",
                kind=name,
                operators=tuple(op.id for op in table.problem.operators if op.id in ids),
            )
        )
        used[kind] += 1
    return Plan(stages=tuple(stages), contiguity=contiguity)
