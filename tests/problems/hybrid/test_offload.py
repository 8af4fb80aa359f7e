"""Activations that are kept on the host: what a layer then takes and holds, and when a plan chooses it."""

from __future__ import annotations

import pytest

import partita as pt
from partita.conductor.judge import evaluate
from partita.costs.strategies.strategy import LayerStrategy
from partita.problems.hybrid.layer import Configuration, Layer
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.step.pricing import kept_on_host
from partita.problems.hybrid.training import Training


def entry(activation_bytes: float) -> LayerStrategy:
    """A layer whose forward part takes 2 s and whose backward part takes 4 s."""
    return LayerStrategy(
        layer="block",
        degree=1,
        option="none",
        forward_s=2.0,
        backward_s=4.0,
        recompute_s=0.0,
        flops=0.0,
        communication_s=0.0,
        collectives=(),
        parameters=0,
        weight_bytes=0.0,
        gradient_bytes=0.0,
        optimizer_bytes=0.0,
        activation_bytes=activation_bytes,
        workspace_bytes=0.0,
    )


def plain(activation_bytes: float) -> Configuration:
    return Configuration(
        id="none", time=6.0, forward_time=2.0, memory_per_microbatch_bytes=activation_bytes, memory_bytes=1.0
    )


@pytest.mark.parametrize(("rate", "time", "forward"), [(10.0, 6.0, 2.0), (4.0, 7.0, 3.0), (2.0, 12.0, 6.0)])
def test_each_part_takes_as_long_as_its_transfer(rate: float, time: float, forward: float) -> None:
    found = kept_on_host(entry(12.0), plain(12.0), rate)
    assert (found.id, found.time, found.forward_time) == ("offload", time, forward)
    assert (found.memory_per_microbatch_bytes, found.memory_bytes) == (0.0, 13.0)


def test_plans_offload_where_memory_asks_for_it() -> None:
    ways = (plain(12.0), kept_on_host(entry(12.0), plain(12.0), 4.0))
    problem = HybridProblem(
        name="two stages",
        devices=2,
        memory_bytes=30.0,
        bandwidth_bytes_per_unit=1.0,
        microbatches=7,
        layers=(Layer(id=0, configurations={1: ways}), Layer(id=1, configurations={1: ways})),
        training=Training(),
    )
    roomy = pt.solve(problem)
    assert {name for stage in roomy.plan.stages for name in stage.configurations.values()} == {"none"}
    assert roomy.objective == pytest.approx(6.0 * 2 + 6 * 6.0)
    tight = pt.solve(problem.replace(memory_bytes=20.0))
    # The first stage has two microbatches in flight.
    assert [set(stage.configurations.values()) for stage in tight.plan.stages] == [{"offload"}, {"none"}]
    assert tight.objective == pytest.approx(7.0 + 6.0 + 6 * 7.0)
    assert [stage.memory_bytes for stage in evaluate(problem, tight.plan).stages] == [13.0, 13.0]
    assert str(tight.status) == "optimal"
