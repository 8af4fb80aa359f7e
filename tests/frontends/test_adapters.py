"""Adapters beside frozen weights: what is computed, what is trained, and that a module is left as it was."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import partita as pt
from partita.frontends.adapters import adapted, attach
from partita.frontends.models import load_model
from partita.frontends.options import Adapters, asked_of
from partita.ground.errors import InputError
from partita.nouns.graph import Graph

RANK, WIDTH = 3, 32


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.relu(self.up(x)))


def model() -> nn.Module:
    return nn.Sequential(nn.Linear(5, WIDTH), Block(), Block())


def traced(**asked: object) -> Graph:
    return pt.trace(model(), (torch.zeros(6, 5),), training=True, **asked)  # type: ignore[arg-type]


def test_what_is_computed() -> None:
    torch.manual_seed(0)
    layer = model()
    x = torch.randn(6, 5)
    plain = layer[0](x)
    attach(layer, Adapters(RANK, ("0",)))
    a, b = layer[0].lora_A.weight, layer[0].lora_B.weight
    assert (a.shape, b.shape) == ((RANK, 5), (WIDTH, RANK))
    torch.testing.assert_close(layer[0](x), plain + 2.0 * x @ a.T @ b.T)


def test_only_adapters_are_trained() -> None:
    graph = traced(lora=RANK)
    trained = {parameter.name for parameter in graph.parameters if parameter.trainable}
    layers = ["0", "1.up", "1.down", "2.up", "2.down"]
    assert trained == {f"{name}.lora_{which}.weight" for name in layers for which in "AB"}
    gradients = {tensor.name for tensor in graph.tensors if tensor.name.startswith("grad:")}
    assert gradients == {f"grad:{name}" for name in trained}
    # Backward, a frozen weight is read at most once: for the gradient of what goes into its layer. What goes into the
    # first layer is no result of anything trained.
    reads = {
        parameter.name: sum(graph.operators[v].phase == "backward" for v in parameter.users)
        for parameter in graph.parameters
        if parameter.name.rpartition(".")[0] in layers and parameter.name.endswith(".weight")
    }
    assert reads == {"0.weight": 0, **{f"{name}.weight": 1 for name in layers[1:]}}
    whole = traced()
    assert graph.flops < whole.flops
    assert any("adapters of rank 3" in note for note in graph.notes)


def test_what_the_adapters_do_not_need_is_not_kept() -> None:
    """The wide result of ``up`` is kept once for ``down``'s adapter, and nothing else of the frozen layers."""
    graph = traced(lora=RANK, lora_targets=("down",))
    saved = [
        tensor
        for tensor in graph.tensors
        if tensor.producer is not None
        and graph.operators[tensor.producer].phase == "forward"
        and any(graph.operators[v].phase == "backward" for v in tensor.consumers)
    ]
    # Of the first block nothing before its adapter is trained; of the second the mask of relu is needed, too.
    assert sorted(tensor.shape for tensor in saved) == [(6, RANK), (6, RANK), (6, 4 * WIDTH), (6, 4 * WIDTH)]


def test_a_module_is_left_as_it_was() -> None:
    layer = model()
    layer[0].bias.requires_grad_(False)
    names, flags = list(layer.state_dict()), [p.requires_grad for p in layer.parameters()]
    x = torch.randn(6, 5)
    plain = layer(x)
    seen = []

    def fail() -> None:
        with adapted(layer, Adapters(RANK)):
            seen.append(len(list(layer.parameters())))
            raise RuntimeError("on purpose")

    with pytest.raises(RuntimeError, match="on purpose"):
        fail()
    assert seen[0] > len(flags)
    pt.trace(layer, (x,), training=True, lora=RANK)
    assert list(layer.state_dict()) == names
    assert [p.requires_grad for p in layer.parameters()] == flags
    assert "forward" not in vars(layer[0])
    torch.testing.assert_close(layer(x), plain)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"lora": 0}, "lora rank 0 is out of range"),
        ({"lora": True}, "lora rank True is out of range"),
        ({"lora": 4, "training": False}, "add --training"),
        ({"lora_targets": ("q_proj",)}, "give the rank"),
        ({"lora": 4, "lora_targets": ("q_prj",)}, "no linear layer called 'q_prj'; did you mean 'q_proj'"),
    ],
)
def test_wrong_adapters(asked: dict[str, object], said: str) -> None:
    fields = {"num_hidden_layers": 1, "hidden_size": 32, "intermediate_size": 32, "num_attention_heads": 4}
    with pytest.raises(InputError, match=said):
        load_model(
            "hf:llama",
            **{"training": True, "set_fields": {k: str(v) for k, v in fields.items()}, "cache": False, **asked},  # type: ignore[arg-type]
        )


def test_no_linear_layer_and_adapters_twice() -> None:
    with pytest.raises(InputError, match="no linear layer"):
        pt.trace(nn.Conv1d(2, 2, 1), (torch.zeros(1, 2, 3),), training=True, lora=4)
    layer = model()
    attach(layer, Adapters(RANK))
    with pytest.raises(InputError, match="has adapters already"):
        pt.trace(layer, (torch.zeros(6, 5),), training=True, lora=4)


def test_layers_whose_weight_lies_the_other_way_round_and_the_head() -> None:
    fields = {"n_layer": "1", "n_embd": "32", "n_head": "4", "vocab_size": "64"}
    graph = load_model("hf:gpt2", set_fields=fields, sequence_length=8, training=True, lora=RANK, cache=False)
    shapes = {parameter.name: parameter.shape for parameter in graph.parameters if parameter.trainable}
    # The head is the table of words, which has no adapter.
    assert len(shapes) == 8
    assert shapes["transformer.h.0.attn.c_attn.lora_A.weight"] == (RANK, 32)
    assert shapes["transformer.h.0.attn.c_attn.lora_B.weight"] == (96, RANK)
    assert graph.source is not None
    assert asked_of(graph.source).adapters == Adapters(RANK)
