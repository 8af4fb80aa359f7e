"""Steps of stages with degrees of their own: branch and bound over caps, bounded by pipelines that need less memory.

For one schedule and one of ZeRO's stages, a pipeline with κ from K₁ and single costs from S₁ on, within K₂ and S₂,
takes F(K₂, S₂) + K₁ + S₁ or more, F being the least sum of passing times; under GPipe forward parts have a κ of their
own. A first pass bounds F, labels find it. Uniform meshes have a search of their own, and alone share out sequences
and experts. Both first look for what is better by a share, then by a smaller one, then for what is better at all.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable
from dataclasses import replace

import msgspec
import numpy as np

from partita.engines.search.background import run_in_background
from partita.engines.search.incumbent import Incumbent
from partita.engines.search.monitor import Monitor
from partita.engines.search.result import Result
from partita.ground.errors import DisagreementError
from partita.ground.rounding import CLOSE, leq, rounded_down, rounded_up
from partita.nouns.pipeline import UNSHARED, Plan
from partita.problems.hybrid.blocks import divisors
from partita.problems.hybrid.downsets import all_downsets
from partita.problems.hybrid.evaluation import HybridEvaluation, configurations_of
from partita.problems.hybrid.instance import build_instance
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.protocol import HybridOptions, Outcome, Solver
from partita.problems.hybrid.room import is_tight, sure_room
from partita.problems.hybrid.step.evaluate import evaluate, stage_costs
from partita.problems.hybrid.step.limits import uncut
from partita.problems.hybrid.step.pipeline import refusal
from partita.problems.hybrid.step.solvers.candidates import terms_of
from partita.problems.hybrid.step.solvers.degree_boxes import boxes_by_degrees
from partita.problems.hybrid.step.solvers.free_family import (
    MOST_STAGES,
    Choice,
    FreeBox,
    FreeFamily,
    FreePipeline,
    LabelsFull,
)
from partita.problems.hybrid.step.solvers.kind_weights import kinds_need
from partita.problems.hybrid.step.solvers.uniform import MOST_SETS, MeshSearch
from partita.problems.hybrid.training import Training
from partita.problems.outcome import searched

#: Relative distances of plan and bound at which a pass is done; gaps of plans are at most the second one soon.
PASSES = (5e-2, 9e-3, CLOSE)
#: The same where only a bound is wanted.
_BOUND = (4e-3,)
#: Boxes narrower than this share of the step are not split for want of labels.
_NARROW = 2.5e-4
#: Multiple of the least sum of passing times, for each microbatch, beyond which caps are not doubled.
_FAR = 1e3
#: Data-parallel degrees of zero-bubble schedules that are told apart at once.
_FEW = 8
#: Labels to look at in a box, first and at last.
_QUICK, _LONG = 100_000, 1_000_000_000


class FreeMesh(Solver):
    """Steps of stages with degrees of their own, with bounds; proven for models of some hundred downsets."""

    name = "rows"
    summary = "steps of stages with degrees of their own, with proof: labels under caps, and uniform meshes"
    argument = (
        "boxes cover all caps on the parts of a step, and each box was bounded or refuted by a dynamic program "
        "over suffix sets"
    )

    def supports(self, problem: HybridProblem, options: HybridOptions) -> str | None:
        if problem.step.mesh == "free" or problem.others:
            return None
        return "it plans steps of stages with degrees of their own; give the step's training the mesh free"

    def solve(self, problem: HybridProblem, options: HybridOptions, monitor: Monitor) -> Outcome:
        search = PipelineSearch(problem, options)
        return searched(search.best, monitor, search.run)


def bound_of_free(
    result: Result[HybridProblem, Plan, HybridEvaluation], options: HybridOptions, monitor: Monitor
) -> float | None:
    """What no step beats whose stages have degrees of their own, given the best uniform mesh; None if nothing is known.

    It is at most 0.4 % below the best such step, if there is time.
    """
    training = result.problem.step
    if result.plan is None or result.bound is None or result.problem.spreads or any(training.zero_shards):
        # Pipelines that share out sequences or experts, or states among some replicas, are not bounded.
        return None
    problem = result.problem.replace(training=msgspec.structs.replace(training, mesh="free"))
    search = PipelineSearch(problem, options, result.plan, _BOUND, result.bound.value)
    run_in_background(search.best, monitor, search.run)
    bound = search.best.snapshot()[2]
    return bound if 0 < bound < math.inf else None


def _ignored(bound: float) -> None:
    """Nobody needs to know."""


class PipelineSearch:
    """What one run works on; ``run`` is called in a worker thread.

    It begins with a ``known`` plan. ``passes`` are relative distances of plan and bound, falling, at which to go on
    with the next one. Where it is known what no uniform mesh beats, ``of_meshes``, these are not searched.
    """

    def __init__(
        self,
        problem: HybridProblem,
        options: HybridOptions,
        known: Plan | None = None,
        passes: tuple[float, ...] = PASSES,
        of_meshes: float | None = None,
    ) -> None:
        self.problem, self.passes, self.terms = problem, passes, terms_of(problem)
        self.training: Training = problem.step
        self.best: Incumbent[Plan] = Incumbent(closeness=passes[-1])
        if known is not None:
            self._offer(known)
        self.uniform = [
            MeshSearch(kind.replace(others=()), options, best=self.best, device=kind.device if problem.others else "")
            for kind in (problem.kinds if of_meshes is None else ())
        ]
        self.counter = itertools.count()
        self.families: dict[int, FreeFamily] = {}
        self.sets: set[int] | None = None
        #: Boxes by bound, or what makes them.
        self.boxes: list[tuple[float, int, FreeBox | Callable[[], FreeBox]]] = []
        #: What is proven of pipelines where labels did not suffice, and of uniform meshes and pipelines so far.
        self.stuck = math.inf
        self.of_meshes, self.of_free = of_meshes or 0.0, 0.0

    def run(self) -> None:
        self.best.counters |= {"boxes": 0, "labelled": 0}
        self.of_free = self._work()
        self._meshes(self.of_free)
        self._begin()
        for close in self.passes:
            if self.uniform:
                # What a search on one kind of devices hears of others on the way is no bound for all.
                alone: Callable[[float], object] = self._meshes if len(self.uniform) == 1 else _ignored
                self._meshes(min(search.sweep(close, alone) for search in self.uniform))
            self._free(close)
            if self.best.done:
                return
        if self.best.stop[0] == 0 and math.isinf(self.of_free) and math.isinf(self.of_meshes):
            self.best.refute("all pipelines")

    def _work(self) -> float:
        """All devices together work on every layer, at the degree that takes least device time.

        Of several kinds, the slowest is done no sooner than all would be if layers could be split.
        """
        least = [kind.least_device_times() for kind in self.problem.kinds]
        work = np.array([[times[layer.id] for layer in self.problem.layers] for times in least])
        devices = [kind.devices for kind in self.problem.kinds]
        shared = self.problem.microbatches * kinds_need(np.zeros_like(work), work, np.ones(work.shape[1]), devices)
        return self._down(shared)

    def _down(self, bound: float) -> float:
        """A bound that rounding of sums does not put above a step."""
        return rounded_down(bound, bound, self.terms) if bound < math.inf else bound

    def _begin(self) -> None:
        model = build_instance(self.problem.replace(training=None, microbatches=1, others=(), spreads=()))
        self.sets = all_downsets(model.after, model.before, MOST_SETS)
        self.choices = [
            Choice(t, d, number)
            for number, kind in enumerate(self.problem.kinds)
            for t in kind.degrees()
            for d in divisors(self.problem.microbatches)
            if kind.holds(d, t)
        ]
        if math.isinf(self.of_free):
            # Some layer has no degree that any devices allow.
            return
        alike = self.training.mesh == "uniform" and UNSHARED in self.training.shared
        boxes = []
        for bound, make in boxes_by_degrees(self.problem) if alike else ():
            if self.best.stop[0] != 0:
                self.stuck = self.of_free
                return
            boxes.append((max(bound, self.of_free), make))
        if self.sets is None or len(self.choices) * len(self.sets) ** 2 > MOST_STAGES:
            self.stuck = min((bound for bound, _ in boxes), default=math.inf) if alike else self.of_free
            return
        self.sets = uncut(self.problem, model.order, self.sets)
        if not (UNSHARED in self.training.shared and self._has_free()):
            return
        self.boxes = [(bound, next(self.counter), make) for bound, make in boxes if bound < math.inf]
        heapq.heapify(self.boxes)
        for zero in self.training.zero if not alike else ():
            for schedule in self.training.schedules:
                # A pipeline of one stage is a uniform mesh.
                if schedule != "interleaved" and refusal(schedule, 2, 1, self.problem.microbatches, zero) is None:
                    box = FreeBox(schedule=schedule, zero=zero)
                    self._push(self.of_free, box if schedule == "gpipe" else box.cut(1, high=0.0))

    def _has_free(self) -> bool:
        """Whether every layer has a degree that devices allow which share out neither sequence nor experts."""
        degrees = {(choice.kind, choice.tensor) for choice in self.choices}
        kinds = self.problem.kinds
        return all(
            any(kinds[kind].layers[place].configurations.get(degree) for kind, degree in degrees)
            for place in range(len(self.problem.layers))
        )

    # -- bounds ------------------------------------------------------------------------------------------------------

    def _meshes(self, bound: float) -> None:
        self.of_meshes = max(self.of_meshes, bound)
        self._prove()

    def _prove(self) -> None:
        bound = min(self.of_meshes, self.of_free)
        if 0 < bound < math.inf:
            self.best.prove(bound, "pipelines")

    def _push(self, bound: float, box: FreeBox) -> None:
        if bound < self.best.value * (1 - CLOSE) and min(box.widths) >= 0:
            heapq.heappush(self.boxes, (bound, next(self.counter), box))

    # -- pipelines ---------------------------------------------------------------------------------------------------

    def _free(self, close: float) -> None:
        """Search pipelines until none can be better than the best plan by this share."""
        while self.best.stop[0] == 0:
            ahead = min(self.stuck, self.boxes[0][0] if self.boxes else math.inf)
            kept = self.best.value * (1 - CLOSE)
            self.of_free = max(self.of_free, min(ahead, kept))
            self._prove()
            if not self.boxes or self.boxes[0][0] >= self.best.value * (1 - close):
                return
            bound, _, box = heapq.heappop(self.boxes)
            self.best.counters["boxes"] += 1
            self._close(bound, box if isinstance(box, FreeBox) else box(), close)

    def _close(self, bound: float, box: FreeBox, close: float) -> None:
        """Raise the bound of a box, or split it."""
        family, value = self._family(box.zero), self.best.value
        target = value * (1 - close)
        least = family.least(box, target - box.least)
        if least is None:
            self.stuck = min(self.stuck, bound)
            return
        reached = max(bound, self._down(least + box.least))
        if reached >= target:
            self._push(max(bound, target), box)
            return
        spare = target - least - box.least
        for place, low in enumerate(box.lows):
            cap = rounded_up(low + spare, target, self.terms)
            if cap < box.highs[place]:
                # Pipelines beyond the cap take at least the target; they are found again if that falls.
                self._push(max(bound, target), box.cut(place, low=cap))
                box = box.cut(place, high=cap)
        widest = max(box.widths)
        # Where no plan is known caps are doubled, up to what hardly any stage needs.
        far = _FAR * self.problem.microbatches * least
        wide = box.least < far if math.isinf(value) else widest > _NARROW * value
        degrees = sorted({choice.data for choice in self.choices})
        mixed = box.schedule == "zero-bubble" and box.data == 0
        near = math.isinf(value) or widest < _NARROW * 100 * value
        if mixed and (near or len(degrees) <= _FEW):
            for data in degrees:
                stages = min(len(self.problem.layers), self.problem.microbatches // data)
                self._push(max(bound, reached), replace(box, data=data, fewest=data, replicas=stages * data))
            return
        if box.data > 0 and box.schedule == "zero-bubble" and box.fewest < box.replicas:
            # What stages hold depends on their number.
            replicas = (box.fewest + box.replicas) // (2 * box.data) * box.data
            self._push(max(bound, reached), replace(box, replicas=replicas))
            self._push(max(bound, reached), replace(box, fewest=replicas + box.data))
            return
        if not mixed and self._label(bound, box, target, _QUICK if wide else _LONG):
            return
        if not wide:
            self.stuck = min(self.stuck, bound)
            return
        place = box.widths.index(widest)
        low, high = box.lows[place], box.highs[place]
        middle = (low + high) / 2 if high < math.inf else 2 * low + least
        for half in (box.cut(place, high=middle), box.cut(place, low=middle)):
            self._push(max(bound, self._down(least + half.least)), half)

    def _label(self, bound: float, box: FreeBox, target: float, effort: int) -> bool:
        """Find the best pipeline of a box just bounded, and split what is left; False if that takes too many labels."""
        family = self._family(box.zero)
        limit = target - box.least
        self.best.counters["labelled"] += 1
        try:
            found = family.best(box, limit, effort)
        except LabelsFull:
            return False
        if self.best.stop[0] != 0:
            self.stuck = min(self.stuck, bound)
            return True
        if found is None:
            self._push(max(bound, target), box)
            return True
        evaluation = self._offer(found.plan)
        if is_tight(self.problem, found.plan, evaluation):
            # What fits for certain; other pipelines may be better, so that nothing more is proven.
            self.stuck = min(self.stuck, bound)
            self._offer_certain(box, limit)
            return True
        costs, exact = self._judge(found, evaluation)
        if not exact and found.replicas > box.fewest:
            # The schedule holds what all stages have as replicas, and fewer were counted.
            self._push(bound, replace(box, replicas=min(box.replicas, found.replicas - 1)))
            self._push(bound, replace(box, fewest=found.replicas))
            return True
        passing = rounded_down(found.passing, found.passing + sum(costs), self.terms)
        for part in box.beside(costs)[0]:
            self._push(max(bound, passing + part.least), part)
        return True

    def _offer_certain(self, box: FreeBox, limit: float) -> None:
        assert self.sets is not None
        family = FreeFamily(self.problem, self.choices, box.zero, self.sets, self.best.stop, sure_room)
        if family.least(box, limit) is None:
            return
        try:
            found = family.best(box, limit, _LONG)
        except LabelsFull:
            return
        if found is not None:
            self._offer(found.plan)

    def _judge(self, found: FreePipeline, evaluation: HybridEvaluation) -> tuple[tuple[float, ...], bool]:
        """The largest κs and single cost of a pipeline, and whether it takes and holds what was promised."""
        chosen = configurations_of(self.problem, found.plan)
        costs = stage_costs(self.problem, found.plan, chosen)[1]
        rows = ((cost.holding, cost.ahead, cost.sync + cost.update) for cost in costs)
        most = tuple(map(max, zip(*rows, strict=True)))
        exact = evaluation.feasible and leq(evaluation.objective, found.passing + sum(most))
        if not exact and found.plan.schedule != "zero-bubble":
            raise DisagreementError(
                f"a pipeline takes {evaluation.objective!r}, and promised {found.passing + sum(most)!r}: "
                f"{', '.join(evaluation.violations)}"
            )
        return most, exact or found.plan.schedule != "zero-bubble"

    def _offer(self, plan: Plan) -> HybridEvaluation:
        evaluation = evaluate(self.problem, plan)
        if evaluation.feasible:
            self.best.offer(evaluation.objective, plan, "free")
        return evaluation

    def _family(self, zero: int) -> FreeFamily:
        if zero not in self.families:
            assert self.sets is not None
            size = 36 * len(self.choices) * len(self.sets) ** 2
            while self.families and size * (len(self.families) + 1) > 1 << 30:
                del self.families[next(iter(self.families))]
            self.families[zero] = FreeFamily(self.problem, self.choices, zero, self.sets, self.best.stop)
        return self.families[zero]
