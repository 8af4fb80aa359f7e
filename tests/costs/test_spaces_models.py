"""Strategy spaces of GPT-2, Llama 7B and BERT-large as transformers builds them, against formulas of the documents.

Attention is one fused operator in them, which keeps the log-sum-exp (4·a·s·b bytes) in place of the scores.
"""

from __future__ import annotations

import math
from functools import cache

import pytest

import partita as pt
from partita.nouns.graph import Graph
from partita.problems.hybrid.pricing import strategy_spaces
from partita.problems.hybrid.spaces import StrategySpaces, model_flops

pytest.importorskip("torch", reason="spaces are made from traced models")
pytest.importorskip("transformers", reason="hf: models need transformers")

DEGREES = (1, 2, 4, 8)
CLUSTER = pt.Cluster.from_spec("2x(8xA100-80GB)")
GPT2 = {"n_embd": "1024", "n_head": "16", "n_layer": "4"}
BERT = {"hidden_size": "1024", "num_attention_heads": "16", "intermediate_size": "4096", "num_hidden_layers": "4"}
LLAMA = {"num_hidden_layers": "4"}


@cache
def graph(model: str) -> Graph:
    fields = {"gpt2": GPT2, "bert": BERT, "llama": LLAMA}[model]
    return pt.load_model(f"hf:{model}", training=True, batch_size=2, set_fields=fields)


@cache
def spaces(model: str, sequence_parallel: bool) -> StrategySpaces:
    return strategy_spaces(graph(model), CLUSTER, microbatches=64, sequence_parallel=sequence_parallel)


#: s, h, a, f and V; bytes per token and feature that all devices keep (norms, residuals, dropout), and that are split.
SHAPES = {
    "gpt2": (1024, 1024, 16, 4096, 50257, 10.0, 8.0 + 10 * 4.0),
    "bert": (512, 1024, 16, 4096, 30522, 10.0, 24.0),
    "llama": (1024, 4096, 32, 11008, 32000, 16.0, 8.0 + 8 * 11008 / 4096),
}
MODELS = sorted(SHAPES)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("t", DEGREES)
def test_activations(model: str, t: int) -> None:
    s, h, a, _, _, whole, split = SHAPES[model]
    size = s * 2 * h
    statistics = 4 * a / h
    sequence, tensor = spaces(model, True).layers[2], spaces(model, False).layers[2]
    for space, option, expected in (
        (sequence, "none", (whole + split + statistics) / t),
        (sequence, "full", 2 / t),
        (tensor, "none", whole + (split + statistics) / t),
        (tensor, "full", 2),
    ):
        found = space.entry(t, option).activation_bytes
        # Llama's rotation tables (2·2·s·d bytes for all layers and samples) are kept by every device.
        tables = 4 * s * h / a if model == "llama" else 0
        assert found == pytest.approx(expected * size + tables, rel=0.01)
        if option == "none":
            assert found == pytest.approx(expected * size, rel=0.05)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("t", DEGREES)
