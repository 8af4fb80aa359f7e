"""Proven optimal steps of uniform meshes: branch and bound over meshes, and over caps on the slowest stage of each.

For one mesh, let F(K, S) be the least sum of passing times φ with every stage's κ within K and what it does once within
S, a small dynamic program. A row with κ from K₁ to K₂ and single costs from S₁ to S₂ takes F(K₂, S₂) + K₁ + S₁ or more;
the row that attains F leaves only those with smaller caps. Boxes of caps are split until their bounds meet the plan.
Under GPipe forward and backward parts have caps of their own.
"""

from __future__ import annotations

import dataclasses
import heapq
import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import msgspec

from partita.catalogue.meshes import Mesh as Degrees
from partita.errors import DisagreementError
from partita.problems.hybrid.blocks import find_blocks
from partita.problems.hybrid.downsets import all_suffix_sets, along_orders, some_orders
from partita.problems.hybrid.evaluate import evaluate
from partita.problems.hybrid.instance import build_instance
from partita.problems.hybrid.plan import HybridPlan
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.room import Room, is_tight, most_room, sure_room
from partita.problems.hybrid.solvers.mesh_family import Caps, DegreeFamily
from partita.problems.hybrid.solvers.protocol import Options, Outcome, Solver
from partita.problems.hybrid.step.costs import Exchanges
from partita.problems.hybrid.step.interleaved import interleaved_plan
from partita.problems.hybrid.step.limits import alike, uncut
from partita.problems.hybrid.step.mesh import Mesh
from partita.problems.hybrid.step.pipeline import passing_time, refusal
from partita.rounding import CLOSE, SUMMED, leq, rounded_down
from partita.run.background import run_in_background
from partita.run.incumbent import Incumbent
from partita.run.monitor import Monitor

#: Most suffix sets of which all pairs are looked at; beyond these only sets along some orders are.
MOST_SETS = 800
#: A cap this much below a value excludes it, also where a kernel lets sums be above a cap.
_BELOW = 10 * SUMMED
_ORDERS = 12


@dataclass(frozen=True, order=True)
class Candidate:
    """A mesh with a bound on its steps, and bounds on the largest κ and single cost of a stage."""

    bound: float
    zero: int
    data: int
    tensor: int
    stages: int
    chunks: int
    schedule: str
    passing: float
    holding: float
    ahead: float
    once: float
    context: int = 1
    expert: int = 1
    way: str = ""

    def mesh(self, problem: HybridProblem) -> Mesh:
        """The mesh; the problem is one at its context- and expert-parallel degrees."""
        return Mesh(
            problem,
            self.stages,
            self.data,
            self.tensor,
            self.schedule,
            self.chunks,
            self.zero,
            self.context,
            self.expert,
        )


class UniformMesh(Solver):
    """Exact solver of a step; with very many suffix sets the plan comes with a bound only.

    Parameters
    ----------
    admits
        Which meshes to look at, all unless stated; bounds are about these.
    """

    name = "uniform"
    summary = "steps of uniform meshes with proof: every mesh, layers by dynamic programs under caps"
    argument = "every mesh was bounded, and dynamic programs over the layers went through those that could be better"

    def __init__(self, admits: Callable[[Candidate], bool] | None = None) -> None:
        self.admits = admits

    def supports(self, problem: HybridProblem, options: Options) -> str | None:
        if problem.training is not None:
            alike = problem.training.mesh == "uniform" and not problem.others
            return None if alike else "it plans uniform meshes of devices of one kind; use rows"
        return "it plans steps, and the problem is about the time per sample; use exact"

    def solve(self, problem: HybridProblem, options: Options, monitor: Monitor) -> Outcome:
        search = MeshSearch(problem, options, self.admits)
        run_in_background(search.best, monitor, search.run)
        value, plan, bound = search.best.snapshot()
        infeasible = search.best.infeasible
        known = not infeasible and (bound > 0 or value == 0)
        proven_by = search.best.proven_by
        return Outcome(plan=plan, bound=bound if known else None, infeasible=infeasible, proven_by=proven_by)


