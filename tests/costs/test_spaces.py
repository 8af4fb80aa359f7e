"""Strategy spaces of a transformer built as in Megatron-LM, against the formulas of its papers.

Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models" (2022): with s tokens per sample, b
samples, h features, a heads and t devices a layer keeps s·b·h·(34 + 5·a·s/h) bytes in half precision,
s·b·h·(10 + 24/t + 5·a·s/(h·t)) with tensor parallelism, and a t-th of the first with sequence parallelism as well.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import partita as pt
from models.space_models import megatron, nn, torch
from partita.conductor.judge import evaluate as judge
from partita.costs.roofline import Roofline
from partita.costs.strategies.layers import find_splits
from partita.costs.strategies.modes import assign_modes
from partita.costs.strategies.pricing import LayerPricer, OptimizerSettings
from partita.costs.strategies.strategy import LayerStrategy
from partita.costs.strategies.view import GraphView
from partita.costs.table import CostRow, CostTable
from partita.ground.errors import InputError, UnsupportedError
from partita.nouns.graph import Graph
from partita.nouns.pipeline import Plan, Stage
from partita.problems.hybrid.layer import Configuration
from partita.problems.hybrid.pricing import strategy_spaces
from partita.problems.hybrid.spaces import StrategySpaces, model_flops
from partita.problems.throughput.evaluate import evaluate

S, B, H, A, V = 512, 2, 1024, 16, 5120
SIZE = S * B * H
DEGREES = (1, 2, 4, 8)
CLUSTER = pt.Cluster.from_spec("2x(8xA100-80GB)")
DEVICE = CLUSTER.groups()[0].spec

graph = cache(megatron)


@cache
def spaces(sequence_parallel: bool = True, microbatches: int = 64) -> StrategySpaces:
    return strategy_spaces(graph(), CLUSTER, microbatches=microbatches, sequence_parallel=sequence_parallel)


def trace(module: Any, *args: Any) -> Graph:
    return pt.trace(module, args, training=True)


def kinds(found: StrategySpaces) -> list[list[str]]:
    return [[region.kind for region in space.regions] for space in found.layers]


def test_layers() -> None:
    found = spaces()
    assert [space.name for space in found.layers] == ["input", "layers.0", "layers.1", "layers.2", "output"]
    assert [space.like for space in found.layers] == [0, 1, 1, 1, 4]
    assert kinds(found) == [[], ["attention", "mlp"], ["attention", "mlp"], ["attention", "mlp"], ["vocabulary"]]
    assert [region.units for region in found.layers[1].regions] == [(A,), (4 * H,)]
    assert [(edge.source, edge.target, edge.bytes) for edge in found.problem.edges] == [
        (i, i + 1, 2.0 * SIZE) for i in range(4)
    ]


@pytest.mark.parametrize("t", DEGREES)
def test_parameters(t: int) -> None:
    layers = spaces().layers
    assert layers[0].entry(t).parameters == V // t * H + S * H
    # Columns with their biases and rows are split; norms and biases of rows are not.
    assert layers[1].entry(t).parameters == (12 * H * H + 7 * H) // t + 6 * H
    assert layers[4].entry(t).parameters == V // t * H + 2 * H
    for space in layers:
        entry = space.entry(t)
        assert entry.weight_bytes == entry.gradient_bytes == 2 * entry.parameters
        # Adam's moments and a copy of the weights, all in float32.
        assert entry.optimizer_bytes == 12 * entry.parameters


@pytest.mark.parametrize("t", DEGREES)
def test_activations(t: int) -> None:
    scores = 5 * A * S / H
    sequence, tensor = spaces().layers[1], spaces(False).layers[1]
    for space, option, expected in (
        (sequence, "none", (34 + scores) / t),
        (sequence, "selective", 34 / t),
        (sequence, "full", 2 / t),
        (tensor, "none", 10 + (24 + scores) / t),
        (tensor, "selective", 10 + 24 / t),
        (tensor, "full", 2),
    ):
        # What the formula leaves out: two numbers per token for each norm.
        assert space.entry(t, option).activation_bytes / SIZE == pytest.approx(expected, rel=2e-3)


@pytest.mark.parametrize("t", DEGREES[1:])
def test_exchanges(t: int) -> None:
    tensor, sequence = spaces(False).layers[1].entry(t), spaces().layers[1].entry(t)
    assert Counter((c.kind, c.phase, c.bytes) for c in tensor.collectives) == {
        ("all-reduce", "forward", 2 * SIZE): 2,
        ("all-reduce", "backward", 2 * SIZE): 2,
    }
    assert Counter((c.kind, c.phase, c.bytes) for c in sequence.collectives if c.phase != "batch") == {
        ("all-gather", "forward", 2 * SIZE): 2,
        ("reduce-scatter", "forward", 2 * SIZE): 2,
        ("all-gather", "backward", 2 * SIZE): 2,
        ("reduce-scatter", "backward", 2 * SIZE): 2,
        ("all-gather", "overlapped", 2 * SIZE): 2,
    }
    ring = 4 * 2 * (t - 1) / t * 2 * SIZE
    assert tensor.communication_bytes == sequence.communication_bytes == ring
    # The forward ones once more.
    assert spaces().layers[1].entry(t, "full").communication_bytes == 1.5 * ring
    assert spaces().layers[1].entry(t, "selective").communication_bytes == ring
    # Norms and the biases of rows see some of the tokens on each device: 6·h gradients are added up once per batch.
    assert sum(c.bytes for c in sequence.collectives if c.phase == "batch") == 2 * 6 * H
    assert all(c.phase != "batch" for c in tensor.collectives)


@pytest.mark.parametrize("t", DEGREES[1:])
def test_vocabulary_exchanges(t: int) -> None:
    first, last = spaces().layers[0].entry(t), spaces().layers[4].entry(t)
    assert Counter((c.kind, c.phase, c.bytes) for c in first.collectives if c.phase != "batch") == {
        ("reduce-scatter", "forward", 2 * SIZE): 1,
        ("all-gather", "backward", 2 * SIZE): 1,
    }
    assert Counter((c.kind, c.phase, c.bytes) for c in last.collectives if c.phase not in ("batch", "overlapped")) == {
        ("all-gather", "forward", 2 * SIZE): 1,
        ("reduce-scatter", "backward", 2 * SIZE): 1,
        ("all-reduce", "forward", 4 * S * B): 3,
    }


@pytest.mark.parametrize("t", DEGREES)
def test_flops(t: int) -> None:
    forward = 24 * SIZE * H + 4 * SIZE * S
    entry, selective, full = (spaces().layers[1].entry(t, o) for o in ("none", "selective", "full"))
    assert entry.flops == pytest.approx(3 * forward / t)
    assert full.flops == pytest.approx(4 * forward / t)
    # Korthikanti et al., Appendix A: selective recomputation runs the two attention products again.
    assert selective.flops == pytest.approx((3 * forward + 4 * SIZE * S) / t)


def test_model_flops() -> None:
    assert model_flops(graph()) == 3 * (3 * (24 * SIZE * H + 4 * SIZE * S) + 2 * SIZE * V)


def test_times_add_up() -> None:
    price = pt.price(graph(), CLUSTER, microbatches=64)
    total = sum(op.times[0] or 0.0 for op in price.operators)
    assert sum(space.entry(1).time_s for space in spaces().layers) == pytest.approx(total)
    for space in spaces().layers:
        for t in DEGREES[1:]:
            entry = space.entry(t)
            assert space.entry(1).compute_s / t * 0.99 < entry.compute_s < space.entry(1).compute_s
    entry = spaces().layers[1].entry(8)
    link = CLUSTER.path(0, 1)
    # Gathers and scatters go around a ring of 8, sums up and down a tree of 3 levels, behind the NVSwitch.
    hops = {"all-gather": 7, "reduce-scatter": 7, "all-reduce": 6}
    waits = {kind: link.latency_s + count * link.hop_time_s for kind, count in hops.items()}
    calls = sum(waits[c.kind] for c in entry.collectives if c.phase in FULL)
    once = sum(c.sent_bytes(8) for c in entry.collectives if c.phase == "batch")
    batch = sum(waits[c.kind] for c in entry.collectives if c.phase == "batch")
    expected = (entry.communication_bytes + once / 64) / link.bandwidth_bytes_per_s
    assert entry.communication_s == pytest.approx(expected + calls + batch / 64)


FULL = ("forward", "backward", "recompute")


def test_measured_times_are_split_like_estimated_ones() -> None:
    table = CostTable((CostRow(target="aten.addmm.*", factor=2.0),))
    measured = strategy_spaces(graph(), CLUSTER, microbatches=64, costs=table)
    for t in DEGREES:
        more = measured.layers[1].entry(t).forward_s - spaces().layers[1].entry(t).forward_s
        assert 0 < more < measured.layers[1].entry(t).forward_s / 2
    assert measured.layers[1].entry(8).forward_s < measured.layers[1].entry(1).forward_s / 2


def test_problem() -> None:
    found = spaces()
    problem = found.problem
    assert (problem.devices, problem.microbatches, problem.unit) == (16, 64, "s")
    assert problem.weight_sync_per_batch
    assert problem.hierarchy is not None
    assert problem.hierarchy.devices_per_machine == 8
    # Eight devices, each with a network card of its own.
    assert problem.hierarchy.machine_bandwidth_bytes_per_unit == 8 * CLUSTER.path(0, 8).bandwidth_bytes_per_s
    assert any("8 network cards (ethernet-100g) of 11.25 GB/s each" in note for note in problem.notes)
    assert problem.bandwidth_bytes_per_unit == CLUSTER.path(0, 1).bandwidth_bytes_per_s
    usable = CLUSTER.groups()[0].spec.usable_bytes
    assert problem.memory_bytes == usable - found.reserve_bytes
    for space, layer in zip(found.layers, problem.layers, strict=True):
        # The objective adds up both directions of an exchange, which a link carries at once.
        assert layer.weight_bytes == space.entry(1).gradient_bytes / 2
        for t, choices in layer.configurations.items():
            for choice in choices:
                entry = space.entry(t, choice.id)
                assert choice.time == entry.time_s
                assert choice.weight_bytes == entry.gradient_bytes / 2
                assert choice.memory_per_microbatch_bytes == entry.activation_bytes
                held = entry.weight_bytes + entry.gradient_bytes + entry.optimizer_bytes
                # Whichever layers a stage has, what its devices hold and the largest workspace fit.
                assert choice.memory_bytes + found.reserve_bytes >= held + entry.workspace_bytes
    assert pt.solve(problem).plan is not None


def test_one_machine_has_no_hierarchy() -> None:
    problem = pt.hybrid_problem(graph(), pt.Cluster.from_spec("4xA100-80GB"), microbatches=8)
    assert problem.hierarchy is None
    assert problem.degrees() == [1, 2, 4]
    single = pt.hybrid_problem(graph(), pt.Cluster.from_spec("1xA100-80GB"), microbatches=8)
    assert single.degrees() == [1]


def test_groups_across_machines_use_the_network() -> None:
    cluster = pt.Cluster.from_spec("4x(1xA100-80GB)")
    found = strategy_spaces(graph(), cluster, microbatches=8, degrees=(1, 4))
    inside = strategy_spaces(graph(), pt.Cluster.from_spec("4xA100-80GB"), microbatches=8, degrees=(4,))
    assert found.problem.hierarchy is None
    assert found.layers[1].entry(4).communication_s > 2 * inside.layers[1].entry(4).communication_s


def test_memory_is_that_of_the_throughput_problem() -> None:
    cluster = pt.Cluster.from_spec("1xA100-80GB")
    price = pt.price(graph(), cluster, microbatches=8)
    stage = Stage(devices=("A100-80GB:0",), kind="A100-80GB", operators=tuple(op.id for op in price.operators))
    expected = evaluate(price, Plan(stages=(stage,))).stages[0].memory
    found = strategy_spaces(graph(), cluster, microbatches=8, memory_options=("none",))
    choices = [layer.configurations[1][0] for layer in found.problem.layers]
    held = sum(c.memory_bytes + c.memory_per_microbatch_bytes for c in choices) + found.reserve_bytes
    # The tied table, its gradient and state are held twice, which covers the gradients that pass the layers by.
    assert expected.total <= held
    assert held - 16 * V * H == pytest.approx(expected.total, rel=0.02)


def test_large_clusters_take_no_longer() -> None:
    cluster = pt.Cluster.from_spec("512x(8xA100-80GB)")
    problem = pt.hybrid_problem(graph(), cluster, microbatches=64)
    assert problem.devices == 4096
    assert problem.layers == spaces().problem.layers


def test_any_graph() -> None:
    class Towers(nn.Module):  # type: ignore[misc]
        """Two chains of layers that meet, and a connection that skips one."""

        def __init__(self) -> None:
            super().__init__()
            self.left = nn.ModuleList(nn.Linear(64, 64) for _ in range(4))
            self.right = nn.ModuleList(nn.Linear(64, 64) for _ in range(4))
            self.head = nn.Linear(128, 16)

        def forward(self, x: Any) -> Any:
            y, z, first = x, x, None
            for one, other in zip(self.left, self.right, strict=True):
                y, z = torch.relu(one(y)), torch.relu(other(z))
                first = y if first is None else first
            return self.head(torch.cat((y + first, z), dim=-1))

    found = strategy_spaces(trace(Towers(), torch.zeros(32, 64)), CLUSTER, microbatches=8)
    edges = {(e.source, e.target) for e in found.problem.edges}
    assert all(a < b for a, b in edges)
    assert sum(space.entry(1).parameters for space in found.layers) == 8 * (64 * 64 + 64) + 128 * 16 + 16
    assert pt.solve(found.problem).plan is not None


def test_tokens_are_not_features() -> None:
    class Mixer(nn.Module):  # type: ignore[misc]
        """Products over features and, transposed, over tokens; the last pair mixes both."""

        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.LayerNorm(256)
            self.up, self.down = nn.Linear(128, 512, bias=False), nn.Linear(512, 128, bias=False)
            self.features, self.tokens = nn.Linear(256, 256, bias=False), nn.Linear(128, 128, bias=False)

        def forward(self, x: Any) -> Any:
            x = x + self.down(torch.relu(self.up(self.norm(x).transpose(1, 2)))).transpose(1, 2)
            return x + self.tokens(torch.relu(self.features(self.norm(x))).transpose(1, 2)).transpose(1, 2)

    class Two(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.blocks = nn.ModuleList(Mixer() for _ in range(2))

        def forward(self, x: Any) -> Any:
            for block in self.blocks:
                x = block(x)
            return x

    found_graph = trace(Two(), torch.zeros(4, 128, 256))
    found = strategy_spaces(found_graph, CLUSTER, microbatches=8, sequence_parallel=False)
    for space in found.layers[:2]:
        assert [(region.kind, region.units) for region in space.regions] == [("mlp", (512,))]
    # With tokens shared out, the region's source is gathered, and what the lone product over tokens reads.
    sequence = strategy_spaces(found_graph, CLUSTER, microbatches=8).layers[1].entry(4)
    gathered = Counter(c.tensor for c in sequence.collectives if c.kind == "all-gather" and c.phase == "forward")
    assert len(gathered) == 2


def test_heads_that_a_degree_does_not_divide() -> None:
    found = strategy_spaces(graph(layers=2, heads=4), CLUSTER, microbatches=8)
    four, eight = (found.layers[1].entry(t) for t in (4, 8))
    assert four.parameters == (12 * H * H + 7 * H) // 4 + 6 * H
    # At 8 only the MLP is split: 8·h² + 4·h of its weights.
    assert eight.parameters == 4 * H * H + 4 * H + (8 * H * H + 4 * H) // 8 + 5 * H
    assert any(
        "group of 8 does all of the attention of layers.0 and 1 more layers" in note for note in found.problem.notes
    )


def test_products_pair_up() -> None:
    class Chain(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.parts = nn.ModuleList(nn.Linear(256, 256, bias=False) for _ in range(5))

        def forward(self, x: Any) -> Any:
            for part in self.parts:
                x = torch.relu(part(x))
            return x

    class Whole(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.chain = Chain()

        def forward(self, x: Any) -> Any:
            return self.chain(x)

    found = strategy_spaces(trace(Whole(), torch.zeros(64, 256)), CLUSTER, microbatches=8)
    # Five products in a row, each a layer of its own: nothing to pair inside a layer.
    assert [space.regions for space in found.layers] == [()] * len(found.layers)

    class Flat(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.c, self.d, self.e = (nn.Linear(256, 256, bias=False) for _ in range(5))

        def forward(self, x: Any) -> Any:
            for part in (self.a, self.b, self.c, self.d, self.e):
                x = torch.relu(part(x))
            return x

    class Two(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.blocks = nn.ModuleList(Flat() for _ in range(2))

        def forward(self, x: Any) -> Any:
            for block in self.blocks:
                x = block(x)
            return x

    found = strategy_spaces(trace(Two(), torch.zeros(64, 256)), CLUSTER, microbatches=8, sequence_parallel=False)
    for space in found.layers[:2]:
        assert [region.kind for region in space.regions] == ["mlp", "mlp"]
        # Four of the five weights are split.
        assert space.entry(4).parameters == 256 * 256 * 4 // 4 + 256 * 256


def test_offload() -> None:
    def offload(entry: LayerStrategy) -> Configuration | None:
        if not entry.layer.startswith("layers"):
            return None
        return Configuration(
            id="offload", time=entry.time_s * 1.5, weight_bytes=entry.gradient_bytes, memory_bytes=entry.weight_bytes
        )

    problem = pt.hybrid_problem(graph(), CLUSTER, microbatches=8, offload=offload)
    assert [c.id for c in problem.layers[1].configurations[2]] == ["none", "selective", "full", "offload"]
    assert [c.id for c in problem.layers[0].configurations[2]] == ["none", "full"]
    table = {"layers.1": {2: Configuration(id="mine", time=1.0)}}
    problem = pt.hybrid_problem(graph(), CLUSTER, microbatches=8, offload=table, memory_options=("none",))
    assert [c.id for c in problem.layers[2].configurations[2]] == ["none", "mine"]
    assert [c.id for c in problem.layers[1].configurations[2]] == ["none"]
    for wrong in ({"layer.1": table["layers.1"]}, {"layers.1": {3: Configuration(id="mine", time=1.0)}}):
        with pytest.raises(InputError, match="offload names"):
            pt.hybrid_problem(graph(), CLUSTER, microbatches=8, offload=wrong)


def test_errors() -> None:
    inference = pt.trace(nn.Sequential(nn.Linear(8, 8), nn.ReLU()), (torch.zeros(2, 8),))
    with pytest.raises(InputError, match="no backward part"):
        pt.hybrid_problem(inference, CLUSTER, microbatches=8)
    mixed = pt.Cluster.from_spec("4xA100-80GB+4xT4")
    with pytest.raises(UnsupportedError, match="several kinds of devices"):
        pt.hybrid_problem(graph(), mixed, microbatches=8)
    for option, message in (
        ({"microbatches": 0}, "microbatches is 0"),
        ({"optimizer": "lion"}, "optimizer is 'lion'"),
        ({"optimizer_dtype": "int3"}, "optimizer_dtype is 'int3'"),
        ({"memory_options": ("none", "swap")}, "memory option is 'swap'"),
        ({"degrees": ()}, "degrees is empty"),
        ({"degrees": (1, 16)}, "degree 16 must be between 1 and a machine's 8 devices"),
    ):
        with pytest.raises(InputError, match=message):
            pt.hybrid_problem(graph(), CLUSTER, **{"microbatches": 8, **option})


def test_layers_without_modules() -> None:
    class Flat(nn.Module):  # type: ignore[misc]
        """Three residual pairs of products, all in one module."""

        def __init__(self) -> None:
            super().__init__()
            self.up = nn.ParameterList(nn.Parameter(torch.zeros(64, 256)) for _ in range(3))
            self.down = nn.ParameterList(nn.Parameter(torch.zeros(256, 64)) for _ in range(3))

        def forward(self, x: Any) -> Any:
            for up, down in zip(self.up, self.down, strict=True):
                x = x + torch.relu(x @ up) @ down
            return x

    found = strategy_spaces(trace(Flat(), torch.zeros(32, 64)), CLUSTER, microbatches=8)
    assert kinds(found) == [["mlp"]] * 3
    assert [space.entry(4).parameters for space in found.layers] == [2 * 64 * 256 // 4] * 3
    assert [(e.source, e.target, e.bytes) for e in found.problem.edges] == [(0, 1, 4 * 32 * 64), (1, 2, 4 * 32 * 64)]


def test_options_may_repeat() -> None:
    options = ("full", "none", "full")
    problem = pt.hybrid_problem(graph(), CLUSTER, microbatches=8, memory_options=options)
    assert [c.id for c in problem.layers[1].configurations[1]] == ["none", "full"]


def test_zero1_shares_out_optimizer_states() -> None:
    plain = pt.hybrid_problem(graph(), CLUSTER, microbatches=8)
    shared = pt.hybrid_problem(graph(), CLUSTER, microbatches=8, zero1=True)
    for layer, other, space in zip(plain.layers, shared.layers, spaces().layers, strict=True):
        for t in DEGREES:
            for one, two in zip(layer.configurations[t], other.configurations[t], strict=True):
                assert (one.sharded_bytes, two.sharded_bytes) == (0.0, space.entry(t).optimizer_bytes)
                assert two.held_bytes(3, 1) == one.held_bytes(3, 1)
                assert two.held_bytes(3, 4) == one.held_bytes(3, 1) - 0.75 * two.sharded_bytes
                assert one.time == two.time
    assert any("share out its optimizer states" in note for note in shared.notes)


def test_zero1_fits_more_into_a_device() -> None:
    """The whole model on each of 16 devices needs its optimizer states there once, or a sixteenth of them."""
    sizes = []
    for zero1 in (False, True):
        problem = pt.hybrid_problem(graph(), CLUSTER, microbatches=64, zero1=zero1, degrees=[1])
        held = [layer.configurations[1][-1].held_bytes(1, 16) for layer in problem.layers]
        sizes.append(sum(held))
    states = sum(space.entry(1).optimizer_bytes for space in spaces().layers)
    assert sizes[0] - sizes[1] == pytest.approx(states * 15 / 16)
    stage = Stage(
        operators=tuple(layer.id for layer in problem.layers),
        data_parallel=16,
        tensor_parallel=1,
        configurations={layer.id: layer.configurations[1][-1].id for layer in problem.layers},
        machines=2,
        machine_group=0,
    )
    worth = judge(problem.replace(memory_bytes=sizes[1]), Plan(stages=(stage,)))
    assert worth.feasible
    assert worth.stages[0].memory_bytes == pytest.approx(sizes[1])


def test_names_of_classes_do_not_matter() -> None:
    renamed = graph().replace(modules=dict.fromkeys(graph().modules, "Unknown"))
    assert strategy_spaces(renamed, CLUSTER, microbatches=64).problem.layers == spaces().problem.layers


def llama() -> Graph:
    """Four layers of a Llama of width 256 with 8 heads, 2 of keys and values, and 512 features inside the MLP."""
    fields = {"layers": 4, "hidden": 256, "heads": 8, "kv_heads": 2, "intermediate": 512, "vocabulary": 1024}
    path = Path(__file__).parents[2] / "examples" / "language_models.py"
    set_fields = {name: str(value) for name, value in fields.items()}
    return pt.load_model(
        f"{path}:llama", batch_size=2, sequence_length=128, dtype="bfloat16", set_fields=set_fields, training=True
    )


def test_parts_of_products_have_the_shape_of_their_part() -> None:
    """Columns have fewer features, rows a shorter inner dimension; their gradients are shared out accordingly."""
    view = GraphView(graph())
    splits = find_splits(view)
    modes = assign_modes(splits, 4, True)
    link = CLUSTER.slowest_path(CLUSTER.groups()[0], inside=True)
    pricer = LayerPricer(
        splits,
        [0.0] * len(graph().operators),
        DEVICE,
        {4: link},
        OptimizerSettings(64, "adam", "float32", None),
        Roofline(),
    )
    shapes: dict[str, list[tuple[int, ...]]] = {}
    for v in splits.members[1]:
        op = graph().operators[v]
        if op.product is not None:
            shapes.setdefault(f"{op.phase} {op.module.rpartition('.')[2]}", []).append(
                pricer._part(v, op, modes).product or ()
            )
    tokens, f = S * B, 4 * H // 4
    assert shapes["forward up"] == [(1, tokens, f, H)]
    assert shapes["forward down"] == [(1, tokens, H, f)]
    # Gradients of the source and of the weight, in either order.
    assert sorted(shapes["backward up"]) == sorted([(1, tokens, H, f), (1, f, H, tokens)])
    assert sorted(shapes["backward down"]) == sorted([(1, tokens, f, H), (1, H, f, tokens)])
    heads = B * A // 4
    assert shapes["forward attention"] == [(heads, S, S, H // A), (heads, S, H // A, S)]


def test_fused_attention_keeps_every_other_product() -> None:
    found = strategy_spaces(llama(), CLUSTER, microbatches=8, degrees=(1, 4))
    none, some, full = (found.layers[1].entry(1, option) for option in ("none", "selective", "full"))
    assert full.activation_bytes < some.activation_bytes < none.activation_bytes
    assert 0 < some.recompute_s < full.recompute_s
    # Kept: what enters, attention's result and statistics, every other product from the first of the seven on.
    size = 2 * 128 * 2
    products = size * (256 + 64 + 512 + 256)
    attention = size * 256 + 2 * 128 * 8 * 4
    assert some.activation_bytes == pytest.approx(size * 256 + attention + products, rel=0.05)
    # Products that run again exchange again.
    again = found.layers[1].entry(4, "selective")
    assert any(c.phase == "recompute" for c in again.collectives)


def test_what_is_gathered_may_be_kept() -> None:
    again, kept = (
        strategy_spaces(llama(), CLUSTER, microbatches=8, degrees=(2,), gather_again=choice).layers[1].entry(2)
        for choice in (True, False)
    )
    # The results of two norms are kept whole, not half of them.
    assert kept.activation_bytes - again.activation_bytes == 2 * 128 * 256 * 2 * 2 / 2
    assert any(c.phase == "overlapped" for c in again.collectives)
    assert not any(c.phase == "overlapped" for c in kept.collectives)
    assert kept.time_s == again.time_s


def test_compiled_models_run_chains_as_one_kernel() -> None:
    plain, asked, compiled = (
        strategy_spaces(traced, CLUSTER, microbatches=8, degrees=(1,), fused=fused).layers[1].entry(1)
        for traced, fused in ((llama(), None), (llama(), True), (llama().replace(compiled=True), None))
    )
    assert compiled == asked
    assert compiled.compute_s < plain.compute_s
    assert compiled.activation_bytes == plain.activation_bytes
