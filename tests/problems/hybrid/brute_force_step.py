"""The shortest step of a small problem by looking at every plan."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import msgspec

from partita.ground.rounding import leq
from partita.nouns.pipeline import Plan, Stage
from partita.problems.hybrid.blocks import LikeBlocks, find_blocks
from partita.problems.hybrid.layer import Edge
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.step.evaluate import evaluate
from partita.problems.hybrid.step.interleaved import part_places
from partita.problems.hybrid.step.mesh import DeviceMesh, StageCost


def shortest_step(problem: HybridProblem) -> float:
    """The least time of a step; infinite if there is no plan."""
    return min((value for mesh in meshes(problem) for value in _steps(problem, mesh)), default=math.inf)


def meshes(problem: HybridProblem) -> Iterator[DeviceMesh]:
    """All meshes that might run."""
    training = problem.training
    assert training is not None
    for degrees in itertools.product(training.context, training.expert, training.expert_tensor):
        spread = problem if degrees == (1, 1, 0) else _spread(problem, *degrees)
        yield from _meshes(spread, *degrees, len(_blocks(problem).starts))


def _blocks(problem: HybridProblem) -> LikeBlocks:
    """Of the model: what its devices share out changes costs only."""
    return find_blocks([problem.layers[place] for place in problem.order()])


def _spread(problem: HybridProblem, c: int, e: int, x: int) -> HybridProblem:
    """The problem with what layers cost at three degrees."""
    assert problem.training is not None
    found = next(one for one in problem.spreads if (one.context, one.expert, one.expert_tensor) == (c, e, x))
    return problem.replace(
        layers=found.layers,
        edges=tuple(Edge(source=edge.source, target=edge.target, bytes=edge.bytes / c) for edge in problem.edges),
        training=msgspec.structs.replace(
            problem.training, reserves=found.reserves, context=(1,), expert=(1,), expert_tensor=(0,)
        ),
        spreads=(),
    )


def _meshes(problem: HybridProblem, c: int, e: int, x: int, blocks: int) -> Iterator[DeviceMesh]:
    training, batch = problem.training, problem.microbatches
    assert training is not None
    for t, d, p in itertools.product(range(1, problem.devices_per_machine + 1), range(1, batch + 1), range(1, 9)):
        # What a machine runs is whole tensor groups, and whole groups of experts.
        used = max(n for n in range(problem.devices_per_machine + 1) if n % t == 0 and n % (x or 1) == 0)
        if batch % d or d * c * t * p > problem.machines * used or p > len(problem.layers):
            continue
        if d * c % e if x == 0 else d * c * t % (e * x) or x > problem.devices_per_machine:
            continue
        if any(not layer.configurations.get(t) for layer in problem.layers):
            continue
        menu = itertools.product(training.zero, training.zero_shards, training.schedules)
        # Nothing is shared out by nobody, and by one group alone.
        shares = {(zero, shards if zero and d * c > 1 else 0, schedule) for zero, shards, schedule in menu}
        held = d * c * t // (e * (x or t)) if e > 1 or x else 0
        for zero, shards, schedule in sorted(shares):
            if shards and (d * c % shards or held % (d * c // shards)):
                continue
            for chunks in range(2, blocks // p + 1) if schedule == "interleaved" else (1,):
                mesh = DeviceMesh(problem, p, d, t, schedule, chunks, zero, c, e, x, shards)
                if _runs(mesh, blocks):
                    yield mesh


def _runs(mesh: DeviceMesh, blocks: int) -> bool:
    """Whether the schedule runs such a row."""
    p, m = mesh.stages, mesh.microbatches
    if mesh.schedule == "interleaved":
        return p > 1 and blocks % (p * mesh.chunks) == 0 and m % p == 0
    return mesh.schedule != "zero-bubble" or (m >= p and (p == 1 or mesh.zero < 2))


def rows_of(mesh: DeviceMesh, whole: HybridProblem) -> Iterator[list[list[int]]]:
    """Layers of every stage's parts, flat: part k of rank i is at k·p + i; those that keep the limits of stages."""
    for rows in _all_rows(mesh, _blocks(whole)):
        of = {v: number for number, row in enumerate(rows) for v in row}
        limits = mesh.problem.training.limits
        whole = all(len({of[v] for v in group}) == 1 for group in limits.together)
        if whole and all(of[target] - of[source] < 2 for source, target in limits.handed):
            yield rows