class MeshSearch:
    """What one run works on; ``run`` is called in a worker thread.

    Parameters
    ----------
    problem, options, admits
        As for the solver.
    best
        Where plans go, if others have some as well; ``run`` says there what is proven, ``sweep`` does not.
    device
        Kind of devices that plans then name.
    """

    def __init__(
        self,
        problem: HybridProblem,
        options: Options,
        admits: Callable[[Candidate], bool] | None = None,
        best: Incumbent[HybridPlan] | None = None,
        device: str = "",
    ) -> None:
        self.problem, self.options = problem, options
        self.best: Incumbent[HybridPlan] = Incumbent() if best is None else best
        self.order = [problem.layers[place] for place in problem.order()]
        self.blocks = find_blocks(self.order)
        self.spreads = {
            (context, expert, way): spread
            for way, restricted in alike(problem).items()
            for (context, expert), spread in spreads_of(restricted).items()
        }
        self.families: dict[tuple[int, int, int, str, bool], DegreeFamily] = {}
        self.best.counters |= {"meshes": 0, "rows": 0}
        self.candidates = sorted(
            one
            for (context, expert, way), spread in self.spreads.items()
            for one in candidates_of(spread, self.blocks.starts, context, expert, way)
            if admits is None or admits(one)
        )
        model = build_instance(problem.replace(training=None, spreads=(), microbatches=1))
        sets = all_suffix_sets(model.after, model.before, MOST_SETS)
        self.proof = sets is not None
        if sets is None:
            sets = along_orders(some_orders(model.after, model.before, _ORDERS, options.seed))
        self.sets = uncut(problem, model.order, sets)
        self.close, self.device, self.terms = CLOSE, device, terms_of(problem)

    def run(self) -> None:
        if not self.candidates:
            self.best.refute("the meshes there are")
            return
        self.best.prove(self.candidates[0].bound, "division of work")
        bound = self.sweep(CLOSE, self._prove)
        if math.isinf(bound):
            self.best.refute("all meshes")
        else:
            self._prove(bound)

    def _prove(self, bound: float) -> None:
        if bound < math.inf:
            self.best.prove(bound, "meshes")

    def sweep(self, close: float, proven: Callable[[float], object]) -> float:
        """Look at every mesh that may be better than the best plan by that share; ``proven`` hears of every bound.

        Returns a bound on the steps of all meshes, infinite if none can run.
        """
        self.close = close
        first = self.candidates[0].bound if self.candidates else math.inf
        #: Bound on what was left out of meshes that were looked at.
        left = math.inf
        for candidate in self.candidates:
            ahead = min(left, candidate.bound)
            if self.proof and not math.isinf(ahead):
                proven(min(ahead, self._known()))
            if self.best.stop[0] != 0 or candidate.bound >= self.best.value * (1 - close):
                return min(ahead, self._known()) if self.proof else first
            self.best.counters["meshes"] += 1
            left = min(left, self._close(candidate))
        return min(left, self._known()) if self.proof else first

    def _known(self) -> float:
        """The best plan's step, which was added up in another order than what is compared with it."""
        value = self.best.value
        return rounded_down(value, value, self.terms) if value < math.inf else math.inf

    def _close(self, candidate: Candidate) -> float:
        """Look for a better plan of a mesh; a bound on those that are left out, infinite if none is."""
        spread = self.spreads[candidate.context, candidate.expert, candidate.way]
        mesh = candidate.mesh(spread)
        if candidate.schedule == "interleaved":
            return self._deal_out(mesh, candidate.bound)
        family, best = self._family(candidate), self.best
        counter = itertools.count()
        first = (candidate.holding, math.inf), (candidate.once, math.inf), (candidate.ahead, math.inf)
        boxes = [(candidate.bound, next(counter), *first)]
        left_out = math.inf
        while boxes:
            reached, _, (low, high), (least, most), (few, many) = heapq.heappop(boxes)
            if best.stop[0] != 0 or reached >= best.value * (1 - self.close):
                # Others have larger bounds.
                return min(left_out, reached)
            left = best.value - candidate.passing - low - least - few
            high, most, many = min(high, left + low), min(most, left + least), min(many, left + few)
            best.counters["rows"] += 1
            caps = Caps(high, many, most, left + candidate.passing)
            row = family.best(mesh, caps)
            if best.stop[0] != 0:
                return min(left_out, reached)
            if row is None:
                continue
            if row.step < best.value:
                plan = family.plan(mesh, row)
                if plan is None:
                    return min(left_out, reached)
                if not self._offer(plan, row.step):
                    # What fits for certain; other plans may be better, so that nothing more is proven.
                    self._offer_certain(candidate, mesh, caps)
                    left_out = min(left_out, reached)
                    continue
            bound = rounded_down(row.passing, row.step, self.terms)
            below, lower, fewer = (value * (1 - _BELOW) for value in (row.holding, row.once, row.ahead))
            # Rows with all three at least there are no better than this one.
            left_out = min(left_out, bound + max(low, below) + max(least, lower) + max(few, fewer))
            parts = []
            if low < below:
                middle = (low + below) / 2
                halves = [(low, middle), (middle, below)] if low < middle < below else [(low, below)]
                parts += [(half, (least, most), (few, many)) for half in halves]
            if least < lower:
                parts.append(((max(low, below), high), (least, lower), (few, many)))
            if few < fewer:
                parts.append(((max(low, below), high), (max(least, lower), most), (few, fewer)))
            for part in parts:
                reached = bound + sum(a for a, _ in part)
                if all(a <= b for a, b in part):
                    heapq.heappush(boxes, (reached, next(counter), *part))
        return left_out

    def _deal_out(self, mesh: Mesh, bound: float) -> float:
        """Look at the one plan of an interleaved mesh; as ``_close``."""
        order = [mesh.problem.layers[place] for place in mesh.problem.order()]
        plan = interleaved_plan(mesh, order, self.blocks)
        if plan is None or self._offer(plan, None):
            return math.inf
        plan = interleaved_plan(mesh, order, self.blocks, sure_room)
        if plan is not None:
            self._offer(plan, None)
        return bound

    def _offer_certain(self, candidate: Candidate, mesh: Mesh, caps: Caps) -> None:
        family = self._family(candidate, sure_room)
        row = family.best(mesh, caps)
        plan = None if row is None else family.plan(mesh, row)
        if row is not None and plan is not None:
            self._offer(plan, row.step)

    def _family(self, candidate: Candidate, room: Room = most_room) -> DegreeFamily:
        key = candidate.tensor, candidate.context, candidate.expert, candidate.way, room is most_room
        if key not in self.families:
            spread = self.spreads[candidate.context, candidate.expert, candidate.way]
            self.families[key] = DegreeFamily(
                spread, candidate.tensor, self.sets, self.best.stop, len(self.order), room
            )
        return self.families[key]

    def _offer(self, plan: HybridPlan, promised: float | None) -> bool:
        """Take a plan if it is better; False if rounding alone decides whether it fits, and it does not."""
        evaluation = evaluate(self.problem, plan)
        if is_tight(self.problem, plan, evaluation):
            return False
        if promised is not None and not evaluation.feasible:
            raise DisagreementError(f"a row of stages fails: {evaluation.violations[0]}")
        if promised is not None and not leq(evaluation.objective, promised):
            raise DisagreementError(f"a row of stages takes {evaluation.objective!r}, and promised {promised!r}")
        if evaluation.feasible:
            stages = tuple(msgspec.structs.replace(stage, device=self.device) for stage in plan.stages)
            self.best.offer(evaluation.objective, msgspec.structs.replace(plan, stages=stages), "uniform")
        return True


