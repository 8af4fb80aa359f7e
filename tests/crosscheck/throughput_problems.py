"""Throughput instances for the cross-check: every feature on graphs of every shape."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import msgspec

from crosscheck.shapes import Draw, Graph, binding, draw_graph, exact, pool, size
from partita.problems.throughput.problem import (
    DeviceKind,
    LinkedGroup,
    MicrobatchSchedule,
    MovedTensor,
    SavedTensor,
    StoredParameter,
    ThroughputProblem,
    TimedOperator,
    UnitChain,
)

__all__ = ["FAMILIES", "problems"]

#: Most classes of tiny instances, on which everything is tried.
TINY = 6


def _problem(
    rng: random.Random,
    graph: Graph,
    *,
    times: Draw,
    sizes: Draw,
    memory: Draw | None = None,
    devices: int | None = None,
    kinds: int = 1,
    colocation: bool = False,
    **fields: Any,
) -> ThroughputProblem:
    """A problem on a graph; with memory, some plan fills the largest device to the last byte."""
    ids = graph.shuffled(rng)
    count = rng.randint(1, 4) if devices is None else devices
    cost = [graph.costs(times) for _ in range(kinds)]
    held = graph.costs(memory) if memory else [0.0] * graph.count
    missing = 0.08 if kinds > 1 else 0.0
    operators = tuple(
        TimedOperator(
            id=ids[v],
            times=tuple(None if rng.random() < missing else cost[k][v] for k in range(kinds)),
            memory_bytes=held[v],
            colocation=rng.choice((None, None, None, 0, 1)) if colocation else None,
        )
        for v in range(graph.count)
    )
    weights = graph.costs(sizes)
    tensors = tuple(
        MovedTensor(producer=ids[v], consumers=tuple(ids[w] for w in readers), size=weights[v])
        for v, readers in enumerate(graph.readers())
        if readers
    )
    limit = binding(rng, held, kinds * count) if memory else None
    devices_of = tuple(
        DeviceKind(
            name=f"k{k}",
            count=count,
            memory_bytes=limit,
            transfer_latency=rng.choice((0.0, 0.0, 0.5)),
            transfer_time_per_unit=rng.choice((1.0, 1.0, 0.25)),
        )
        for k in range(kinds)
    )
    stated = {"kinds": devices_of, "operators": operators, "tensors": tensors, **fields}
    return ThroughputProblem(name="drawn", unit="ms", **stated)


def tiny(rng: random.Random) -> ThroughputProblem:
    """Small enough for everything to be tried."""
    graph = draw_graph(rng, rng.randint(1, TINY - 1))
    limited = exact(rng) if rng.random() < 0.5 else None
    kinds = rng.randint(1, 2)
    return _problem(
        rng,
        graph,
        times=exact(rng),
        sizes=exact(rng),
        memory=limited,
        kinds=kinds,
        devices=rng.randint(1, 3) if kinds == 1 else rng.randint(1, 2),
        colocation=rng.random() < 0.3,
    )


def plain(rng: random.Random) -> ThroughputProblem:
    """One kind of devices and costs of any pool."""
    return _problem(rng, draw_graph(rng, size(rng)), times=pool(rng), sizes=pool(rng))


def steep(rng: random.Random) -> ThroughputProblem:
    """A few operators, some a million times as long as others: what a backend's tolerance swallows."""
    graph = draw_graph(rng, rng.randint(2, 9), "dense", "apart", "columns", "skips", "tree")
    sizes = pool(rng, "zeros", "steep", "few tenths", "extreme")
    return _problem(rng, graph, times=pool(rng, "steep", "wide", "extreme", "one large"), sizes=sizes)


def limited(rng: random.Random) -> ThroughputProblem:
    """Memory that binds exactly, in sums that round."""
    memory = pool(rng, "tenths", "few tenths", "thirds", "wide", "whole", "one large")
    return _problem(rng, draw_graph(rng, size(rng)), times=pool(rng), sizes=pool(rng), memory=memory)


def shared(rng: random.Random) -> ThroughputProblem:
    """Parameters that several operators read, and workspace."""
    problem, draw = limited(rng), pool(rng, "tenths", "whole", "thirds")
    ids = [op.id for op in problem.operators]
    users = [tuple(rng.sample(ids, min(len(ids), rng.randint(1, 3)))) for _ in range(rng.randint(1, 3))]
    return problem.replace(
        operators=tuple(msgspec.structs.replace(op, workspace_bytes=draw()) for op in problem.operators),
        parameters=tuple(StoredParameter(name=f"w{k}", users=u, weight_bytes=draw()) for k, u in enumerate(users)),
        memory_bytes=problem.kinds[0].memory_bytes + rng.choice((0.0, draw(), 3 * draw())),
    )


def mixed(rng: random.Random) -> ThroughputProblem:
    """Kinds that differ, operators that cannot run everywhere, ties between operators."""
    memory = pool(rng, "tenths", "whole", "halves") if rng.random() < 0.4 else None
    graph = draw_graph(rng, size(rng, most=24))
    return _problem(
        rng,
        graph,
        times=pool(rng),
        sizes=pool(rng),
        memory=memory,
        devices=rng.randint(1, 2),
        kinds=rng.randint(2, 3),
        colocation=rng.random() < 0.5,
    )


