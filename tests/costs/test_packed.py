"""Frozen weights in four bits: their bytes, the work of unpacking, and the memory of the copies."""

from __future__ import annotations

import math

import msgspec
import pytest

import partita as pt
from partita.costs.optimizer import optimizer_bytes
from partita.costs.packed import with_packed_weights
from partita.costs.profile import Measured
from partita.costs.roofline import Roofline
from partita.costs.signatures import signatures
from partita.costs.strategies.layers import find_splits
from partita.costs.strategies.modes import assign_modes
from partita.costs.strategies.shares import part_of
from partita.costs.strategies.view import GraphView
from partita.frontends.models import load_model
from partita.ground.errors import InputError
from partita.nouns.graph import Graph, Parameter

FIELDS = {
    "num_hidden_layers": "2",
    "hidden_size": "256",
    "intermediate_size": "512",
    "num_attention_heads": "4",
    "num_key_value_heads": "4",
    "vocab_size": "512",
}


@pytest.fixture(scope="module")
def graph() -> Graph:
    return load_model("hf:llama", set_fields=FIELDS, sequence_length=64, training=True, lora=8)


def test_bytes_and_work(graph: Graph) -> None:
    packed = with_packed_weights(graph, "nf4")
    changed = {
        before.name: (before, after)
        for before, after in zip(graph.parameters, packed.parameters, strict=True)
        if before != after
    }
    # Seven linear layers of each block; not the table of words, the head, norms and adapters.
    assert len(changed) == 14
    assert all(name.startswith("model.layers.") and "lora" not in name for name in changed)
    for before, after in changed.values():
        # 4 bits, 8 of the scale of 64 weights, 32 of the scale of 256 scales.
        assert after.bytes == math.ceil(math.prod(before.shape) * (4 + 8 / 64 + 32 / (64 * 256)) / 8)
    traffic = dict.fromkeys(range(len(graph.operators)), 0)
    for before, after in changed.values():
        for v in before.users:
            traffic[v] += before.bytes + after.bytes
    device = pt.Cluster.from_spec("1xRTX4090").groups()[0].spec
    bandwidth = device.memory_bandwidth_bytes_per_s * device.memory_efficiency
    plain, other = (Roofline().operator_times(each, device) for each in (graph, packed))
    for v, (was, now) in enumerate(zip(plain, other, strict=True)):
        assert was is not None
        assert now is not None
        extra = max(traffic[v] / bandwidth, device.launch_overhead_s) if traffic[v] else 0.0
        assert now == pytest.approx(was + extra)
        unpacked = sum(before.bytes for before, _ in changed.values() if v in before.users)
        assert packed.operators[v].workspace_bytes == graph.operators[v].workspace_bytes + unpacked
    # Measurements of the products count, and know nothing of packed weights.
    assert signatures(packed) == signatures(graph)


def test_nothing_to_pack(graph: Graph) -> None:
    assert with_packed_weights(graph, None) is graph
    trained = tuple(msgspec.structs.replace(parameter, trainable=True) for parameter in graph.parameters)
    with pytest.raises(InputError, match="no frozen linear layer"):
        with_packed_weights(graph.replace(parameters=trained), "nf4")


def test_groups_unpack_their_share(graph: Graph) -> None:
    packed = with_packed_weights(graph, "nf4")
    view = GraphView(packed)
    modes = assign_modes(find_splits(view), 4, True)
    products = [v for v in view.forward if packed.operators[v].unpacking_bytes]
    assert len(products) == 14
    for v in products:
        (weight,) = view.parameters[v]
        assert modes.parameter_share(v, weight) == 0.25
    op = packed.operators[products[0]]
    assert part_of(op, 0.5, [], [], op.product, 1.0).unpacking_bytes == op.unpacking_bytes
    assert part_of(op, 0.5, [], [], op.product, 0.25).unpacking_bytes == op.unpacking_bytes // 4


@pytest.mark.parametrize("objective", ["throughput", "hybrid"])
def test_what_devices_hold(graph: Graph, objective: str) -> None:
    """Packed weights save what they are smaller by, whatever is planned; gradients and states are of adapters alone."""
    found = {}
    for weights in (None, "nf4"):
        if objective == "hybrid":
            problem = pt.price(graph, "1xRTX4090", objective="hybrid", microbatches=(2,), weights=weights)
            states = [layer.states[1] for layer in problem.layers]
            found[weights] = tuple(
                sum(getattr(state, name) for state in states)
                for name in ("parameter_bytes", "gradient_bytes", "optimizer_bytes")
            )
        else:
            problem = pt.price(graph, "1xRTX4090", objective="throughput", microbatches=2, weights=weights)
            held = problem.parameters
            found[weights] = tuple(
                sum(getattr(parameter, name) for parameter in held)
                for name in ("weight_bytes", "gradient_bytes", "optimizer_bytes")
            )
    packed = with_packed_weights(graph, "nf4")
    saved = sum(p.bytes for p in graph.parameters) - sum(p.bytes for p in packed.parameters)
    trained = sum(math.prod(p.shape) for p in graph.parameters if p.trainable)
    assert found[None][0] - found["nf4"][0] == saved > 0
    assert found[None][1:] == found["nf4"][1:]
    assert found["nf4"][2] == 12 * trained
    # Steps add gradients up in float32.
    assert found["nf4"][1] == (4 if objective == "hybrid" else 2) * trained


def test_eight_bit_states() -> None:
    large = Parameter(name="w", shape=(64, 64), dtype="bfloat16", bytes=8192)
    small = Parameter(name="b", shape=(64,), dtype="bfloat16", bytes=128)
    assert optimizer_bytes(large, "adamw-8bit") == 2 * 4096 + 2 * 16 * 4
    assert optimizer_bytes(small, "adamw-8bit") == 2 * 64 * 4
    assert optimizer_bytes(large, "adam-8bit", master_weights=True) == 2 * 4096 + 2 * 16 * 4 + 4 * 4096


def test_measured_products_are_unpacked_beside(graph: Graph) -> None:
    """A profile of the model in its own format holds for it with packed weights, but for the unpacking."""

    class Found(Measured):
        def found(self, graph: Graph) -> list[float | None]:
            return [None if op.free else 1.0 for op in graph.operators]

    device = pt.Cluster.from_spec("1xRTX4090").groups()[0].spec
    of_device = type("P", (msgspec.Struct,), {"__annotations__": {"device": str}})
    profile = msgspec.convert({"device": device.name}, of_device)
    packed = with_packed_weights(graph, "nf4")
    times = Found(profile).operator_times(packed, device)  # type: ignore[arg-type]
    for op, time in zip(packed.operators, times, strict=True):
        assert op.free or (time is not None and (time > 1.0) == (op.unpacking_bytes > 0))
