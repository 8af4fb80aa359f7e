"""Search: how many stages, how many replicas of each, under which schedule, and where; the simulator decides.

Every *shape* (stages × replicas, of groups of devices where a problem has these, schedule, recomputation or ZeRO's
stage) is split, mapped onto the devices and simulated there, unless it cannot be better than what is known:

1. before it is split, by ``shape_bound``;
2. before it is mapped: its split by ``partita.simulator.fastest``. Another split of the shape may be better then: what
   is split is what the objective finds best.

With S stages, R replicas, m microbatches for each of these, W the work of a microbatch, P the bytes of all parameters
and ρ the least seconds in which R replicas exchange a byte (``partita.simulator.fastest``), all stages together
exchange for ρ·P at least. Of that each hides what the work of its last microbatch takes at most, so some stage needs

    max(m·W, (m − 1)·W + ρ·P) / S.

Of a chain of operators that hand tensors on forward and back, C its work in a microbatch, a stage begins after the
forward parts of the stages before it and ends before their backward parts: with c_s its part of the chain, a step takes
Σ_{i<s} c_i + m·c_s for every s, and at least C / (1 − (1 − 1/m)^S), when all these are equal. Where gradients of
weights are made later, a stage waits for the forward parts alone, a share φ of c_i or more: φ·C / (1 − (1 − φ/m)^S).

The work of an operator is the least over the kinds of devices of its forward and backward part *together*: a replica
does both on one device, and microbatch k is that of replica k mod R in every stage, so c_i is of one device, too.

Source: the search over (S, R) by simulation is Parmesan's (Appendix B), which simulates all; the bounds are own.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, NamedTuple

from partita.conductor.place import PLACE_S, PlacedPlan, place_staged, placing_facet, rank, staged_plan
from partita.conductor.solve import options_of
from partita.documents.document import sha256
from partita.engines.processes.pool import Pool
from partita.engines.search.interrupt import interruptible
from partita.engines.search.monitor import Monitor
from partita.ground.errors import InputError, UnsupportedError
from partita.ground.shown import brief
from partita.nouns.topology.topology import Topology
from partita.problems import kind_of, kinds
from partita.problems.facets.stages import Replication, Shape
from partita.simulator.fastest import MARGIN, FastLinks, fast_links, least_collective_s, least_ring_s, least_step

#: Wall time of one split and of one mapping, at most.
SPLIT_S, MAP_S = 20.0, 5.0

#: Of the time limit, the share of placing each plan from elsewhere, and of what that leaves the share of the shapes;
#: the rest is for the proof.
KNOWN, SHAPES = 0.2, 0.9


@dataclass(frozen=True)
class Explored:
    """A shape, or a plan from elsewhere (``shape`` is None), and what became of it.

    No step of the shape is shorter than ``bound`` seconds, and of its split none than ``split_bound``, wherever it is
    placed; None where that is not known. Of the placed ones there are problem, plan and placement. ``outcome`` is
    ``placed``; ``cannot be better``: no split of the shape can; ``split cannot be better``: its split cannot, wherever
    it is placed; ``does not fit``: proven of every split; ``no plan found``: by a search that proves nothing; ``no
    time``: the clock came first.
    """

    name: str
    shape: Shape[Any] | None
    bound: float | None
    outcome: str
    split_bound: float | None = None
    problem: Any = None
    plan: Any = None
    placed: PlacedPlan | None = None

    __repr__ = brief

    @property
    def step(self) -> float | None:
        """Seconds of the step; None if it was not placed."""
        return None if self.placed is None else rank(self.placed.chosen)

    @property
    def planned_step(self) -> float | None:
        """What the objective of a plan from elsewhere says of its step, by its own account of links and exchanges."""
        if self.shape is not None or self.plan is None:
            return None
        kind = kind_of(self.problem)
        found = kind.report.step(self.problem, self.plan, kind.evaluate(self.problem, self.plan))
        return None if found is None else float(found)


@dataclass(frozen=True)
class Searched:
    """The one with the shortest step, and all that were explored: plans from elsewhere, then shapes as listed.

    ``finished`` says whether every shape cannot be better, or was split by a search that ended by itself and placed,
    and ``lost`` how often workers were lost.
    """

    best: Explored
    explored: tuple[Explored, ...]
    finished: bool
    lost: int = 0

    __repr__ = brief


def shape_bound(shape: Shape[Any], links: FastLinks) -> float:
    """Seconds that no step of a shape goes below, on devices with these links; see the top of the module."""
    count, microbatches = shape.replicas, shape.microbatches
    rate = least_collective_s("all-reduce", count, links) if shape.levels_at_once else least_ring_s(count, links)
    exchanged = rate * shape.parameter_bytes
    busy = max(microbatches * shape.work_s, (microbatches - 1) * shape.work_s + exchanged) / shape.stages
    share = shape.forward_share
    chain = shape.chain_s
    if share > 0:
        chain *= share / (1.0 - (1.0 - share / microbatches) ** shape.stages)
    return max(busy, chain) * (1 - MARGIN)


class _Split(NamedTuple):
    """The plan of a shape, what it came to without one, and whether the clock ended the search."""

    plan: Any
    outcome: str
    late: bool


class _Entry(NamedTuple):
    """A shape, the problem that it is of, what its split depends on, and what no step of it goes below."""

    problem: Any
    shape: Shape[Any]
    key: tuple[Any, ...]
    bound: float


def search_stages(
    problem: Any,
    topology: Topology,
    *,
    also: Sequence[Any] = (),
    known: Sequence[tuple[str, Any, Any]] = (),
    time_limit_s: float | None = 60.0,
    seed: int = 0,
    threads: int = 2,
    pool: Pool | None = None,
    progress: Callable[[str], None] | None = None,
) -> Searched:
    """The best numbers of stages and replicas, schedule, recomputation and placement of a problem.

    Parameters
    ----------
    problem
        Whose devices are those of the topology.
    topology
        The devices.
    also
        Other problems that say the same of the same devices, whose shapes are looked at, too.
    known
        (name, problem, plan) of plans from elsewhere, which compete: the answer is never worse, as placed or in order.
    time_limit_s
        Wall time; each split and each mapping has its own limit, too, which it usually does not reach.
    seed, threads
        Of the searches.
    pool
        Where work is done; in this process unless stated. The answer does not depend on it, unless the clock stops it.
    progress
        Called with a line now and then.

    Raises
    ------
    UnsupportedError
        If the problem has no stages to replicate.
    InputError
        If it is not one to replicate, or nothing fits.
    """
    for one in (problem, *also):
        replicas_of(one)
    clock = Monitor(time_limit_s)
    workers = Pool() if pool is None else pool
    found: list[Explored] = []
    for name, other, plan in known:
        limit = clock.share(KNOWN, MAP_S).time_limit_s
        placed = place_staged(staged_plan(other, plan), topology, time_limit_s=limit, seed=seed, threads=threads)
        if placed.chosen.step is not None:
            found.append(Explored(name, None, None, "placed", problem=other, plan=plan, placed=placed))
    run = _ShapeSearch((problem, *also), topology, clock.share(SHAPES), workers, seed, threads, progress)
    shapes, finished = run.explore(min((one.step for one in found if one.step is not None), default=float("inf")))
    found += shapes
    placed_ones = [one for one in found if one.step is not None]
    if not placed_ones:
        if all(one.outcome == "does not fit" for one in found):
            why = f"no numbers of stages and replicas fit {topology.name}; more devices would do"
        else:
            text = ", ".join(f"{count} {outcome}" for outcome, count in Counter(one.outcome for one in found).items())
            why = f"no plan was found for {topology.name} ({text}); give it more time, or more devices"
        raise InputError(f"{problem.name}: {why}")
    best = min(placed_ones, key=lambda one: (one.step, found.index(one)))
    proven = _with_proof(best, topology, min(PLACE_S, max(0.1, clock.remaining_s)), seed, threads)
    return Searched(proven, tuple(proven if one is best else one for one in found), finished, workers.lost)


def replicas_of(problem: Any) -> Replication[Any, Any]:
    """How a problem is replicated; refuses one without stages to replicate."""
    facet = kind_of(problem).replicas
    if facet is None:
        able = " and ".join(sorted(other.name for other in kinds() if other.replicas is not None))
        raise UnsupportedError(
            f"numbers of stages and replicas are not searched for {problem.kind} problems; use {able}"
        )
    wrong = facet.refusal(problem)
    if wrong is not None:
        raise InputError(f"problem {problem.name!r} {wrong}")
    return facet


def _with_proof(best: Explored, topology: Topology, time_limit_s: float, seed: int, threads: int) -> Explored:
    """The best plan with a mapping that is proven, unless that takes longer to run."""
    again = place_staged(
        staged_plan(best.problem, best.plan), topology, time_limit_s=time_limit_s, seed=seed, threads=threads
    )
    assert best.placed is not None
    return dataclasses.replace(best, placed=again) if rank(again.chosen) <= rank(best.placed.chosen) else best


@dataclass
class _ShapeSearch:
    """A run over all shapes, in waves as wide as the pool."""

    problems: Sequence[Any]
    topology: Topology
    clock: Monitor
    pool: Pool
    seed: int
    threads: int
    progress: Callable[[str], None] | None
    splits: dict[Any, _Split] = field(default_factory=dict)

    @cached_property
    def links(self) -> FastLinks:
        return fast_links(self.topology.bandwidth_bytes_per_s, self.topology.machine_of)

    def explore(self, best: float) -> tuple[list[Explored], bool]:
        """All shapes, what looks shortest first; and whether that was finished."""
        shapes = [
            (problem, shape)
            for problem in self.problems
            for shape in replicas_of(problem).shapes(problem)
            if shape.devices <= self.topology.device_count
        ]
        digests = {id(shape.problem): sha256(shape.problem) for _, shape in shapes}
        entries = [
            _Entry(problem, shape, (digests[id(shape.problem)], shape.mesh), shape_bound(shape, self.links))
            for problem, shape in shapes
        ]
        answers: dict[int, Explored] = {}
        # To begin with what is good: equal stages that fill and drain.
        works = [
            (one.shape.microbatches + one.shape.stages - 1) * one.shape.work_s / one.shape.stages for one in entries
        ]
        guesses = [max(one.bound, work) for one, work in zip(entries, works, strict=True)]
        waiting = sorted(range(len(entries)), key=lambda i: (guesses[i], i))
        while waiting and not self.clock.stopping:
            # Equal bounds do not rule out equal steps: what is left out is worse.
            wave = [i for i in waiting if entries[i].bound <= best][: self.pool.width]
            if not wave:
                break
            waiting = [i for i in waiting if i not in wave]
            for i, one in zip(wave, self._wave([entries[i] for i in wave], best), strict=True):
                answers[i] = one
                best = min(best, one.step if one.step is not None else best)
                if self.progress is not None:
                    self.progress(f"{one.name}: {one.outcome}" + (f", {one.step:.4g} s" if one.step else ""))
        late = self.clock.stopping and any(entries[i].bound <= best for i in waiting)
        for i in waiting:
            answers[i] = self._explored(entries[i], "no time" if entries[i].bound <= best else "cannot be better")
        late = late or any(one.late for one in self.splits.values())
        return [answers[i] for i in range(len(entries))], not late

    def _wave(self, wave: Sequence[_Entry], best: float) -> list[Explored]:
        """Some shapes, split and then placed side by side."""
        new = {one.key: one.shape for one in wave if one.key not in self.splits}
        split = partial(_split, seed=self.seed, threads=self.threads, time_limit_s=min(SPLIT_S, self.clock.remaining_s))
        self.splits.update(zip(new, self.pool.map(split, list(new.values())), strict=True))
        answers = [self._spread(one, best) for one in wave]
        todo = [place for place, one in enumerate(answers) if one.outcome == "placed"]
        place = partial(
            _place,
            topology=self.topology,
            seed=self.seed,
            threads=self.threads,
            time_limit_s=min(MAP_S, max(0.1, self.clock.remaining_s)),
        )
        plans = [(answers[i].problem, answers[i].plan) for i in todo]
        for i, placed in zip(todo, self.pool.map(place, plans), strict=True):
            answers[i] = dataclasses.replace(answers[i], placed=placed)
        return answers

    def _spread(self, one: _Entry, best: float) -> Explored:
        """The split of a shape with the shape's replicas, unless that has none or cannot be better."""
        split = self.splits[one.key]
        if split.plan is None:
            return self._explored(one, split.outcome)
        problem, plan = replicas_of(one.problem).spread(one.problem, one.shape, split.plan)
        if not kind_of(one.problem).evaluate(problem, plan).feasible:
            # Of this split, not of the shape.
            return self._explored(one, split.outcome)
        least = least_step(staged_plan(problem, plan), self.links)
        if least > best:
            return self._explored(one, "split cannot be better", split_bound=least)
        return self._explored(one, "placed", split_bound=least, problem=problem, plan=plan)

    def _explored(self, one: _Entry, outcome: str, **more: Any) -> Explored:
        """What became of a shape; its name has its problem where there are several."""
        name = one.shape.name if len(self.problems) == 1 else f"{one.problem.kind} {one.shape.name}"
        return Explored(name, one.shape, one.bound, outcome, **more)


def _split(shape: Shape[Any], *, seed: int, threads: int, time_limit_s: float) -> _Split:
    options, monitor = options_of(kind_of(shape.problem), seed, threads, {}), Monitor(time_limit_s)
    with interruptible(monitor):
        found = replicas_of(shape.problem).split(shape, options, monitor)
    late = monitor.stopping
    impossible = found.infeasible and found.lossless
    return _Split(found.plan, "does not fit" if impossible else "no time" if late else "no plan found", late)


def _place(planned: tuple[Any, Any], **settings: Any) -> PlacedPlan:
    return place_staged(staged_plan(*planned), solver=placing_facet().quick, **settings)
