"""Models and answers of every problem for the tests of the library."""

from __future__ import annotations

import functools

import partita as pt
from partita.api.answer import AnyAnswer
from partita.nouns.graph import Graph, Operator, Parameter, Tensor


def row(count: int = 6, *, layers: int = 3, name: str = "row") -> Graph:
    """A chain of operators in so many modules, each with a weight."""
    return Graph(
        name=name,
        operators=tuple(
            Operator(
                name=f"mm_{v}",
                target="aten.mm.default",
                module=f"layers.{v * layers // count}",
                flops=(1 + v % 3) * 10**10,
                bytes_read=4 * 10**6,
                bytes_written=4 * 10**6,
            )
            for v in range(count)
        ),
        tensors=tuple(
            Tensor(name=f"t{v}", producer=v, consumers=(v + 1,), shape=(1000, 1000), bytes=4 * 10**6)
            for v in range(count - 1)
        ),
        parameters=tuple(
            Parameter(name=f"layers.{v * layers // count}.w{v}", shape=(1000, 1000), bytes=4 * 10**6, users=(v,))
            for v in range(count)
        ),
    )


@functools.cache
def placed() -> AnyAnswer:
    """Of a model in stages, on two machines."""
    return pt.plan(row(), "2xA100-40GB+2xT4", time_limit_s=10, microbatches=4)


@functools.cache
def scheduled() -> AnyAnswer:
    """Of one sample of a model."""
    return pt.plan(row(), "4xA100-40GB", objective="latency", time_limit_s=10)


@functools.cache
def mapped() -> AnyAnswer:
    """Of the stages of a plan on a topology."""
    return pt.map_stages(placed(), "2xA100-40GB+2xT4", time_limit_s=10)


@functools.cache
def through_host() -> AnyAnswer:
    """Of one sample through host memory."""
    operators = tuple(
        pt.LatencyOperator(
            id=v, name=f"op {v}", cpu_time=4.0, accelerator_time=1.0 + v % 2, transfer_time=0.5, memory_bytes=1.0
        )
        for v in range(6)
    )
    edges = tuple((v, v + 1) for v in range(5))
    problem = pt.LatencyProblem(name="host", accelerators=2, memory_bytes=8.0, operators=operators, edges=edges)
    return pt.solve(problem, time_limit_s=10)