@dataclass(frozen=True)
class _Totals:
    """Sums over the layers at one degree."""

    time: float
    forward: float
    gradients: float
    update: float
    once: float
    memory: float


def spreads_of(problem: HybridProblem) -> dict[tuple[int, int], HybridProblem]:
    """What layers cost at every context- and expert-parallel degree that plans may have."""
    training = problem.training
    assert training is not None
    found = {
        (context, expert): problem.at(context, expert)
        for context, expert in itertools.product(training.context, training.expert)
    }
    return {degrees: spread for degrees, spread in found.items() if spread is not None}


def candidates_of(
    problem: HybridProblem, starts: tuple[int, ...], context: int = 1, expert: int = 1, way: str = ""
) -> Iterator[Candidate]:
    """Every mesh that may run, with bounds that hold whatever the layers of its stages are.

    ``problem`` is one at the context- and expert-parallel degrees, whose blocks all run that way.
    """
    from partita.problems.hybrid.step.costs import exchanges_of

    training, batch, count = problem.training, problem.microbatches, len(problem.layers)
    assert training is not None
    limit = most_room(problem.memory_bytes, count)
    shared = set.intersection(*({t for t, row in layer.configurations.items() if row} for layer in problem.layers))
    for t in sorted(shared & set(problem.degrees())):
        for d in divisors(batch):
            groups = d * context
            if groups * t > problem.devices:
                break
            if groups % expert:
                continue
            # One replica shares out nothing; which schedules there are depends on the stage of ZeRO all the same.
            for zero in training.zero if groups > 1 else (min(training.zero),):
                totals = _totals(problem, exchanges_of(problem, groups, t, zero, expert), t)
                for stages in range(1, min(count, problem.devices // (groups * t)) + 1):
                    if totals.memory > stages * (limit - training.reserves.get(t, 0.0)):
                        continue
                    for schedule, chunks in _ways(training.schedules, stages, batch // d, len(starts), zero):
                        asked = Degrees(
                            stages=stages,
                            data=d,
                            tensor=t,
                            context=context,
                            expert=expert,
                            zero=zero,
                            schedule=schedule,
                            microbatches=batch // d,
                        )
                        if not training.limits.meshes.admits(asked):
                            continue
                        found = _bounded(totals, zero, d, t, stages, chunks, schedule, batch // d, terms_of(problem))
                        yield dataclasses.replace(found, context=context, expert=expert, way=way)


def _ways(
    schedules: tuple[str, ...], stages: int, microbatches: int, blocks: int, zero: int
) -> Iterator[tuple[str, int]]:
    """Schedules and parts of each stage; where there is one stage, they are alike, but for what GPipe holds."""
    simple = sorted((name for name in schedules if name != "interleaved"), key=lambda name: name == "gpipe")
    for schedule in simple[:1] if stages == 1 else simple:
        if refusal(schedule, stages, 1, microbatches, zero) is None:
            yield schedule, 1
    if "interleaved" in schedules and blocks % stages == 0:
        for chunks in divisors(blocks // stages):
            if chunks > 1 and refusal("interleaved", stages, chunks, microbatches, zero) is None:
                yield "interleaved", chunks


def _totals(problem: HybridProblem, exchanges: Exchanges, degree: int) -> _Totals:
    least = [
        min(choice.memory_per_microbatch_bytes + choice.memory_bytes for choice in layer.configurations[degree])
        for layer in problem.layers
    ]
    forward = float(exchanges.forward.sum())
    return _Totals(
        time=forward + float(exchanges.backward.sum()),
        forward=forward,
        gradients=float(exchanges.weight_gradients.sum()),
        update=float(exchanges.update.sum()),
        once=0.0 if exchanges.overlap else float(exchanges.reduce_once.sum() + exchanges.gather_once.sum()),
        memory=float(exchanges.state.sum()) + sum(least),
    )


def _bounded(
    totals: _Totals,
    zero: int,
    data: int,
    tensor: int,
    stages: int,
    chunks: int,
    schedule: str,
    microbatches: int,
    terms: int,
) -> Candidate:
    """Stages share the work out evenly at best; waiting, transfers and what memory costs are left out."""

    def down(value: float) -> float:
        return max(0.0, rounded_down(value, whole, terms))

    backward = totals.time - totals.forward
    passing = passing_time(schedule, chunks, totals.forward, backward, totals.gradients)
    # φ + max κ ≥ φ + (n·τ − φ)/p, and φ may be larger than its least.
    apart = schedule == "gpipe"
    holding = (microbatches - 1) * (backward if apart else totals.time) / stages
    ahead = (microbatches - 1) * totals.forward / stages if apart else 0.0
    pipeline = passing * (1 - 1 / stages) + microbatches * totals.time / stages
    once = (totals.update + totals.once) / stages
    whole = microbatches * totals.time + passing + once
    return Candidate(
        bound=down(pipeline + once),
        zero=zero,
        data=data,
        tensor=tensor,
        stages=stages,
        chunks=chunks,
        schedule=schedule,
        passing=down(passing),
        holding=down(holding),
        ahead=down(ahead),
        once=down(once),
    )


def terms_of(problem: HybridProblem) -> int:
    """How many numbers make up the time of a step, at most."""
    return 16 * len(problem.layers) + 8 * len(problem.edges) + 16


def divisors(number: int) -> list[int]:
    """All divisors, ascending."""
    small = [k for k in range(1, math.isqrt(number) + 1) if number % k == 0]
    return sorted({*small, *(number // k for k in small)})
