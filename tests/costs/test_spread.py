"""Layers on devices that share out the sequence or experts: closed forms of bytes, memory and time, and refusals."""

from __future__ import annotations

import functools
import math

import pytest

import partita as pt
from partita.costs.strategies.context import TokenSequence
from partita.costs.strategies.experts import find_experts
from partita.costs.strategies.layers import find_splits
from partita.costs.strategies.strategy import LayerStrategy
from partita.costs.strategies.view import GraphView
from partita.ground.errors import InputError
from partita.nouns.graph import Graph
from partita.problems.hybrid.pricing import strategy_spaces
from partita.problems.hybrid.spaces import StrategySpaces
from partita.problems.hybrid.step.degrees import DegreeChoices
from partita.problems.hybrid.step.layout import MeshLayout
from partita.problems.hybrid.step.layout_price import price_layout
from partita.problems.hybrid.step.mesh import DeviceMesh
from partita.problems.hybrid.training import ZERO_STAGES, Training

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

#: Tokens, hidden features, features of an expert, experts, experts of a token, heads of keys and values, their width.
S, H, F, E, K, KV, WIDTH = 512, 512, 1024, 8, 2, 4, 64
CLUSTER = pt.Cluster.from_spec("2x(8xA100-80GB):infiniband-hdr")
#: Bytes of the rows that tokens send to their experts, in half precision.
ROWS = K * S * H * 2
#: Bytes of the keys and values of a sequence.
BLOCKS = 2 * S * KV * WIDTH * 2
FIELDS = {
    "num_hidden_layers": "2",
    "hidden_size": str(H),
    "intermediate_size": str(F),
    "num_attention_heads": "8",
    "num_key_value_heads": str(KV),
    "head_dim": str(WIDTH),
    "vocab_size": "1024",
}


@functools.cache
def mixture() -> Graph:
    return pt.load_model(
        "hf:mixtral",
        training=True,
        sequence_length=S,
        set_fields={**FIELDS, "num_local_experts": str(E), "num_experts_per_tok": str(K)},
    )


@functools.cache
def dense(sequence_length: int = S) -> Graph:
    return pt.load_model("hf:llama", training=True, sequence_length=sequence_length, set_fields=FIELDS)


def spaces(graph: Graph, sharing: DegreeChoices, cluster: pt.Cluster = CLUSTER) -> StrategySpaces:
    return strategy_spaces(graph, cluster, microbatches=16, training=Training(zero=ZERO_STAGES), sharing=sharing)


def entry(found: StrategySpaces, pair: tuple[int, int], tensor: int = 1, option: str = "none") -> LayerStrategy:
    """Of the second block."""
    rows = found.layers if pair == (1, 1) else found.by_degrees[*pair, 0]
    return rows[2].entry(tensor, option)


def sent(entry: LayerStrategy, kind: str) -> dict[str, list[float]]:
    """Bytes that each device sends, by phase."""
    result: dict[str, list[float]] = {}
    for one in entry.collectives:
        if one.kind == kind and one.members:
            result.setdefault(one.phase, []).append(one.sent_bytes(entry.degree))
    return result


# -- experts ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("e", [2, 4, 8])
def test_rows_travel_to_their_experts_and_back(e: int) -> None:
    """Each token's hidden state for each of its experts, there and back, forward and backward."""
    found = spaces(mixture(), DegreeChoices((1,), (1, e)))
    part = ROWS * (e - 1) / e
    assert sent(entry(found, (1, e)), "all-to-all") == {"forward": [part, part], "backward": [part, part]}
    # Devices of a tensor-parallel group send for their own tokens.
    split = sent(entry(found, (1, e), tensor=2), "all-to-all")
    assert split == {"forward": [part / 2, part / 2], "backward": [part / 2, part / 2]}
    again = sent(entry(found, (1, e), option="full"), "all-to-all")
    assert again["recompute"] == [part, part]
    assert sent(entry(found, (1, 1)), "all-to-all") == {}


