"""What a runtime can run, as constraints of a problem about a step."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import msgspec

from partita.catalogue.runtimes import Runtime
from partita.costs.rows import row_of
from partita.errors import InputError
from partita.graph import Graph
from partita.problems.hybrid.options import HybridPricing, ScheduleName
from partita.problems.hybrid.problem import Edge, HybridProblem
from partita.problems.hybrid.training import ZERO_STAGES, StageLimits

if TYPE_CHECKING:
    from partita.problems.hybrid.pricing import LayerMenus


def limited_settings(settings: HybridPricing, runtime: Runtime, planned: tuple[ScheduleName, ...]) -> HybridPricing:
    """The settings that keep to the schedules and degrees of a runtime.

    Parameters
    ----------
    settings, runtime
        What was asked for, and of whom.
    planned
        Schedules that are looked at unless others are asked for.

    Raises
    ------
    InputError
        If something is asked for that it does not run.
    """
    limits = runtime.limits
    if settings.minimise == "steady" or settings.mesh == "free":
        flag = "--minimise steady" if settings.minimise == "steady" else "--mesh free"
        raise InputError(f"{runtime.name} has one mesh for all stages, which is planned for a step; leave {flag} out")

    def runs(schedule: str) -> bool:
        return (not limits.schedules or schedule in limits.schedules) and (limits.chunks or schedule != "interleaved")

    for schedule in settings.schedule:
        if not runs(schedule):
            raise InputError(f"{runtime.name} has no schedule {schedule}; take another one of {', '.join(planned)}")
    chosen = settings.schedule or tuple(filter(runs, planned))
    degrees = settings.tensor_parallel_degrees
    if not limits.tensor:
        if any(degree > 1 for degree in degrees):
            raise InputError(f"{runtime.name} has no tensor parallelism; leave --tensor-parallel-degrees out")
        degrees = (1,)
    zero = settings.zero or ((1,) if settings.zero1 else ZERO_STAGES)
    if min(zero) > limits.zero:
        raise InputError(
            f"{runtime.name} runs pipelines with ZeRO-{limits.zero} at most; take another stage with --zero"
        )
    return msgspec.structs.replace(
        settings,
        schedule=chosen,
        tensor_parallel_degrees=degrees,
        zero=tuple(stage for stage in zero if stage <= limits.zero),
        zero1=False,
    )


def on_runtime(problem: HybridProblem, graph: Graph, menus: LayerMenus, runtime: Runtime) -> HybridProblem:
    """A problem about a step whose stages keep what a runtime can run of the graph.

    Raises
    ------
    UnsupportedError
        If the runtime runs rows of blocks, and the model is none.
    """
    from partita.problems.hybrid.pricing import layer_operators

    assert problem.training is not None
    limits, operators = runtime.limits, layer_operators(graph, menus)
    layer_of = {v: identity for identity, members in operators.items() for v in members}
    together: list[tuple[int, ...]] = []
    if limits.ordered:
        row = row_of(graph, runtime)
        unit = {identity: max(row.unit[v] for v in members) for identity, members in operators.items()}
        line = sorted(unit, key=lambda identity: (unit[identity], identity))
        groups = [tuple(found) for _, found in itertools.groupby(line, key=unit.__getitem__)]
        first = {unit[group[0]]: group[0] for group in groups}
        handed = tuple((first[a], first[b]) for a, b in row.handed)
        together += [group for group in groups if len(group) > 1]
        known = {(edge.source, edge.target) for edge in problem.edges}
        # Without bytes, only the order counts.
        chain = tuple(Edge(source=a, target=b, bytes=0.0) for a, b in itertools.pairwise(line) if (a, b) not in known)
        notes = row.notes
    else:
        handed, chain, notes = (), (), ()
        if limits.ties(graph.training):
            read = [parameter.users for parameter in graph.parameters if not parameter.buffer]
            shared = (tuple(sorted({layer_of[v] for v in users})) for users in read)
            together += [group for group in dict.fromkeys(shared) if len(group) > 1]
    found = StageLimits(together=tuple(together), handed=handed)
    return problem.replace(
        edges=(*problem.edges, *chain),
        training=msgspec.structs.replace(problem.training, limits=found),
        notes=(*problem.notes, *notes),
    )
