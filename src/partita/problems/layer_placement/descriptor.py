"""The layer placement problem, as the rest of the package sees it."""

from __future__ import annotations

from partita.problems.attributes import lazy
from partita.problems.kind import Kind
from partita.problems.layer_placement.evaluate import LayerPlacementEvaluation, complete, evaluate
from partita.problems.layer_placement.problem import LayerPlacement, LayerPlacementProblem


class LayerPlacementKind(Kind[LayerPlacementProblem, LayerPlacement, LayerPlacementEvaluation]):
    """Layers of a served model on machines that differ, one interval each: the most tokens per second."""

    summary = "which layers of a served model each of several unlike machines holds: the fewest seconds per token"
    problem = LayerPlacementProblem
    plan = LayerPlacement
    model = lazy("partita.problems.layer_placement.from_model:LayerPlacementFromModel")
    solvers = lazy("partita.problems.layer_placement.solvers:DEFAULT_SOLVERS")
    usual_solver = "combined"
    bounds = lazy("partita.problems.layer_placement.bounds:DEFAULT_BOUNDS")
    baselines = lazy("partita.problems.layer_placement.baselines:DEFAULT_BASELINES")
    report = lazy("partita.problems.layer_placement.report:LayerPlacementReport")
    sweep = lazy("partita.problems.layer_placement.sweep:LayerPlacementSweep")
    generators = lazy("partita.problems.layer_placement.generators:GENERATORS")
    samples = lazy("partita.problems.layer_placement.samples:SAMPLES")
    certify = lazy("partita.problems.layer_placement.certifying:certify")
    evaluate = staticmethod(evaluate)
    complete = staticmethod(complete)

    @property
    def title(self) -> str:
        return "layer placement problems"

    @staticmethod
    def why_none(problem: LayerPlacementProblem) -> str:
        return problem.shortage() or (
            "no machines in a row, each joined to the next by a link, hold all layers; more links, or machines that "
            "hold more layers, would do"
        )


LAYER_PLACEMENT = LayerPlacementKind()
