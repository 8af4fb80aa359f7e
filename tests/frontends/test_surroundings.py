"""Code that asks for another machine, checkpoints, branches or kernels of its own is traced as that machine runs it."""

# ruff: noqa: E402 -- the imports follow the check that torch is there
from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the PyTorch frontend needs torch")

from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from frontends.helpers import targets
from partita.frontends.models import load_model
from partita.frontends.surroundings import BRANCH_NOTE
from partita.frontends.torch import trace
from partita.ground.errors import InputError, TraceError


class Applied(nn.Module):
    """A product, and what a function makes of it and its source."""

    def __init__(self, function: Callable[..., Any], **children: nn.Module) -> None:
        super().__init__()
        self.function, self.linear = function, nn.Linear(64, 64)
        for name, child in children.items():
            setattr(self, name, child)

    def forward(self, x: Any) -> Any:
        return self.function(self, x)


def traced(function: Callable[..., Any], *shape: int, training: bool = False, **children: nn.Module) -> Any:
    return trace(Applied(function, **children), (torch.zeros(*(shape or (8, 64))),), training=training)


PLAIN = [
    ("a device by name", lambda m, x: m.linear(x.to("cuda"))),
    ("a device and a format", lambda m, x: m.linear(x.to("cuda:1", torch.float32))),
    ("a call", lambda m, x: m.linear(x.cuda())),
    ("a keyword", lambda m, x: m.linear(x.to(device="cuda", non_blocking=True))),
]


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize(("name", "function"), PLAIN, ids=[name for name, _ in PLAIN])
def test_moves_to_devices_are_none(name: str, function: Callable[..., Any], training: bool) -> None:
    here = traced(lambda m, x: m.linear(x), training=training)
    assert targets(traced(function, training=training)) == targets(here)


def test_a_move_that_changes_the_format_does_that() -> None:
    graph = traced(lambda m, x: functional.linear(x.to("cuda", torch.float16), m.linear.weight.to("cuda").half()))
    assert [op.dtype for op in graph.operators if op.flops] == ["float16"]


@pytest.mark.parametrize(("given", "expected"), [(None, "float16"), (torch.bfloat16, "bfloat16")])
@pytest.mark.parametrize("training", [False, True])
def test_mixed_precision_of_a_gpu(given: Any, expected: str, training: bool) -> None:
    def function(m: Any, x: Any) -> Any:
        with torch.autocast("cuda", dtype=given):
            return functional.softmax(m.linear(x), dim=-1)

    graph = traced(function, training=training)
    assert {op.dtype for op in graph.operators if op.flops} == {expected}
    # A GPU computes it in float32, the CPU in the narrow format.
    assert {op.dtype for op in graph.operators if "softmax" in op.target} == {"float32"}


def test_mixed_precision_ends_with_its_region() -> None:
    def function(m: Any, x: Any) -> Any:
        with torch.autocast("cuda"):
            y = m.linear(x)
        return m.linear(y.float())

    graph = traced(function)
    assert [op.dtype for op in graph.operators if op.flops] == ["float16", "float32"]
    # And what is switched off is off.
    off = traced(lambda m, x: torch.autocast("cuda", enabled=False)(m.linear)(x))
    assert [op.dtype for op in off.operators] == ["float32"]


def test_conversions_inside_forward_keep_gradients() -> None:
    def function(m: Any, x: Any) -> Any:
        m.linear.half()
        return m.linear(x.half())

    model = Applied(function)
    weight = model.linear.weight
    graph = trace(model, (torch.zeros(8, 64),), training=True)
    assert model.linear.weight is weight
    assert weight.dtype == torch.float32
    assert {t.name for t in graph.tensors if t.name.startswith("grad:")} == {"grad:linear.weight", "grad:linear.bias"}
    assert {op.dtype for op in graph.operators if op.flops} == {"float16"}


def test_branches_on_data_take_the_first_with_a_note() -> None:
    graph = traced(lambda m, x: torch.cond(x.sum() > 0, lambda y: m.linear(y), lambda y: y + 1, (x,)))
    assert "addmm" in targets(graph)
    assert BRANCH_NOTE in graph.notes


def attend(y: Any) -> Any:
    q = y.view(1, 4, 8, 16)
    return functional.scaled_dot_product_attention(q, q, q, dropout_p=0.1).reshape(8, 64)


CHECKPOINTED = [
    ("products", lambda m, y: torch.relu(m.linear(y)), {"addmm": 1, "relu": 1}),
    ("dropout", lambda m, y: functional.dropout(y, 0.1), {"native_dropout": 1}),
    ("attention", lambda m, y: attend(y), {"scaled_dot_product_attention": 1}),
]


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize(("name", "part", "again"), CHECKPOINTED, ids=[row[0] for row in CHECKPOINTED])
def test_checkpointed_parts_run_again(name: str, part: Any, again: dict[str, int], reentrant: bool) -> None:
    def function(m: Any, x: Any) -> Any:
        return checkpoint(lambda y: part(m, y), m.linear(x), use_reentrant=reentrant)

    plain = Counter(targets(traced(lambda m, x: part(m, m.linear(x)), training=True)))
    found = Counter(targets(traced(function, training=True)))
    assert {target: found[target] - plain[target] for target in again} == again


