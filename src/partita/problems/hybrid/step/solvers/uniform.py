"""Proven optimal steps of uniform meshes: branch and bound over meshes, and over caps on the slowest stage of each.

For one mesh, let F(K, S) be the least sum of passing times φ with every stage's κ within K and what it does once within
S, a small dynamic program. One with κ from K₁ to K₂ and single costs from S₁ to S₂ takes F(K₂, S₂) + K₁ + S₁ or more;
that which attains F leaves only those with smaller caps. Boxes of caps are split until their bounds meet the plan.
Under GPipe forward and backward parts have caps of their own.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import msgspec

from partita.engines.search.incumbent import Incumbent
from partita.engines.search.monitor import Monitor
from partita.ground.errors import DisagreementError
from partita.ground.rounding import CLOSE, leq, rounded_down
from partita.nouns.pipeline import Plan, SharedDegrees
from partita.problems.hybrid.blocks import find_blocks
from partita.problems.hybrid.downsets import all_downsets, along_orders, some_orders
from partita.problems.hybrid.instance import build_instance
from partita.problems.hybrid.layer import Layer
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.protocol import HybridOptions, Outcome, Solver
from partita.problems.hybrid.room import Room, is_tight, most_room, sure_room
from partita.problems.hybrid.step.evaluate import evaluate
from partita.problems.hybrid.step.interleaved import interleaved_plan, plan_of_parts
from partita.problems.hybrid.step.limits import alike, uncut
from partita.problems.hybrid.step.mesh import DeviceMesh
from partita.problems.hybrid.step.solvers.candidates import (
    CandidateMesh,
    CandidateOrder,
    at_degrees,
    groups_of,
    terms_of,
)
from partita.problems.hybrid.step.solvers.mesh_family import MeshFamily
from partita.problems.hybrid.step.solvers.step_family import Box
from partita.problems.hybrid.step.solvers.uneven import UnlikeBound, decided, tries_all, uneven_cuts
from partita.problems.outcome import searched

#: Most downsets of which all pairs are looked at; beyond these only sets along some orders are.
MOST_SETS = 800
_ORDERS = 12


class UniformMesh(Solver):
    """Exact solver of a step, of all meshes or of those that it ``admits``.

    With very many downsets the plan comes with a bound only.
    """

    name = "uniform"
    summary = "steps of uniform meshes with proof: every mesh, layers by dynamic programs under caps"
    argument = "every mesh was bounded, and dynamic programs over the layers went through those that could be better"

    def __init__(self, admits: Callable[[DeviceMesh], bool] | None = None) -> None:
        self.admits = admits

    def supports(self, problem: HybridProblem, options: HybridOptions) -> str | None:
        alike = problem.step.mesh == "uniform" and not problem.others
        return None if alike else "it plans uniform meshes of devices of one kind; use rows"

    def solve(self, problem: HybridProblem, options: HybridOptions, monitor: Monitor) -> Outcome:
        search = MeshSearch(problem, options, self.admits)
        return searched(search.best, monitor, search.run)


class MeshSearch:
    """What one run works on; ``run`` is called in a worker thread.

    Plans go to ``best``, where others may have some as well, and name a kind of ``device``; ``run`` says there what is
    proven, ``sweep`` does not.
    """

    def __init__(
        self,
        problem: HybridProblem,
        options: HybridOptions,
        admits: Callable[[DeviceMesh], bool] | None = None,
        best: Incumbent[Plan] | None = None,
        device: str = "",
    ) -> None:
        self.problem, self.options = problem, options
        self.best: Incumbent[Plan] = Incumbent() if best is None else best
        self.order = [problem.layers[place] for place in problem.order()]
        self.blocks = find_blocks(self.order)
        self.families: dict[tuple[int, SharedDegrees, str, bool], MeshFamily] = {}
        self.best.counters |= {"meshes": 0, "rows": 0}
        self.admits = admits
        self.candidates = CandidateOrder(
            group
            for way, restricted in alike(problem).items()
            for shared, there in at_degrees(restricted).items()
            for group in groups_of(there, self.blocks.starts, shared, way)
        )
        model = build_instance(problem.replace(training=None, spreads=(), microbatches=1))
        sets = all_downsets(model.after, model.before, MOST_SETS)
        self.proof = sets is not None
        if sets is None:
            sets = along_orders(some_orders(model.after, model.before, _ORDERS, options.seed))
        self.sets = uncut(problem, model.order, sets)
        self.close, self.device, self.terms = CLOSE, device, terms_of(problem)
        self.unlike = UnlikeBound(self.terms)

    def run(self) -> None:
        first = next(self._admitted(), None)
        if first is None:
            self.best.refute("the meshes there are")
            return
        self.best.prove(first.bound, "division of work")
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
        first = next((one.bound for one in self._admitted()), math.inf)
        #: Bound on what was left out of meshes that were looked at.
        left = math.inf
        # Unlike parts are dealt out last: there are many ways, and few are better than what is known then.
        for unlike in (False, True):
            behind = math.inf
            for candidate in self._admitted():
                if candidate.mesh.unlike != unlike:
                    behind = min(behind, math.inf if unlike else candidate.bound)
                    continue
                ahead = min(left, candidate.bound, behind)
                if self.proof and not math.isinf(ahead):
                    proven(min(ahead, self._known()))
                if self.best.stop[0] != 0:
                    return min(ahead, self._known()) if self.proof else first
                if candidate.bound >= self.best.value * (1 - close):
                    left = min(left, candidate.bound)
                    break
                self.best.counters["meshes"] += 1
                left = min(left, self._close(candidate))
        return min(left, self._known()) if self.proof else first

    def _admitted(self) -> Iterator[CandidateMesh]:
        return (one for one in self.candidates if self.admits is None or self.admits(one.mesh))

    def _known(self) -> float:
        """The best plan's step, which was added up in another order than what is compared with it."""
        value = self.best.value
        return rounded_down(value, value, self.terms) if value < math.inf else math.inf

    def _close(self, candidate: CandidateMesh) -> float:
        """Look for a better plan of a mesh; a bound on those that are left out, infinite if none is."""
        mesh = candidate.mesh
        if mesh.schedule == "interleaved":
            return self._deal_out(mesh, candidate.bound)
        family, best = self._family(candidate), self.best
        counter = itertools.count()
        first = Box(lows=candidate.lows)
        boxes = [(candidate.bound, next(counter), first)]
        left_out = math.inf
        while boxes:
            reached, _, box = heapq.heappop(boxes)
            if best.stop[0] != 0 or reached >= best.value * (1 - self.close):
                # Others have larger bounds.
                return min(left_out, reached)
            spare = best.value - candidate.passing - box.least
            for place, low in enumerate(box.lows):
                box = box.cut(place, high=low + spare)
            limit = candidate.passing + spare
            best.counters["rows"] += 1
            found = family.best(mesh, box, limit)
            if best.stop[0] != 0:
                return min(left_out, reached)
            if found is None:
                continue
            if found.step < best.value:
                plan = family.plan(mesh, found)
                if plan is None:
                    return min(left_out, reached)
                if not self._offer(plan, found.step):
                    # What fits for certain; other plans may be better, so that nothing more is proven.
                    self._offer_certain(candidate, box, limit)
                    left_out = min(left_out, reached)
                    continue
            bound = rounded_down(found.passing, found.step, self.terms)
            parts, rest = box.beside(found.costs)
            left_out = min(left_out, bound + rest.least)
            for part in parts:
                if min(part.widths) >= 0:
                    heapq.heappush(boxes, (bound + part.least, next(counter), part))
        return left_out

    def _deal_out(self, mesh: DeviceMesh, bound: float) -> float:
        """Look at the one plan of an interleaved mesh; as ``_close``.

        Where parts may be uneven, see ``solvers.uneven``.
        """
        order = [mesh.problem.layers[place] for place in mesh.problem.order()]
        if mesh.unlike:
            return self._deal_unlike(mesh, order, bound)
        alone = self._offer_best(lambda room: interleaved_plan(mesh, order, self.blocks, room))
        return math.inf if alone else bound

    def _offer_best(self, made: Callable[[Room], Plan | None]) -> bool:
        """Offer the best plan of some parts; whether none is better, where else what fits for certain is offered."""
        for room in (most_room, sure_room):
            plan = made(room)
            if plan is None or self._offer(plan, None):
                return room is most_room
        return False

    def _deal_unlike(self, mesh: DeviceMesh, order: Sequence[Layer], bound: float) -> float:
        """The same of parts with unlike numbers of layers, each of which recomputes what it likes."""
        bound = max(bound, self.unlike.least(mesh, order))
        if bound >= self.best.value * (1 - self.close):
            return bound
        chain = self.proof and len(self.sets) == len(order) + 1
        if not tries_all(mesh, order, chain=chain) and self.unlike.about(mesh, order) >= self.best.value:
            return bound
        cuts, proven = uneven_cuts(mesh, order, chain=chain)
        for parts in cuts:
            proven &= self._offer_best(
                partial(plan_of_parts, mesh, order, parts, lambda mine: decided(order, mine, mesh.tensor))
            )
            if self.best.stop[0] != 0:
                return bound
        return math.inf if proven else bound

    def _offer_certain(self, candidate: CandidateMesh, box: Box, limit: float) -> None:
        family = self._family(candidate, sure_room)
        found = family.best(candidate.mesh, box, limit)
        plan = None if found is None else family.plan(candidate.mesh, found)
        if found is not None and plan is not None:
            self._offer(plan, found.step)

    def _family(self, candidate: CandidateMesh, room: Room = most_room) -> MeshFamily:
        mesh = candidate.mesh
        key = mesh.tensor, mesh.shared, candidate.way, room is most_room
        if key not in self.families:
            self.families[key] = MeshFamily(mesh.problem, mesh.tensor, self.sets, self.best.stop, len(self.order), room)
        return self.families[key]

    def _offer(self, plan: Plan, promised: float | None) -> bool:
        """Take a plan if it is better; False if rounding alone decides whether it fits, and it does not."""
        evaluation = evaluate(self.problem, plan)
        if is_tight(self.problem, plan, evaluation):
            return False
        if promised is not None and not evaluation.feasible:
            raise DisagreementError(f"a pipeline fails: {evaluation.violations[0]}")
        if promised is not None and not leq(evaluation.objective, promised):
            raise DisagreementError(f"a pipeline takes {evaluation.objective!r}, and promised {promised!r}")
        if evaluation.feasible:
            stages = tuple(msgspec.structs.replace(stage, kind=self.device) for stage in plan.stages)
            self.best.offer(evaluation.objective, msgspec.structs.replace(plan, stages=stages), "uniform")
        return True
