"""Pricing stays linear: a slip into a quadratic algorithm takes minutes here."""

from __future__ import annotations

import time

from partita.nouns.cluster import Cluster
from partita.nouns.graph import Graph, Operator, Parameter, Tensor
from partita.problems.throughput.options import ThroughputPricing
from partita.problems.throughput.pricing import price
from running.soon import SOON_S


def test_fifty_thousand_operators() -> None:
    half = 25_000
    last = 2 * half - 1
    forward = [Operator(name=f"f{i}", target="t", flops=10**9, bytes_read=10**6) for i in range(half)]
    backward = [
        Operator(name=f"b{i}", target="t", flops=10**9, phase="backward", colocation=i) for i in reversed(range(half))
    ]
    tensors = [Tensor(name=f"t{i}", producer=i, consumers=(i + 1, last - i - 1), bytes=10**6) for i in range(half - 1)]
    tensors += [Tensor(name=f"g{i}", producer=last - i, consumers=(last - i + 1,), bytes=10**6) for i in range(1, half)]
    parameters = [Parameter(name=f"w{i}", shape=(1000,), bytes=4000, users=(i, last - i)) for i in range(half)]
    graph = Graph(
        name="long",
        operators=(*forward, *backward),
        tensors=tuple(tensors),
        parameters=tuple(parameters),
        training=True,
    )
    cluster = Cluster.from_spec("2x(4xA100-80GB)+8xT4")
    started = time.perf_counter()
    price(graph, cluster, ThroughputPricing(microbatches=4))
    # About 0.6 s on a laptop core.
    assert time.perf_counter() - started < SOON_S