@pytest.mark.parametrize("training", [False, True])
def test_flexible_attention_is_one_call(training: bool) -> None:
    from torch.nn.attention.flex_attention import flex_attention

    def function(m: Any, x: Any) -> Any:
        q = m.linear(x).view(1, 4, 8, 16)
        return flex_attention(q, q, q)

    found = targets(traced(function, training=training))
    assert found.count("scaled_dot_product_attention") == 1
    assert ("scaled_dot_product_attention_backward" in found) is training


LAYERS = [
    nn.GRU(64, 32, num_layers=2, bidirectional=True, batch_first=True, dropout=0.1),
    nn.GRU(64, 32, bias=False),
    nn.RNN(64, 32, nonlinearity="relu"),
]


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("layer", LAYERS, ids=repr)
def test_recurrent_layers_are_one_call_each(layer: nn.RNNBase, training: bool) -> None:
    graph = traced(lambda m, x: m.layer(m.linear(x))[0], 2, 16, 64, training=training, layer=layer)
    name = {"GRU": "gru", "RNN_RELU": "rnn_relu"}[layer.mode]
    parts = layer.num_layers * (1 + layer.bidirectional)
    found = Counter(targets(graph))
    assert found[name] == parts
    assert found[f"{name}_backward"] == (parts if training else 0)
    weights = sum(p.numel() for n, p in layer.named_parameters() if n.startswith("weight"))
    forward = sum(op.flops for op in graph.operators if op.target == f"partita.{name}.default")
    assert forward == 2 * 32 * weights
    result = next(
        t
        for t in graph.tensors
        if t.producer is not None and graph.operators[t.producer].target == f"partita.{name}.default"
    )
    assert result.shape[-1] == 32


def test_sparse_inputs_are_refused() -> None:
    rows = torch.sparse_coo_tensor(torch.zeros(2, 5, dtype=torch.long), torch.ones(5), (1_000_000, 64))
    with pytest.raises(TraceError, match="input 'input0' is a sparse_coo tensor"):
        trace(Applied(lambda m, x: torch.sparse.mm(x, m.linear.weight)), (rows,))


def test_tensors_made_of_others_are_refused() -> None:
    from torch.testing._internal.two_tensor import TwoTensor

    model = Applied(lambda m, x: m.linear(x))
    model.linear.weight = nn.Parameter(TwoTensor(torch.zeros(64, 64), torch.zeros(64, 64)))
    with pytest.raises(TraceError, match=r"parameter 'linear\.weight' is a TwoTensor"):
        trace(model, (torch.zeros(8, 64),))


def test_packed_weights_are_refused() -> None:
    model = torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.Linear(64, 64)), {nn.Linear})
    with pytest.raises(TraceError, match=r"module '0' .*packed weights"):
        trace(model, (torch.zeros(8, 64),))


def test_integer_products_are_counted() -> None:
    def function(m: Any, x: Any) -> Any:
        return torch._int_mm(x.to(torch.int8), m.linear.weight.to(torch.int8))

    assert traced(function, 32, 64).flops == 2 * 32 * 64 * 64


SOURCE = """
    import torch
    from torch import nn

    def rates():
        depths = [x.item() for x in torch.linspace(0, 0.1, 4)]
        assert depths[3] > 0.09
        return nn.Sequential(*(nn.Dropout(p) for p in depths), nn.Linear(50_000, 50_000)), (torch.zeros(1, 50_000),)

    def orthogonal():
        return nn.utils.parametrizations.orthogonal(nn.Linear(16, 16)), (torch.zeros(2, 16),)

    def too_large():
        return nn.utils.parametrizations.orthogonal(nn.Linear(50_000, 50_000)), (torch.zeros(2, 50_000),)

    def elsewhere():
        return nn.Linear(16, 16).to("cuda:0").half(), (torch.zeros(2, 16, device="cuda").half(),)
"""


class TestBuilding:
    @pytest.fixture
    def file(self, tmp_path):
        path = tmp_path / "nets.py"
        path.write_text(textwrap.dedent(SOURCE))
        return path

    def test_rows_of_rates_are_read_without_making_weights(self, file) -> None:
        assert load_model(f"{file}:rates").parameter_bytes == 4 * 50_000 * 50_001

    def test_small_models_are_built_for_real_where_values_matter(self, file) -> None:
        assert "addmm" in targets(load_model(f"{file}:orthogonal"))

    def test_large_ones_are_not(self, file) -> None:
        with pytest.raises(InputError, match="values cannot be read"):
            load_model(f"{file}:too_large")

    def test_devices_named_by_the_callable(self, file) -> None:
        graph = load_model(f"{file}:elsewhere")
        assert [op.dtype for op in graph.operators] == ["float16"]
