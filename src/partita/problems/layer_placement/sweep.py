"""Layer placements over numbers of layers, and factors on every link.

``relaxes``: with the same machines, layers and rule, links that carry no less carry every plan's flows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from partita.problems.facets.sweep import DEVICE_AXES, Axis, Sweep, listed
from partita.problems.layer_placement.evaluate import complete
from partita.problems.layer_placement.problem import LayerPlacement, LayerPlacementProblem
from partita.problems.settings import setting


class LayerPlacementSweep(Sweep[LayerPlacementProblem, LayerPlacement]):
    """Layers of the model, and bandwidth."""

    axes: Sequence[Axis] = (
        Axis(
            "layers",
            listed(setting("Layers of the model.", "--layers", type=int, metavar="N", least=1, unit="layers")),
            "layers",
        ),
        DEVICE_AXES[2],
    )

    def at(self, problem: LayerPlacementProblem, point: Mapping[str, Any]) -> LayerPlacementProblem:
        layers, bandwidth = point.get("layers"), point.get("bandwidth", 1.0)
        if layers is not None and layers != problem.layers:
            # What is published is of another problem.
            problem = problem.replace(layers=layers, published=None)
        if bandwidth == 1.0:
            return problem
        links = tuple(
            msgspec.structs.replace(link, tokens_per_s=link.tokens_per_s * bandwidth) for link in problem.links
        )
        return problem.replace(links=links, published=None)

    def place(self, problem: LayerPlacementProblem, point: Mapping[str, Any]) -> dict[str, Any]:
        return {"layers": problem.layers, "bandwidth": point.get("bandwidth", 1.0)}

    def relaxes(self, easier: LayerPlacementProblem, harder: LayerPlacementProblem) -> bool:
        """By what the module says."""
        same = ("layers", "machines", "overlap", "worth")
        # A run over wider links may take longer: others come first then.
        if harder.worth != "flow" or any(getattr(easier, field) != getattr(harder, field) for field in same):
            return False
        carried = {(link.source, link.target): link.tokens_per_s for link in easier.links}
        return all(carried.get((link.source, link.target), -1.0) >= link.tokens_per_s for link in harder.links)

    def transfer(self, plan: LayerPlacement, problem: LayerPlacementProblem) -> LayerPlacement | None:
        """The same intervals with a largest flow there; None if there are not as many layers."""
        names = {machine.name for machine in problem.machines}
        if any(one.name not in names or one.layers[1] > problem.layers for one in plan.machines):
            return None
        return complete(problem, LayerPlacement(machines=plan.machines))

    def figures(
        self, points: Sequence[Mapping[str, Any]], results: Sequence[Any], answers: Sequence[Any]
    ) -> list[dict[str, Any]]:
        return [{"tokens_per_s": None if one.evaluation is None else one.evaluation.tokens_per_s} for one in results]

    def columns(self) -> Mapping[str, Any]:
        return {"tokens_per_s": ("tokens/s", lambda value, unit: "" if value is None else f"{value:.6g}")}
