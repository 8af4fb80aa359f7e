"""Activations that are kept on the host: what a layer then takes and holds, and when a plan chooses it."""

from __future__ import annotations

from pathlib import Path

import pytest

import partita as pt
from partita.conductor.judge import evaluate
from partita.costs.strategies.strategy import LayerStrategy
from partita.nouns.catalogue.loader import load_catalogue
from partita.nouns.topology.read import read_cluster
from partita.problems.hybrid.layer import Configuration, Layer
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.step.host import HostShare, host_of, kept_on_host, updated_on_host
from partita.problems.hybrid.training import LayerState, Training


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


@pytest.mark.parametrize(
    ("link", "memory", "time"),
    [(4.0, 1e9, 8.0), (1e9, 8.0, (32 + 2 * 64 + 16) / 8), (2.0, 4.0, (32 + 2 * 64 + 16) / 4)],
)
def test_the_slowest_of_gradients_down_work_and_weights_up_counts(link: float, memory: float, time: float) -> None:
    state = LayerState(parameter_bytes=16.0, gradient_bytes=32.0, optimizer_bytes=64.0, update_time=1.0)
    found = updated_on_host(state, 16.0, HostShare(link, memory, activations=False, optimizer=True))
    assert (found.optimizer_bytes, found.update_time) == (0.0, time)
    assert (found.parameter_bytes, found.gradient_bytes) == (16.0, 32.0)


def test_hosts_have_the_cpus_of_the_cluster_or_those_of_the_catalogue() -> None:
    cpu = load_catalogue().device("CPU")
    rate = cpu.memory_bandwidth_bytes_per_s * cpu.memory_efficiency
    for text, share in (("8xA100-80GB", 2 / 8), ("2xT4", 1 / 2), ("1x(8xA100-80GB+1xCPU)", 1 / 8)):
        found = host_of(read_cluster(text), activations=False, optimizer=True)
        assert found is not None
        assert found.memory == pytest.approx(rate * share)
    assert host_of(read_cluster("2xT4"), activations=False, optimizer=False) is None


def test_states_on_the_host_make_room(tmp_path: Path) -> None:
    """The same model on one card: less memory, and a longer step."""
    pytest.importorskip("transformers")

    def planned(**more: object) -> pt.Answer:
        return pt.plan(
            "hf:gpt2", "1xL4", set={"n_layer": 2, "n_embd": 64, "n_head": 2}, sequence_length=16, training=True,
            objective="hybrid", microbatches=4, time_limit_s=5, baselines=False, **more,
        )  # fmt: skip

    device, host = planned(), planned(offload_optimizer=True)
    assert any("optimizer runs on the hosts" in note for note in host.notes)
    (there,), (here,) = (answer.result.evaluation.stages for answer in (host, device))
    assert there.memory_bytes < here.memory_bytes
    assert host.objective > device.objective
    host.export("megatron", str(tmp_path / "megatron.args"))
    assert "--optimizer-cpu-offload\n" in (tmp_path / "megatron.args").read_text()
    with pytest.raises(pt.UnsupportedError, match="keeps optimizer states in the host's memory"):
        host.export("deepspeed", str(tmp_path / "deepspeed"))
    with pytest.raises(pt.InputError, match="offload-optimizer is for steps"):
        planned(minimise="steady", offload_optimizer=True)