def _all_rows(mesh: DeviceMesh, blocks: LikeBlocks) -> Iterator[list[list[int]]]:
    problem = mesh.problem
    if mesh.chunks > 1:
        order = [problem.layers[place] for place in problem.order()]
        rows = part_places(order, blocks, mesh.stages * mesh.chunks)
        yield [[order[place].id for place in row] for row in rows]
        return
    ids = [layer.id for layer in problem.layers]
    for stages in itertools.product(range(mesh.stages), repeat=len(ids)):
        of = dict(zip(ids, stages, strict=True))
        if len(set(stages)) == mesh.stages and all(of[e.source] <= of[e.target] for e in problem.edges):
            yield [[v for v in ids if of[v] == stage] for stage in range(mesh.stages)]


def _steps(whole: HybridProblem, mesh: DeviceMesh) -> Iterator[float]:
    problem, p = mesh.problem, mesh.stages
    tables = {layer.id: layer.configurations[mesh.tensor] for layer in problem.layers}
    limit = math.inf if problem.memory_bytes is None else problem.memory_bytes
    known: dict[tuple[int, tuple[tuple[int, ...], ...]], list[tuple[StageCost, dict[int, str]]]] = {}
    for rows in rows_of(mesh, whole):
        choices = []
        for rank in range(p):
            parts = tuple(tuple(part) for part in rows[rank::p])
            if (rank, parts) not in known:
                known[rank, parts] = list(_costs(mesh, rank, parts, tables, limit))
            choices.append(known[rank, parts])
        for combination in itertools.product(*choices):
            costs = [cost for cost, _ in combination]
            step = sum(c.passing for c in costs) + max(c.holding for c in costs) + max(c.ahead for c in costs)
            step += max(c.sync + c.update for c in costs)
            if mesh.chunks > 1 and not _allowed(whole, mesh, rows, combination):
                continue
            yield step


def _costs(mesh, rank, parts, tables, limit):  # type: ignore[no-untyped-def]
    """Costs of a stage under all configurations that fit; of those alike in time only one is needed."""
    flat = [v for part in parts for v in part]
    for chosen in itertools.product(*(tables[v] for v in flat)):
        of = dict(zip(flat, chosen, strict=True))
        cost = mesh.cost(rank, [[(v, of[v]) for v in part] for part in parts])
        if leq(cost.memory_bytes, limit):
            yield cost, {v: choice.id for v, choice in of.items()}


def _allowed(problem: HybridProblem, mesh: DeviceMesh, rows: list[list[int]], combination) -> bool:  # type: ignore[no-untyped-def]
    """Whether the evaluator has nothing against an interleaved plan."""
    p = mesh.stages
    stages = []
    for rank, (_, names) in enumerate(combination):
        parts = tuple(tuple(part) for part in rows[rank::p])
        stages.append(
            Stage(
                operators=tuple(v for part in parts for v in part),
                data_parallel=mesh.data,
                tensor_parallel=mesh.tensor,
                configurations=names,
                chunks=parts,
                context_parallel=mesh.context,
                expert_parallel=mesh.expert,
                expert_tensor_parallel=mesh.expert_tensor,
            )
        )
    plan = Plan(stages=tuple(stages), schedule=mesh.schedule, zero=mesh.zero, zero_shards=mesh.zero_shards)
    return evaluate(problem, plan).feasible
