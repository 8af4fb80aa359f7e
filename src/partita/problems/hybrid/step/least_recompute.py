"""The plan of a layout whose layers recompute as little as the memory of their stage allows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from partita.ground.errors import InputError
from partita.nouns.pipeline import Plan
from partita.problems.hybrid.layer import Configuration
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.room import sure_room
from partita.problems.hybrid.step.interleaved import least_choices, single_slots, slots
from partita.problems.hybrid.step.layout import MeshLayout, dealt_out, layout_plan, uniform_plan
from partita.problems.hybrid.step.mesh import DeviceMesh


def stated_plan(problem: HybridProblem, layout: MeshLayout) -> Plan:
    """The plan of a layout; of one that recomputes the least what is fastest and fits, or all of it where nothing fits.

    Errors are those of ``layout_plan``.
    """
    if layout.recompute != "least":
        return layout_plan(problem, layout)
    there = problem.at(layout.context, layout.expert)
    if there is None:
        raise InputError(
            f"layout: {problem.name} does not say what layers cost with context degree {layout.context} and expert "
            f"degree {layout.expert}"
        )
    order = [there.layers[place] for place in there.order()]
    blocks, parts = dealt_out(problem, order, layout)
    mesh = DeviceMesh(
        there,
        layout.pipeline,
        layout.data,
        layout.tensor,
        layout.runs,
        layout.chunks,
        layout.zero,
        layout.context,
        layout.expert,
    )
    table = [{choice.id: choice for choice in layer.configurations.get(layout.tensor, ())} for layer in order]
    for layer, ways in zip(order, table, strict=True):
        if not ways:
            known = ", ".join(str(degree) for degree, row in sorted(layer.configurations.items()) if row)
            raise InputError(f"layout: {layer.label} has no tensor-parallel degree {layout.tensor}; it has {known}")
    configurations: dict[int, str] = {}
    limit = sure_room(problem.memory_bytes, 4 * len(order))
    for rank in range(mesh.stages):
        mine = parts[rank :: mesh.stages]
        held = mesh.reserve + mesh.exchanges.held([place for places in mine for place in places])
        alike = layout.chunks > 1 and not layout.uneven
        found = slots(order, blocks, mine, mesh.tensor) if alike else single_slots(order, mine, mesh.tensor)
        spaces = [
            [[(part, table[place][name]) for part, place in members] for name in names] for members, names in found
        ]
        chosen = least_choices(spaces, np.array(mesh.flying(rank), dtype=np.float64), limit - held)
        if chosen is None:
            # What needs least memory shows how much is missing.
            chosen = [min(range(len(space)), key=[_held(layers) for layers in space].__getitem__) for space in spaces]
        for (members, names), number in zip(found, chosen, strict=True):
            configurations |= {order[place].id: names[number] for _, place in members}
    return uniform_plan(problem, order, parts, configurations, layout)


def _held(layers: Sequence[tuple[int, Configuration]]) -> float:
    """Memory for every microbatch of some layers with configurations."""
    return sum(choice.memory_per_microbatch_bytes for _, choice in layers)
