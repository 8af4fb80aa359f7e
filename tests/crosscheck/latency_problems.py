"""Latency instances for the cross-check: memory at the very limit, ties, blocks, training."""

from __future__ import annotations

import random
from collections.abc import Callable

import msgspec

from crosscheck.shapes import Draw, Graph, binding, draw_graph, exact, pool, size
from partita.problems.latency.problem import LatencyOperator, LatencyProblem

__all__ = ["FAMILIES", "problems"]


def _problem(
    rng: random.Random, graph: Graph, times: Draw, moves: Draw, memory: Draw | None, *, pieces: int = 1
) -> LatencyProblem:
    ids = graph.shuffled(rng)
    slow = rng.choice((1.0, 3.0, 10.0))
    own, host, move = graph.costs(times), graph.costs(times), graph.costs(moves)
    held = graph.costs(memory) if memory else [0.0] * graph.count
    accelerators = rng.choice((0, 1, 2, 2, 3))
    ties = rng.random() < 0.3
    operators = [
        LatencyOperator(
            id=ids[v],
            cpu_time=slow * host[v],
            accelerator_time=None if rng.random() < 0.04 else own[v],
            transfer_time=move[v],
            memory_bytes=held[v],
            colocation=rng.choice((None, None, None, 0, 1)) if ties else None,
        )
        for v in range(graph.count)
    ]
    limit = binding(rng, held, rng.choice((accelerators, accelerators + 1, 5))) if memory else None
    rng.shuffle(operators)
    return LatencyProblem(
        name="drawn",
        unit="ms",
        accelerators=accelerators,
        memory_bytes=limit,
        pieces=pieces,
        operators=tuple(operators),
        edges=tuple((ids[u], ids[v]) for u, v in graph.edges),
    )


def tiny(rng: random.Random) -> LatencyProblem:
    """Small enough for everything to be tried."""
    graph = draw_graph(rng, rng.randint(1, 4))
    return _problem(rng, graph, exact(rng), exact(rng), exact(rng), pieces=rng.choice((1, 1, 2)))


def plain(rng: random.Random) -> LatencyProblem:
    """Any costs on any graph."""
    return _problem(rng, draw_graph(rng, size(rng, most=24)), pool(rng), pool(rng), None)


def limited(rng: random.Random) -> LatencyProblem:
    """Memory that binds exactly, in sums that round."""
    memory = pool(rng, "tenths", "few tenths", "thirds", "wide", "one large", "whole")
    graph = draw_graph(rng, size(rng, most=24))
    return _problem(rng, graph, pool(rng), pool(rng), memory, pieces=rng.choice((1, 1, 2)))


def at_the_limit(rng: random.Random) -> LatencyProblem:
    """A few operators of which two or three fill an accelerator, and one that fits nowhere."""
    graph = draw_graph(rng, rng.randint(4, 10), "skips", "columns", "separators", "repeated blocks")
    problem = _problem(rng, graph, pool(rng, "thirds", "tenths"), pool(rng, "tenths", "ties"), pool(rng, "few tenths"))
    operators = list(problem.operators)
    place = rng.randrange(len(operators))
    if rng.random() < 0.6:
        operators[place] = msgspec.structs.replace(operators[place], accelerator_time=None, memory_bytes=1e9)
    limit = rng.choice((0.1 + 0.2, 0.3, 0.4, 0.1 + 0.1 + 0.1, 0.6))
    return problem.replace(operators=tuple(operators), memory_bytes=limit, accelerators=rng.randint(1, 3))


def blocks(rng: random.Random) -> LatencyProblem:
    """Separators, and blocks between them that may be the same."""
    graph = draw_graph(rng, size(rng, most=30), "separators", "repeated blocks", "tied blocks")
    memory = pool(rng, "few tenths", "ties", "whole") if rng.random() < 0.6 else None
    return _problem(rng, graph, pool(rng), pool(rng), memory)


def training(rng: random.Random) -> LatencyProblem:
    """The way back, each operator with its forward one."""
    graph = draw_graph(rng, size(rng, most=10))
    forward = _problem(rng, graph, pool(rng), pool(rng), pool(rng, "tenths", "whole"))
    most = 1 + max(op.id for op in forward.operators)
    times = pool(rng)
    tied = tuple(msgspec.structs.replace(op, colocation=op.id) for op in forward.operators)
    back = tuple(
        msgspec.structs.replace(op, id=op.id + most, backward=True, cpu_time=5 * times(), memory_bytes=0.0)
        for op in tied
    )
    edges = [*forward.edges, *((v + most, u + most) for u, v in forward.edges)]
    inner = {u for u, _ in forward.edges}
    edges += [(op.id, op.id + most) for op in tied if op.id not in inner or rng.random() < 0.5]
    return forward.replace(operators=(*tied, *back), edges=tuple(edges))


FAMILIES: dict[str, Callable[[random.Random], LatencyProblem]] = {
    "tiny": tiny,
    "plain": plain,
    "limited": limited,
    "at the limit": at_the_limit,
    "blocks": blocks,
    "training": training,
}


def problems(rng: random.Random) -> LatencyProblem:
    """One of any family."""
    return FAMILIES[rng.choice(list(FAMILIES))](rng)