def test_each_device_has_its_experts_only() -> None:
    found = spaces(mixture(), DegreeChoices((1,), (1, 4)))
    one, four = entry(found, (1, 1)), entry(found, (1, 4))
    experts = E * 3 * H * F
    assert four.parameters == one.parameters - experts + experts // 4
    assert four.of_experts == (2 * experts / 4, 2 * experts / 4, 12 * experts / 4, experts // 4)
    # Every device gets as many rows as it sends.
    assert four.activation_bytes == one.activation_bytes
    assert four.flops == one.flops
    state = found.problem.at(1, 4).layers[2].states[1]  # type: ignore[union-attr]
    assert state.experts is not None
    assert (state.experts.parameter_bytes, state.experts.optimizer_bytes) == (2 * experts / 4, 12 * experts / 4)
    assert state.parameter_bytes == one.weight_bytes - 2 * experts


def test_an_exchange_of_all_with_all_uses_both_links() -> None:
    """Of 16 devices in two machines 7 are near, and 8 far, each behind a network card of its own."""
    machines = pt.Cluster.from_spec("2x(8xA100-80GB):infiniband-hdr")
    graph = pt.load_model(
        "hf:mixtral",
        training=True,
        sequence_length=S,
        set_fields={**FIELDS, "num_local_experts": "16", "num_experts_per_tok": "2"},
    )
    found = spaces(graph, DegreeChoices((1,), (8, 16)), machines)
    near, far = (entry(found, (1, e)).context_expert_s[1] for e in (8, 16))
    rate, inside = found.problem.bandwidth_bytes_per_unit, found.problem.training
    assert inside is not None
    calls, hops = inside.call_times, inside.hop_times
    assert near == pytest.approx(4 * (ROWS * 7 / 8 / rate + calls[0] + 7 * hops[0]))
    assert found.problem.hierarchy is not None
    card = found.problem.hierarchy.machine_bandwidth_bytes_per_unit / 8
    assert card < rate
    assert far == pytest.approx(4 * (ROWS * 8 / 16 / card + max(calls) + 7 * hops[0] + hops[1]))


def test_a_capacity_makes_more_rows() -> None:
    plain, more = (entry(spaces(mixture(), DegreeChoices((1,), (4,), capacity)), (1, 4)) for capacity in (1.0, 1.25))
    assert sent(more, "all-to-all")["forward"] == [1.25 * part for part in sent(plain, "all-to-all")["forward"]]
    # Three products of each row, forward and twice backward.
    assert more.flops - plain.flops == pytest.approx(0.25 * 3 * 3 * 2 * K * S * H * F, rel=1e-6)
    assert more.activation_bytes > plain.activation_bytes


class Switch(torch.nn.Module):  # type: ignore[misc]
    """Experts as batches of products, whatever they are called."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(64)
        self.first = torch.nn.Parameter(torch.zeros(4, 64, 128))
        self.second = torch.nn.Parameter(torch.zeros(4, 128, 64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = self.norm(x).view(4, 32, 64)
        rows = torch.bmm(torch.nn.functional.relu(torch.bmm(rows, self.first)), self.second)
        out: torch.Tensor = x + rows.view(128, 64)
        return out


def test_experts_are_known_by_their_weights() -> None:
    model = torch.nn.Sequential(*(Switch() for _ in range(2)))
    graph = pt.trace(model, (torch.zeros(128, 64),), training=True)
    splits = find_splits(GraphView(graph))
    found = find_experts(splits)
    assert sorted(found) == [0, 1]
    assert {graph.parameters[place].shape for place in found[0].weights} == {(4, 64, 128), (4, 128, 64)}
    assert [math.prod(graph.tensors[place].shape) for place in found[0].dispatched] == [128 * 64]
    assert [math.prod(graph.tensors[place].shape) for place in found[0].combined] == [128 * 64]
    assert find_experts(find_splits(GraphView(dense()))) == {}


def test_shared_experts_stay_where_they_are() -> None:
    fields = {
        "num_hidden_layers": "3",
        "first_k_dense_replace": "1",
        "hidden_size": "256",
        "intermediate_size": "512",
        "moe_intermediate_size": "128",
        "n_routed_experts": "8",
        "n_shared_experts": "2",
        "num_experts_per_tok": "2",
        "num_attention_heads": "4",
        "num_key_value_heads": "4",
        "q_lora_rank": "64",
        "kv_lora_rank": "64",
        "qk_rope_head_dim": "16",
        "qk_nope_head_dim": "32",
        "v_head_dim": "32",
        "vocab_size": "1024",
    }
    graph = pt.load_model("hf:deepseek_v2", training=True, sequence_length=128, set_fields=fields)
    found = spaces(graph, DegreeChoices((1, 2), (1, 8)))
    routed = 8 * 3 * 256 * 128
    first, second = found.by_degrees[1, 8, 0][1].entry(1), found.by_degrees[1, 8, 0][2].entry(1)
    assert first.of_experts == (0.0, 0.0, 0.0, 0)
    assert first.collectives == ()
    assert second.of_experts[0] == 2 * routed / 8
    assert second.parameters == found.layers[2].entry(1).parameters - routed + routed // 8
    # Keys of 32 + 16 features, and values of 32, of four heads.
    ring = sent(found.by_degrees[2, 1, 0][2].entry(1), "ring")
    assert ring["forward"] == [128 * 4 * (48 + 32) * 2 / 2]


# -- experts with groups of their own ----------------------------------------------------------------------------------


def test_experts_stay_whole_beside_tensor_parallelism() -> None:
    """Each device of a tensor-parallel group sends its own tokens to whole experts, over all devices of a stage."""
    sharing = DegreeChoices((1,), (1, 4), expert_tensor=(0, 1))
    found = spaces(mixture(), sharing)
    experts = E * 3 * H * F
    for e in (1, 4):
        split, whole = (found.by_degrees.get((1, e, x), found.layers)[2].entry(2) for x in (0, 1))
        held = experts // e
        assert whole.parameters == split.parameters - held // 2 + held
        assert whole.of_experts == (2 * held, 2 * held, 12 * held, held)
        # The same work, of as many rows of half as many experts.
        assert whole.flops == split.flops
        assert whole.activation_bytes < split.activation_bytes
        assert sent(whole, "all-to-all") == sent(split, "all-to-all")
        # Beside these only attention exchanges anything for each microbatch: what enters it, and leaves it.
        mine = [(c.kind, c.phase, c.bytes) for c in whole.collectives if not c.members and c.phase != "batch"]
        size = S * H * 2.0
        assert sorted(mine) == [
            *(("all-gather", phase, size) for phase in ("backward", "forward", "overlapped")),
            *(("reduce-scatter", phase, size) for phase in ("backward", "forward")),
        ]
        # Gradients of experts go to other groups than those of what the tensor-parallel group has whole.
        once = {c.tensor.rpartition("layers.0.")[2] for c in whole.collectives if c.phase == "batch"}
        assert once == {"input_layernorm.weight", "post_attention_layernorm.weight", "mlp.gate.weight"}


def test_replicas_of_experts_are_among_all_devices_of_a_stage() -> None:
    """Of d·c·t = 8 devices four hold all experts: there are two of each, four apart."""
    found = spaces(mixture(), DegreeChoices((1,), (4,), expert_tensor=(1,))).problem
    there = found.at(1, 4, 1)
    assert there is not None
    state = there.layers[2].states[2]
    assert state.experts is not None
    mesh = DeviceMesh(there, 1, 4, 2, "1f1b", 1, 1, 1, 4, 1)
    held = state.parameter_bytes + state.gradient_bytes + state.optimizer_bytes / 4
    own = state.experts.parameter_bytes + state.experts.gradient_bytes + state.experts.optimizer_bytes / 2
    assert mesh.exchanges.state[mesh.place[2]] == held + own
    # More groups than hold the same weights may share out experts.
    assert price_layout(
        mixture(), CLUSTER, MeshLayout(tensor=4, data=2, pipeline=2, expert=8, expert_tensor=1, zero=1), microbatches=16
    ).evaluation.feasible


def test_one_device_is_its_own_group() -> None:
    """Without tensor parallelism both ways are the same."""
    layouts = [MeshLayout(data=8, expert=4, expert_tensor=x, zero=1) for x in (0, 1)]
    one, other = (price_layout(mixture(), CLUSTER, layout, microbatches=16).step_time for layout in layouts)
    assert one == pytest.approx(other, rel=1e-12)


# -- sequences --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("c", [2, 4, 8])
def test_keys_and_values_go_round(c: int) -> None:
    """c − 1 blocks of keys and values forward; backward as many, and their gradients."""
    found = spaces(dense(), DegreeChoices((1, c), (1,)))
    ring = (c - 1) * BLOCKS / c
    assert sent(entry(found, (c, 1)), "ring") == {"forward": [ring], "backward": [2 * ring]}
    split = sent(entry(found, (c, 1), tensor=2), "ring")
    assert split == {"forward": [ring / 2], "backward": [ring]}
    assert sent(entry(found, (c, 1), option="full"), "ring")["recompute"] == [ring]
    # Selective recomputation keeps attention's result.
    assert "recompute" not in sent(entry(found, (c, 1), option="selective"), "ring")


@pytest.mark.parametrize("c", [2, 8])
def test_tokens_are_shared_out_and_weights_are_not(c: int) -> None:
    found = spaces(dense(), DegreeChoices((1, c), (1,)))
    for tensor in (1, 2):
        whole, part = entry(found, (1, 1), tensor), entry(found, (c, 1), tensor)
        assert part.flops == whole.flops / c
        assert part.activation_bytes == pytest.approx(whole.activation_bytes / c, rel=1e-4)
        assert (part.weight_bytes, part.optimizer_bytes) == (whole.weight_bytes, whole.optimizer_bytes)
        assert part.gradient_bytes == whole.gradient_bytes
    spread = found.problem.at(c, 1)
    assert spread is not None
    assert [edge.bytes for edge in spread.edges] == [edge.bytes / c for edge in found.problem.edges]


def test_the_ring_hides_behind_attention() -> None:
    """Each step works on a c-th of what a device has, and only the rest of a transfer is waited for."""
    c, long = 4, 16384
    for link, hidden in (("nvlink4", True), ("pcie3", False)):
        cluster = pt.Cluster.from_spec(f"8xA100-80GB@{link}")
        found = spaces(dense(long), DegreeChoices((c,), (1,)), cluster)
        part = entry(found, (c, 1))
        beside = {one.phase: one.beside_s for one in part.collectives}
        training, waited = found.problem.training, 0.0
        assert training is not None
        for phase, factor in (("forward", 1), ("backward", 2)):
            size = factor * 2 * long * KV * WIDTH * 2 / c
            step = size / found.problem.bandwidth_bytes_per_unit + training.call_times[0]
            waited += (c - 1) * max(0.0, step - beside[phase] / c)
        assert part.communication_s == pytest.approx(waited)
        assert (part.communication_s == 0) == hidden


def test_gradients_are_summed_over_sequences_and_replicas() -> None:
    """All d·c groups hold a weight; of d·c groups a e-th holds an expert."""
    found = spaces(mixture(), DegreeChoices((2,), (4,)))
    spread = found.problem.at(2, 4)
    assert spread is not None
    training = found.problem.training
    assert training is not None
    mesh = DeviceMesh(spread, 1, 4, 1, "1f1b", 1, 1, 2, 4)
    state = spread.layers[2].states[1]
    assert state.experts is not None
    held = state.parameter_bytes + state.experts.parameter_bytes + state.gradient_bytes + state.experts.gradient_bytes
    shared = state.optimizer_bytes / 8 + state.experts.optimizer_bytes / 2
    assert mesh.exchanges.state[mesh.place[2]] == held + shared
    rate = spread.bandwidth_bytes_per_unit
    rest = training.call_times[0] * 2 + training.hop_times[0] * 8
    # The two replicas of an expert are four devices apart, in one machine.
    moved = state.gradient_bytes * 7 / 8 + state.experts.gradient_bytes / 2
    assert mesh.exchanges.reduce_once[mesh.place[2]] == pytest.approx(moved / rate + rest)


# -- what there is to choose, and what is refused ---------------------------------------------------------------------


def test_without_groups_all_is_as_it_was() -> None:
    plain, asked = (spaces(mixture(), sharing) for sharing in (DegreeChoices(), DegreeChoices((1,), (1,))))
    assert asked.problem.layers == plain.problem.layers
    assert asked.problem.spreads == ()
    assert plain.problem.training is not None
    assert plain.problem.training.expert_tensor == (0, 1)
    # Short sequences stay whole unless asked for.
    assert (plain.problem.training.context, plain.problem.training.expert) == ((1,), (1, 2, 4, 8))
    longer = spaces(dense(16384), DegreeChoices()).problem.training
    assert longer is not None
    assert (longer.context, longer.expert) == ((1, 2, 4), (1,))


@pytest.mark.parametrize(
    ("graph", "sharing", "message"),
    [
        (mixture, DegreeChoices((1,), (3,)), "degree 3 does not divide the 8 experts of model.layers.0"),
        (mixture, DegreeChoices((1,), (32,)), "degree 32 does not divide the 8 experts"),
        (dense, DegreeChoices((1,), (2,)), "needs layers with experts, and none were found"),
        (dense, DegreeChoices((3,), (1,)), "does not cut the 512 tokens of a sequence into 6 equal pieces"),
        (dense, DegreeChoices((32,), (1,)), "context-parallel degree 32 is more than the 16 devices"),
        (dense, DegreeChoices((), (1,)), "give at least one"),
        (mixture, DegreeChoices((1,), (2,), 0.5), "the mean of rows or more"),
        (dense, DegreeChoices((1,), (1,), expert_tensor=(1,)), "needs layers with experts, and none were found"),
        (
            mixture,
            DegreeChoices((1,), (2,), expert_tensor=(2,)),
            "2 is for tensor-parallel degree 2, and the degrees are",
        ),
    ],
)
def test_degrees_that_do_not_suit(graph, sharing: DegreeChoices, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError) as caught:
        spaces(graph(), sharing)
    assert message in str(caught.value)


def test_each_device_has_two_pieces_of_a_sequence() -> None:
    assert TokenSequence(12, {}).refusal(3) is None
    # Four devices would have three tokens each, which are no two equal pieces.
    assert TokenSequence(12, {}).refusal(4) is not None


class Convolution(torch.nn.Module):  # type: ignore[misc]
    """Attention beside an operator that looks at neighbouring tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = torch.nn.Linear(64, 192)
        self.near = torch.nn.Conv1d(64, 64, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).view(1, 128, 3, 4, 16).permute(2, 0, 3, 1, 4)
        x = x + torch.nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(1, 128, 64)
        out: torch.Tensor = x + self.near(x.transpose(1, 2)).transpose(1, 2)
        return out


def test_tokens_that_meet_elsewhere_stay_together() -> None:
    model = torch.nn.Sequential(*(Convolution() for _ in range(2)))
    graph = pt.trace(model, (torch.zeros(1, 128, 64),), training=True)
    with pytest.raises(InputError, match=r"aten\.convolution\S* in \d\.near may make one token of several"):
        spaces(graph, DegreeChoices((2,), (1,)))
    found = spaces(graph, DegreeChoices()).problem.training
    assert found is not None
    assert found.context == (1,)


def test_a_layout_with_shared_experts_and_sequences() -> None:
    layout = MeshLayout(tensor=2, data=2, context=4, expert=4, zero=1)
    found = price_layout(mixture(), CLUSTER, layout, microbatches=16)
    assert found.evaluation.feasible, found.evaluation.violations
    assert found.layout.devices == found.plan.device_count == 16
    stage = found.plan.stages[0]
    assert (stage.context_parallel, stage.expert_parallel) == (4, 4)
    assert found.problem.training is not None
    with pytest.raises(InputError, match=r"expert is 3; it must divide data · context, 4"):
        MeshLayout(data=2, context=2, expert=3)
    with pytest.raises(InputError, match=r"expert · expert_tensor is 16; it must divide data · context · tensor, 8"):
        MeshLayout(tensor=2, data=2, context=2, expert=16, expert_tensor=1)
    alone = DegreeChoices((1,), (2,), expert_tensor=(1,))
    with pytest.raises(InputError, match="needs groups that share out tokens"):
        strategy_spaces(
            mixture(), CLUSTER, microbatches=16, training=Training(), sharing=alone, sequence_parallel=False
        )
