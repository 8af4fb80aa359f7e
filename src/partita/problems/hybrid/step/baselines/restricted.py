"""Planners with less choice: without one of the means, or on several kinds of devices as people use them.

The ablations are those of Tarnawski, Narayanan and Phanishayee, "Piper" (NeurIPS 2021), §5, "Baselines", of a step.
Stages in proportion to speed are how Whale (Jia et al., USENIX ATC 2022, §3.3) balances them on unequal devices: layers
in proportion to what each device can do.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import msgspec

from partita.engines.search.monitor import Monitor
from partita.ground.rounding import up_to
from partita.nouns.pipeline import Plan, Stage
from partita.problems.hybrid.blocks import divisors
from partita.problems.hybrid.layer import Layer
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.protocol import Baseline, HybridOptions, Outcome
from partita.problems.hybrid.restrictions import fastest_only
from partita.problems.hybrid.step.evaluate import evaluate
from partita.problems.hybrid.step.mesh import DeviceMesh
from partita.problems.hybrid.step.solvers.uniform import UniformMesh


@dataclass(frozen=True)
class RestrictedStep(Baseline):
    """The best uniform mesh with less choice: of meshes that it ``admits``, of a problem that it restricts."""

    admits: Callable[[DeviceMesh], bool] | None = None
    restrict: Callable[[HybridProblem], HybridProblem] | None = None

    def supports(self, problem: HybridProblem, options: HybridOptions) -> str | None:
        return "it is for devices of one kind" if problem.others else None

    def solve(self, problem: HybridProblem, options: HybridOptions, monitor: Monitor) -> Outcome:
        restricted = problem if self.restrict is None else self.restrict(problem)
        usual = HybridOptions(seed=options.seed, threads=options.threads)
        outcome = UniformMesh(self.admits).solve(restricted, usual, monitor.part())
        if outcome.plan is not None:
            return Outcome(outcome.plan)
        return Outcome(
            None, reason="no plan of this kind fits" if outcome.infeasible else "no plan was found in the time given"
        )


NO_DATA_PARALLEL = RestrictedStep(
    "no data parallelism", "the best plan without replicas (Piper's no DP)", admits=lambda mesh: mesh.data == 1
)
NO_TENSOR_PARALLEL = RestrictedStep(
    "no tensor parallelism", "the best plan without split layers (Piper's no TP)", admits=lambda mesh: mesh.tensor == 1
)
NO_RECOMPUTATION = RestrictedStep(
    "no recomputation", "the best plan that saves no memory in any layer (Piper's no AR)", restrict=fastest_only
)


@dataclass(frozen=True)
class OnKinds(Baseline):
    """A baseline for several kinds of devices."""

    plans: Callable[[HybridProblem, HybridOptions, Monitor], Iterator[Plan]]

    def supports(self, problem: HybridProblem, options: HybridOptions) -> str | None:
        return None if problem.others else "it is for several kinds of devices"

    def solve(self, problem: HybridProblem, options: HybridOptions, monitor: Monitor) -> Outcome:
        best, value = None, math.inf
        for plan in self.plans(problem, options, monitor):
            found = evaluate(problem, plan)
            if found.feasible and found.objective < value:
                best, value = plan, found.objective
            if monitor.stopping:
                break
        return Outcome(best, reason="no plan of this kind fits" if best is None else "")


def _fastest(problem: HybridProblem, options: HybridOptions, monitor: Monitor) -> Iterator[Plan]:
    """The best uniform mesh on each kind alone."""
    for kind in problem.kinds:
        plan = UniformMesh().solve(kind.replace(others=()), options, monitor.part()).plan
        if plan is not None:
            stages = tuple(msgspec.structs.replace(stage, kind=kind.device) for stage in plan.stages)
            yield msgspec.structs.replace(plan, stages=stages)


def _proportional(problem: HybridProblem, options: HybridOptions, monitor: Monitor) -> Iterator[Plan]:
    """All devices in stages of equal degrees, the fastest kind first, and blocks in proportion to their speed."""
    training = problem.step
    order = problem.order()
    shared = set.intersection(*(set(kind.degrees()) for kind in problem.kinds))
    for t, d in itertools.product(sorted(shared), divisors(problem.microbatches)):
        counts = [kind.devices // (d * t) for kind in problem.kinds]
        if not all(counts) or sum(counts) > len(order):
            continue
        kinds = [kind for kind, count in zip(problem.kinds, counts, strict=True) for _ in range(count)]
        parts = _dealt(kinds, order, t)
        for way, schedule, zero in itertools.product(("none", "selective", "full"), training.schedules, training.zero):
            if parts is not None and schedule != "interleaved":
                yield Plan(
                    stages=tuple(
                        Stage(
                            operators=tuple(problem.layers[v].id for v in sorted(part)),
                            data_parallel=d,
                            tensor_parallel=t,
                            kind=kind.device,
                            configurations={kind.layers[v].id: _choice(kind.layers[v], t, way) for v in part},
                        )
                        for kind, part in zip(kinds, parts, strict=True)
                    ),
                    schedule=schedule,
                    zero=zero,
                )


def _dealt(kinds: list[HybridProblem], order: list[int], t: int) -> list[list[int]] | None:
    """Places of each stage's layers; None where a layer lacks the degree."""
    if not all(layer.configurations.get(t) for kind in kinds for layer in kind.layers):
        return None
    times = [[min(c.time for c in kind.layers[v].configurations[t]) for v in order] for kind in kinds]
    speeds = [1 / max(sum(part), 1e-300) for part in times]
    parts: list[list[int]] = []
    begin, done = 0, 0.0
    for number, speed in enumerate(speeds):
        done += speed / sum(speeds)
        left = len(speeds) - number - 1
        end, whole = begin + 1, sum(times[number])
        while end < len(order) - left and sum(times[number][: end + 1]) <= up_to(done * whole):
            end += 1
        end = len(order) if left == 0 else end
        parts.append(order[begin:end])
        begin = end
    return parts


def _choice(layer: Layer, t: int, way: str) -> str:
    """The way to recompute, or what comes first where the layer does not have it."""
    names = [choice.id for choice in layer.configurations[t]]
    return way if way in names else names[0]


FASTEST_KIND = OnKinds("the fastest kind of devices alone", "the best mesh on devices of one kind", _fastest)
PROPORTIONAL = OnKinds(
    "pipeline in proportion to speed",
    "stages of equal degrees on all devices, with layers in proportion to the speed of their devices",
    _proportional,
)
