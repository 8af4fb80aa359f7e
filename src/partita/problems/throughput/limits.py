"""What a runtime can run, as constraints of a throughput problem."""

from __future__ import annotations

from collections import Counter

import msgspec

from partita.costs.rows import row_of
from partita.ground.errors import InputError
from partita.nouns.catalogue.meshes import Mesh
from partita.nouns.catalogue.runtimes import Runtime
from partita.nouns.graph import Graph
from partita.nouns.pipeline import Contiguity
from partita.problems.facets.limits import check_training, devices_for
from partita.problems.facets.model import Pricing
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.row import Row


def on_row(problem: ThroughputProblem, graph: Graph, runtime: Runtime) -> ThroughputProblem:
    """The problem of a graph with the row that a runtime's stages are runs of.

    Raises
    ------
    UnsupportedError
        If the model is no row of blocks.
    """
    found = row_of(graph, runtime)
    units: list[list[int]] = [[] for _ in found.names]
    for op, unit in zip(problem.operators, found.unit, strict=True):
        units[unit].append(op.id)
    row = Row(units=tuple(map(tuple, units)), handed=found.handed, hosts_first=runtime.limits.host == "first")
    return problem.replace(row=row, notes=(*problem.notes, *found.notes))


def on_devices(problem: ThroughputProblem, runtime: Runtime) -> ThroughputProblem:
    """The problem with those of its devices that a runtime uses.

    Raises
    ------
    InputError
        If it uses fewer accelerators than there are, and these are not alike.
    """
    names = [kind for _, kind in problem.device_names()]
    kept = devices_for(
        runtime, [problem.kinds[kind].name for kind in names], [problem.kinds[kind].accelerator for kind in names]
    )
    counts = Counter(names[place] for place in kept)
    kinds = tuple(msgspec.structs.replace(kind, count=counts[place]) for place, kind in enumerate(problem.kinds))
    return problem if kinds == problem.kinds else problem.replace(kinds=kinds)


def check_limited(problem: ThroughputProblem, graph: Graph, settings: Pricing, runtime: Runtime) -> None:
    """Refuse a problem, of a graph and settings, that asks for what a runtime does not do.

    Raises
    ------
    InputError
        If there are.
    """
    if problem.max_replicas > 1 and not runtime.limits.data:
        raise InputError(f"{runtime.name} has no data-parallel replicas; leave --max-replicas out")
    if problem.max_replicas > 1 and problem.row is None:
        raise InputError(
            f"{runtime.name} has one mesh for all stages, and stages that are no row are not planned with "
            "equal replicas; leave --max-replicas out"
        )
    if problem.row is not None and problem.groups:
        raise InputError(
            f"rows of layers for {runtime.name} are not planned with --hierarchy and --groups yet; leave them out"
        )
    if problem.streaming and not runtime.limits.offload:
        raise InputError(f"{runtime.name} keeps a stage's weights on its device; leave --streaming out")
    if problem.training:
        _check_training(problem, graph, settings, runtime)


def _check_training(problem: ThroughputProblem, graph: Graph, settings: Pricing, runtime: Runtime) -> None:
    limits, schedule = runtime.limits, problem.schedule
    meshes = check_training(runtime, graph, settings, sequence_parallel=True)
    if limits.schedules and schedule.name not in limits.schedules:
        raise InputError(f"{runtime.name} has no schedule {schedule.name}; take {' or '.join(limits.schedules)}")
    if schedule.recompute and limits.recompute:
        raise InputError(
            f"{runtime.name} recomputes layers, not whole stages; leave --recompute out, or plan for a step"
        )
    most = sum(kind.count for kind in problem.kinds if kind.accelerator)
    alike = Mesh(
        stages=most,
        data=1,
        tensor=1,
        context=1,
        expert=1,
        zero=0,
        schedule=schedule.name,
        microbatches=schedule.microbatches,
    )
    meshes_asked = [alike]
    if problem.max_replicas > 1:
        # With one stage and with several.
        meshes_asked += [msgspec.structs.replace(alike, stages=stages, data=2, microbatches=most) for stages in (1, 2)]
    wrong = next((found for mesh in meshes_asked for found in meshes.refusals(mesh, runtime.name)), None)
    if wrong is not None:
        raise InputError(f"{wrong} (or leave --runtime out, or plan for a step with --objective hybrid)")


def contiguity_for(runtime: Runtime, asked: Contiguity) -> Contiguity:
    """The splits that are searched: any where the runtime runs any.

    Raises
    ------
    InputError
        If free splits are asked for, and the runtime runs contiguous ones only.
    """
    if not runtime.limits.contiguous:
        return "free"
    if asked == "free":
        raise InputError(f"{runtime.name} passes tensors forward only; leave --contiguity free out")
    return asked