def hosts(rng: random.Random) -> ThroughputProblem:
    """Accelerators with a memory limit, and CPUs that hold all and pay nothing for transfers."""
    problem = mixed(rng)
    host = DeviceKind(name="host", count=1, accelerator=False, transfer_time_per_unit=0.0)
    slow = pool(rng, "whole", "tenths")
    operators = tuple(msgspec.structs.replace(op, times=(*op.times, 10 * slow())) for op in problem.operators)
    return problem.replace(kinds=(*problem.kinds, host), operators=operators)


def training(rng: random.Random) -> ThroughputProblem:
    """A backward operator beside every forward one, and what is kept between them."""
    graph = draw_graph(rng, size(rng, most=14))
    n, times, sizes, memory = graph.count, pool(rng), pool(rng), pool(rng, "tenths", "whole", "halves")
    forward, backward, weight = graph.costs(times), graph.costs(times), graph.costs(sizes)
    held = graph.costs(memory)
    operators = [TimedOperator(id=v, times=(forward[v],), memory_bytes=held[v], colocation=v) for v in range(n)]
    operators += [TimedOperator(id=n + v, times=(backward[v],), colocation=v, backward=True) for v in range(n)]
    tensors = [
        MovedTensor(producer=v, consumers=(*readers, n + v), size=weight[v])
        for v, readers in enumerate(graph.readers())
    ]
    before: list[list[int]] = [[] for _ in range(n)]
    for u, v in graph.edges:
        before[v].append(n + u)
    tensors += [MovedTensor(producer=n + v, consumers=tuple(us), size=weight[v]) for v, us in enumerate(before) if us]
    count = rng.randint(1, 4)
    limit = None if rng.random() < 0.4 else rng.choice((1, 1.5, 3)) * binding(rng, held, count)
    saved = tuple(SavedTensor(name=f"s{v}", users=(n + v,), bytes=memory()) for v in range(n) if rng.random() < 0.5)
    return ThroughputProblem(
        name="drawn",
        unit="ms",
        kinds=(DeviceKind(name="k0", count=count, memory_bytes=limit),),
        operators=tuple(operators),
        tensors=tuple(tensors),
        saved=saved,
        schedule=MicrobatchSchedule(
            name=rng.choice(("1f1b", "1f1b", "gpipe")), microbatches=rng.randint(1, 6), recompute=rng.random() < 0.3
        ),
    )


def variants(rng: random.Random) -> ThroughputProblem:
    """Transfers beside work, replicas, groups of devices, memory over the limit at a price."""
    problem = training(rng) if rng.random() < 0.4 else limited(rng)
    kind = problem.kinds[0]
    changes: dict[str, Any] = {}
    if rng.random() < 0.5:
        changes["communication"] = rng.choice(("overlap", "duplex"))
    if rng.random() < 0.4:
        changes |= {"max_replicas": rng.randint(2, 3), "weight_sync_per_batch": rng.random() < 0.5}
        kind = msgspec.structs.replace(kind, sync_time_per_byte=rng.choice((0.0, 0.1, 1.0)))
    if rng.random() < 0.4:
        changes["streaming"] = True
        if not problem.training and rng.random() < 0.4:
            changes["working_memory"] = "peak"
        kind = msgspec.structs.replace(kind, reload_time_per_byte=rng.choice((0.0, 0.1, 1.0)))
    if rng.random() < 0.4:
        first = rng.randint(0, kind.count)
        changes["groups"] = tuple(
            LinkedGroup(name=name, counts=(held,), transfer_time_per_unit=rng.choice((0.5, 1.0, 3.0)))
            for name, held in (("left", first), ("right", kind.count - first))
        )
    return problem.replace(kinds=(kind,), **changes)


def rows(rng: random.Random) -> ThroughputProblem:
    """Stages are runs of units in a row."""
    graph = draw_graph(rng, size(rng, most=24), "chain", "skips", "separators", "repeated blocks")
    problem = _problem(rng, graph, times=pool(rng), sizes=pool(rng))
    # Operators are listed as the graph's nodes are numbered.
    ids = [op.id for op in problem.operators]
    cuts = sorted(rng.sample(range(1, len(ids)), rng.randint(0, len(ids) - 1))) if len(ids) > 1 else []
    units = tuple(tuple(ids[a:b]) for a, b in zip([0, *cuts], [*cuts, len(ids)], strict=True))
    pairs = [(a, b) for a in range(len(units)) for b in range(a + 1, len(units))]
    handed = tuple(rng.sample(pairs, min(len(pairs), rng.choice((0, 0, 1, 2)))))
    return problem.replace(row=UnitChain(units=units, handed=handed), max_replicas=rng.choice((1, 1, 2)))


def repeated(rng: random.Random) -> ThroughputProblem:
    """The same block several times, with memory that some split fills."""
    graph = draw_graph(rng, size(rng, 6, 36), "repeated blocks", "tied blocks")
    memory = pool(rng, "few tenths", "whole", "ties") if rng.random() < 0.5 else None
    devices = rng.randint(2, 5)
    return _problem(rng, graph, times=pool(rng), sizes=pool(rng), memory=memory, devices=devices)


FAMILIES: dict[str, Callable[[random.Random], ThroughputProblem]] = {
    "tiny": tiny,
    "plain": plain,
    "steep": steep,
    "limited": limited,
    "shared": shared,
    "mixed": mixed,
    "hosts": hosts,
    "training": training,
    "variants": variants,
    "rows": rows,
    "repeated": repeated,
}


def problems(rng: random.Random) -> ThroughputProblem:
    """One of any family."""
    return FAMILIES[rng.choice(list(FAMILIES))](rng)
