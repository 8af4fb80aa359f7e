"""The plan of a layout whose layers recompute as little as the memory of their stage allows."""

from __future__ import annotations

from partita.nouns.pipeline import Plan
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.room import sure_room
from partita.problems.hybrid.step.interleaved import plan_of_parts, single_slots, slots
from partita.problems.hybrid.step.layout import MeshLayout, dealt_out, layout_plan, offered, problem_of
from partita.problems.hybrid.step.mesh import DeviceMesh


def stated_plan(problem: HybridProblem, layout: MeshLayout) -> Plan:
    """The plan of a layout; of one that recomputes the least what is fastest and fits, or all of it where nothing fits.

    Errors are those of ``layout_plan``.
    """
    if layout.recompute != "least":
        return layout_plan(problem, layout)
    there = problem_of(problem, layout)
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
        *layout.shared,
        layout.zero_shards,
    )
    for layer in order:
        offered(layer, layout)
    alike = layout.chunks > 1 and not layout.uneven
    plan = plan_of_parts(
        mesh,
        order,
        parts,
        lambda mine: slots(order, blocks, mine, mesh.tensor) if alike else single_slots(order, mine, mesh.tensor),
        sure_room,
        fits=False,
    )
    assert plan is not None
    return plan
