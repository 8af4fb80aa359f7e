"""Hybrid plans of a step, mesh by mesh: stages, replicas, tensor-parallel groups, ZeRO's stage and schedule."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec

from partita.costs.collectives import sent_share
from partita.engines.search.monitor import Monitor
from partita.ground.dags import topological_order
from partita.nouns.pipeline import Plan
from partita.problems.facets.stages import Replication, Shape
from partita.problems.hybrid.blocks import find_blocks
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.protocol import Outcome
from partita.problems.hybrid.step.costs import moved_bytes
from partita.problems.hybrid.step.mesh import DeviceMesh
from partita.problems.hybrid.step.solvers.candidates import groups_of
from partita.problems.hybrid.step.solvers.uniform import UniformMesh
from partita.problems.hybrid.training import LayerState


class StepReplicas(Replication[HybridProblem, Plan]):
    """Every mesh that memory may allow, but for interleaved ones, which have no simulated step where they are placed.

    Layers choose their configurations in the split, recomputation among them.
    """

    def shapes(self, problem: HybridProblem) -> Sequence[Shape[HybridProblem]]:
        kept = tuple(name for name in problem.step.schedules if name != "interleaved") or ("1f1b",)
        problem = problem.replace(training=msgspec.structs.replace(problem.step, schedules=kept))
        starts = find_blocks([problem.layers[place] for place in problem.order()]).starts
        found = []
        least: dict[int, tuple[float, float, float]] = {}
        for one in (candidate.mesh for group in groups_of(problem, starts) for candidate in group.meshes()):
            if one.tensor not in least:
                least[one.tensor] = _least(problem, one.tensor)
            work, chain, share = least[one.tensor]
            states = [layer.states[one.tensor] for layer in problem.layers if one.tensor in layer.states]
            found.append(
                Shape(
                    stages=one.stages,
                    replicas=one.data,
                    schedule=one.schedule,
                    recompute=False,
                    microbatches=one.microbatches,
                    problem=problem,
                    work_s=work,
                    chain_s=chain,
                    parameter_bytes=_reduced(states, one),
                    group=one.tensor,
                    zero=one.zero,
                    zero_shards=one.zero_shards,
                    forward_share=share if one.schedule == "zero-bubble" else 1.0,
                    mesh=_mesh(one),
                    levels_at_once=True,
                )
            )
        return found

    def split(self, shape: Shape[HybridProblem], options: Any, monitor: Monitor) -> Outcome:
        return UniformMesh(partial(_is, shape.mesh)).solve(shape.problem, options, monitor)

    def spread(self, problem: HybridProblem, shape: Shape[HybridProblem], plan: Plan) -> tuple[HybridProblem, Plan]:
        return problem, plan


def _mesh(one: DeviceMesh) -> tuple[Any, ...]:
    return one.stages, one.data, one.tensor, one.zero, one.zero_shards, one.schedule


def _reduced(states: Sequence[LayerState], one: DeviceMesh) -> float:
    """Bytes of the all-reduce of replicas that takes no longer than what they exchange, whatever the links.

    Where some of them share out what all others hold, too, exchanges follow one another on different links.
    """
    if one.data == 1 or one.zero_shards:
        return 0.0
    return moved_bytes(states, one.zero, one.data) / sent_share("all-reduce", one.data)


def _is(mesh: tuple[Any, ...], one: DeviceMesh) -> bool:
    return _mesh(one) == mesh


def _least(problem: HybridProblem, degree: int) -> tuple[float, float, float]:
    """Least work of a microbatch, of a chain of layers that hand tensors on, and the least share of forward parts.

    A layer's forward part is that of its fastest configuration, whichever runs.
    """
    fastest = [min(layer.configurations[degree], key=lambda choice: choice.time) for layer in problem.layers]
    time = [choice.time for choice in fastest]
    share = min((choice.forward / choice.time for choice in fastest if choice.time > 0), default=1.0)
    moved = [pair for pair, edge in zip(problem.links(), problem.edges, strict=True) if edge.bytes > 0]
    before: dict[int, list[int]] = {}
    for a, b in moved:
        before.setdefault(b, []).append(a)
    longest = list(time)
    for v in topological_order(len(time), moved):
        longest[v] = time[v] + max((longest[u] for u in before.get(v, ())), default=0.0)
    return sum(time), max(longest), share
