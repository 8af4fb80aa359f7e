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

from partita.errors import DisagreementError
from partita.problems.hybrid.blocks import find_blocks
from partita.problems.hybrid.downsets import all_suffix_sets, along_orders, some_orders
from partita.problems.hybrid.evaluate import evaluate
from partita.problems.hybrid.instance import build_instance
from partita.problems.hybrid.plan import HybridPlan
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.solvers.mesh_family import Caps, DegreeFamily
from partita.problems.hybrid.solvers.protocol import Options, Outcome, Solver
from partita.problems.hybrid.step.costs import Exchanges
from partita.problems.hybrid.step.interleaved import interleaved_plan
from partita.problems.hybrid.step.limits import uncut
from partita.problems.hybrid.step.mesh import Mesh
from partita.problems.hybrid.step.pipeline import passing_time, refusal
from partita.run.background import run_in_background
from partita.run.incumbent import Incumbent
from partita.run.monitor import Monitor
from partita.units import leq

#: Most suffix sets of which all pairs are looked at; beyond these only sets along some orders are.
MOST_SETS = 800
#: Relative distance of plan and bound at which a mesh is done.
CLOSE = 5e-7
#: Rounding of sums: bounds are this much lower.
_ROUNDING = 1e-11
#: A cap this much below a value excludes it.
_BELOW = 1e-10
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

    def __init__(self, admits: Callable[[Candidate], bool] | None = None) -> None:
        self.admits = admits

    def supports(self, problem: HybridProblem, options: Options) -> str | None:
        if problem.training is not None:
            alike = problem.training.mesh == "uniform" and not problem.others
            return None if alike else "it plans uniform meshes of devices of one kind; use rows"
        return "it plans steps, and the problem is about the time per sample; use exact"

    def solve(self, problem: HybridProblem, options: Options, monitor: Monitor) -> Outcome:
        from partita.kernels.compiled import is_compiled
        from partita.kernels.hybrid.mesh import best_row

        if not is_compiled(best_row):
            monitor.report(note="compiling the kernels of uniform meshes, once on this machine: half a minute or so")
        search = MeshSearch(problem, options, self.admits)
        run_in_background(search.best, monitor, search.run)
        value, plan, bound = search.best.snapshot()
        infeasible = search.best.infeasible
        known = not infeasible and (bound > 0 or value == 0)
        return Outcome(plan=plan, bound=bound if known else None, infeasible=infeasible)


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
        self.best: Incumbent[HybridPlan] = Incumbent(closeness=CLOSE) if best is None else best
        self.order = [problem.layers[place] for place in problem.order()]
        self.blocks = find_blocks(self.order)
        self.spreads = spreads_of(problem)
        self.families: dict[tuple[int, int, int], DegreeFamily] = {}
        self.best.counters |= {"meshes": 0, "rows": 0}
        self.candidates = sorted(
            one
            for (context, expert), spread in self.spreads.items()
            for one in candidates_of(spread, self.blocks.starts, context, expert)
            if admits is None or admits(one)
        )
        model = build_instance(problem.replace(training=None, spreads=(), microbatches=1))
        sets = all_suffix_sets(model.after, model.before, MOST_SETS)
        self.proof = sets is not None
        if sets is None:
            sets = along_orders(some_orders(model.after, model.before, _ORDERS, options.seed))
        self.sets = uncut(problem, model.order, sets)
        self.close, self.device = CLOSE, device

    def run(self) -> None:
        if not self.candidates:
            self.best.refute("the meshes there are")
            return
        self.best.prove(self.candidates[0].bound, "division of work")
        self.sweep(CLOSE, lambda bound: self.best.prove(bound, "meshes"))
        if self.best.stop[0] != 0 or not self.proof:
            return
        if self.best.answer is None:
            self.best.refute("all meshes")
        else:
            self.best.prove(self.best.value, "meshes")

    def sweep(self, close: float, proven: Callable[[float], object]) -> float:
        """Look at every mesh that may be better than the best plan by that share; ``proven`` hears of every bound.

        Returns a bound on the steps of all meshes, infinite if none can run.
        """
        self.close = close
        for place, candidate in enumerate(self.candidates):
            if candidate.bound >= self.best.value * (1 - close):
                return candidate.bound
            if self.best.stop[0] != 0:
                return candidate.bound
            ahead = self.candidates[place + 1].bound if place + 1 < len(self.candidates) else math.inf
            self.best.counters["meshes"] += 1
            self._close(candidate, self.sets)
            if self.proof and self.best.stop[0] == 0:
                bound = min(ahead, self.best.value * (1 - close) if close > CLOSE else self.best.value)
                proven(0.0 if math.isinf(bound) else bound)
        stopped = self.best.stop[0] != 0 or not self.proof
        if self.candidates and stopped:
            return self.candidates[0].bound
        return self.best.value * (1 - close) if self.candidates else math.inf

    def _close(self, candidate: Candidate, sets: set[int]) -> None:
        spread = self.spreads[candidate.context, candidate.expert]
        mesh = candidate.mesh(spread)
        if candidate.schedule == "interleaved":
            plan = interleaved_plan(mesh, [spread.layers[place] for place in spread.order()], self.blocks)
            if plan is not None:
                self._offer(plan, None)
            return
        key = candidate.tensor, candidate.context, candidate.expert
        if key not in self.families:
            self.families[key] = DegreeFamily(spread, candidate.tensor, sets, self.best.stop, len(self.order))
        family, best = self.families[key], self.best
        counter = itertools.count()
        first = (candidate.holding, math.inf), (candidate.once, math.inf), (candidate.ahead, math.inf)
        boxes = [(candidate.bound, next(counter), *first)]
        while boxes and best.stop[0] == 0:
            bound, _, (low, high), (least, most), (few, many) = heapq.heappop(boxes)
            if bound >= best.value * (1 - self.close):
                break
            left = best.value - candidate.passing - low - least - few
            high, most, many = min(high, left + low), min(most, left + least), min(many, left + few)
            best.counters["rows"] += 1
            row = family.best(mesh, Caps(high, many, most, left + candidate.passing))
            if row is None:
                continue
            if row.step < best.value:
                plan = family.plan(mesh, row)
                if plan is None:
                    return
                self._offer(plan, row.step)
            bound = row.passing * (1 - _ROUNDING)
            below, lower, fewer = (value * (1 - _BELOW) for value in (row.holding, row.once, row.ahead))
            parts = []
            if low < below:
                middle = (low + below) / 2
                halves = [(low, middle), (middle, below)] if middle < below else []
                parts += [(half, (least, most), (few, many)) for half in halves]
            if least < lower:
                parts.append(((max(low, below), high), (least, lower), (few, many)))
            if few < fewer:
                parts.append(((max(low, below), high), (max(least, lower), most), (few, fewer)))
            for part in parts:
                reached = bound + sum(a for a, _ in part)
                if all(a <= b for a, b in part) and reached < best.value * (1 - self.close):
                    heapq.heappush(boxes, (reached, next(counter), *part))

    def _offer(self, plan: HybridPlan, promised: float | None) -> None:
        evaluation = evaluate(self.problem, plan)
        if promised is not None and not evaluation.feasible:
            raise DisagreementError(f"a row of stages fails: {evaluation.violations[0]}")
        if promised is not None and not leq(evaluation.objective, promised):
            raise DisagreementError(f"a row of stages takes {evaluation.objective!r}, and promised {promised!r}")
        if evaluation.feasible:
            stages = tuple(msgspec.structs.replace(stage, device=self.device) for stage in plan.stages)
            self.best.offer(evaluation.objective, msgspec.structs.replace(plan, stages=stages), "uniform")


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
    problem: HybridProblem, starts: tuple[int, ...], context: int = 1, expert: int = 1
) -> Iterator[Candidate]:
    """Every mesh that may run, with bounds that hold whatever the layers of its stages are.

    ``problem`` is one at the context- and expert-parallel degrees.
    """
    from partita.problems.hybrid.step.costs import exchanges_of

    training, batch, count = problem.training, problem.microbatches, len(problem.layers)
    assert training is not None
    limit = math.inf if problem.memory_bytes is None else problem.memory_bytes * (1 + 1e-9)
    shared = set.intersection(*({t for t, row in layer.configurations.items() if row} for layer in problem.layers))
    for t in sorted(shared & set(problem.degrees())):
        for d in divisors(batch):
            groups = d * context
            if groups * t > problem.devices:
                break
            if groups % expert:
                continue
            for zero in training.zero if groups > 1 else training.zero[:1]:
                totals = _totals(problem, exchanges_of(problem, groups, t, zero, expert), t)
                for stages in range(1, min(count, problem.devices // (groups * t)) + 1):
                    if totals.memory > stages * (limit - training.reserves.get(t, 0.0)):
                        continue
                    for schedule, chunks in _ways(training.schedules, stages, batch // d, len(starts), zero):
                        found = _bounded(totals, zero, d, t, stages, chunks, schedule, batch // d)
                        yield dataclasses.replace(found, context=context, expert=expert)


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
    totals: _Totals, zero: int, data: int, tensor: int, stages: int, chunks: int, schedule: str, microbatches: int
) -> Candidate:
    """Stages share the work out evenly at best; waiting, transfers and what memory costs are left out."""
    backward = totals.time - totals.forward
    passing = passing_time(schedule, chunks, totals.forward, backward, totals.gradients) * (1 - _ROUNDING)
    # φ + max κ ≥ φ + (n·τ − φ)/p, and φ may be larger than its least.
    apart = schedule == "gpipe"
    holding = (microbatches - 1) * (backward if apart else totals.time) / stages
    ahead = (microbatches - 1) * totals.forward / stages if apart else 0.0
    pipeline = passing * (1 - 1 / stages) + microbatches * totals.time / stages
    once = (totals.update + totals.once) / stages
    return Candidate(
        bound=(pipeline + once) * (1 - _ROUNDING),
        zero=zero,
        data=data,
        tensor=tensor,
        stages=stages,
        chunks=chunks,
        schedule=schedule,
        passing=passing,
        holding=holding * (1 - _ROUNDING),
        ahead=ahead * (1 - _ROUNDING),
        once=once * (1 - _ROUNDING),
    )


def divisors(number: int) -> list[int]:
    """All divisors, ascending."""
    small = [k for k in range(1, math.isqrt(number) + 1) if number % k == 0]
    return sorted({*small, *(number // k for k in small)})