def test_parameters(model: str, t: int) -> None:
    s, h, _, f, words, _, _ = SHAPES[model]
    layers = spaces(model, True).layers
    rows = math.ceil(words / t)
    expected = {
        "gpt2": (rows * h + s * h, (12 * h * h + 7 * h) // t + 6 * h, rows * h + 2 * h),
        "bert": (rows * h + s * h + 2 * h + 2 * h, (12 * h * h + 7 * h) // t + 6 * h, rows * h + rows + h * h + 3 * h),
        "llama": (rows * h, (4 * h * h + 3 * h * f) // t + 2 * h, rows * h + h),
    }[model]
    assert (layers[0].entry(t).parameters, layers[2].entry(t).parameters, layers[-1].entry(t).parameters) == expected
    assert [space.name.rsplit(".", 1)[-1] for space in layers] == ["input", "0", "1", "2", "3", "output"]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("t", DEGREES[1:])
def test_exchanges(model: str, t: int) -> None:
    s, h, *_ = SHAPES[model]
    size = 2.0 * s * 2 * h
    for sequence in (True, False):
        entry = spaces(model, sequence).layers[2].entry(t)
        kinds = {
            (kind, phase): [c.bytes for c in entry.collectives if (c.kind, c.phase) == (kind, phase)]
            for kind in ("all-reduce", "all-gather", "reduce-scatter")
            for phase in ("forward", "backward")
        }
        if sequence:
            assert kinds["all-reduce", "forward"] == kinds["all-reduce", "backward"] == []
            assert kinds["all-gather", "forward"] == kinds["reduce-scatter", "forward"] == [size, size]
            assert kinds["all-gather", "backward"] == kinds["reduce-scatter", "backward"] == [size, size]
        else:
            assert kinds["all-reduce", "forward"] == kinds["all-reduce", "backward"] == [size, size]
        assert entry.communication_bytes == 4 * 2 * (t - 1) / t * size


@pytest.mark.parametrize("model", MODELS)
def test_flops(model: str) -> None:
    s, h, _, f, words, _, _ = SHAPES[model]
    tokens = 2 * s
    products = (3 if model == "llama" else 2) * h * f + 4 * h * h
    head = h * words + (h * h if model == "bert" else 0)
    # Attention's two products are over all s tokens; forward one part, backward two.
    expected = 3 * 2 * tokens * (4 * (products + 2 * s * h) + head)
    assert model_flops(graph(model)) == expected


def test_experts_are_split_by_their_features() -> None:
    fields = {"num_hidden_layers": "2", "hidden_size": "512", "intermediate_size": "1024", "num_local_experts": "4"}
    model = pt.load_model("hf:mixtral", training=True, sequence_length=128, set_fields=fields)
    found = strategy_spaces(model, CLUSTER, microbatches=8)
    assert [[region.kind for region in space.regions] for space in found.layers[1:3]] == [["attention", "experts"]] * 2
    one, eight = (found.layers[1].entry(t) for t in (1, 8))
    # 8 heads of keys and values; the router and the norms are whole.
    whole = 4 * 512 + 2 * 512
    assert eight.parameters == (one.parameters - whole) // 8 + whole
    assert eight.collectives
    note = "Expert parallelism is not considered: the experts of model.layers.0 and 1 more layers are split"
    assert any(line.startswith(note) for line in found.problem.notes)


def test_models_without_experts_have_no_note_about_them() -> None:
    assert not any("Expert" in line for line in strategy_spaces(graph("llama"), CLUSTER, microbatches=8).problem.notes)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["t5", "vit", "resnet", "falcon", "qwen3", "swin", "whisper"])
def test_other_models(model: str) -> None:
    traced = pt.load_model(f"hf:{model}", training=True)
    found = strategy_spaces(traced, CLUSTER, microbatches=8)
    total = sum(op.times[0] or 0.0 for op in pt.price(traced, CLUSTER, microbatches=8).operators)
    assert sum(space.entry(1).time_s for space in found.layers) == pytest.approx(total)
    for space in found.layers:
        for t in DEGREES[1:]:
            entry = space.entry(t)
            assert entry.compute_s <= space.entry(1).compute_s * (1 + 1e-9)
            assert space.entry(1).parameters / t * 0.99 <= entry.parameters <= space.entry(1).parameters
            assert entry.activation_bytes <= space.entry(1).activation_bytes * (1 + 1e-9)


@pytest.mark.slow
def test_gpt3_takes_seconds() -> None:
    fields = {"n_layer": "96", "n_embd": "12288", "n_head": "96", "n_positions": "2048"}
    traced = pt.load_model("hf:gpt2", training=True, sequence_length=2048, set_fields=fields)
    found = strategy_spaces(traced, pt.Cluster.from_spec("128x(8xA100-80GB)"), microbatches=512)
    assert sum(space.entry(1).parameters for space in found.layers) == pytest.approx(175e9, rel=0.01)
    assert len({space.like for space in found.layers}) == 3


@cache
def mixer(groups: int) -> StrategySpaces:
    """State-space mixers of 16 heads of 32 features, with states of 16 in so many groups."""
    fields = {
        "num_hidden_layers": "2",
        "hidden_size": "256",
        "num_heads": "16",
        "head_dim": "32",
        "state_size": "16",
        "n_groups": str(groups),
        "expand": "2",
        "vocab_size": "1024",
    }
    model = pt.load_model("hf:mamba2", training=True, batch_size=1, sequence_length=512, set_fields=fields)
    return strategy_spaces(model, CLUSTER, microbatches=64)


def test_state_space_mixers_are_split_by_groups_of_heads() -> None:
    found = mixer(4).layers[1]
    (region,) = [one for one in found.regions if one.kind == "scan"]
    assert region.units == (4, 16)
    assert [degree for degree in DEGREES if region.splits(degree)] == [1, 2, 4]
    one, two = found.entry(1), found.entry(2)
    # Of products, the convolution and the scan each device has half; norms and numbers of heads stay whole.
    assert two.flops == one.flops / 2
    products = 256 * (2 * 512 + 2 * 4 * 16 + 16) + 512 * 256
    assert one.parameters - two.parameters == (products + (512 + 2 * 4 * 16) * 4) / 2
    # Both ends exchange tokens, as around attention.
    assert {(c.kind, c.phase) for c in two.collectives if c.phase == "forward"} == {
        ("all-gather", "forward"),
        ("reduce-scatter", "forward"),
    }


def test_mixers_of_one_group_stay_whole() -> None:
    """All heads share what goes into the state: every device would need all of it."""
    found = mixer(1).layers[1]
    assert not [one for one in found.regions if one.kind == "scan"]
    assert found.entry(2).flops == found.entry(1).flops
