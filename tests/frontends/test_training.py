"""Joint forward and backward graphs of small modules."""

# ruff: noqa: E402 -- the imports follow the check that torch is there
from __future__ import annotations

import math
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the PyTorch frontend needs torch")

from torch import nn
from torch.nn import functional as F

from frontends.helpers import check_training, eager_flops, find, produced_by, targets, tensor
from partita.frontends.torch import trace
from partita.ground.errors import TraceError


class Two(nn.Module):
    """Two products with a loss of their own."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 16, bias=False)
        self.b = nn.Linear(16, 4, bias=False)

    def forward(self, x):
        return self.b(torch.tanh(self.a(x))).sum()


def test_backward_operators_share_the_device_of_their_forward_ones() -> None:
    graph = trace(Two(), (torch.zeros(2, 8),), training=True)
    check_training(graph)
    assert targets(graph)[:4] == ["mm", "tanh", "mm", "sum"]
    # b: gradients of its weight and of its input; a: of its weight only, as x needs none.
    assert [(n, op.colocation, op.module) for n, op in zip(targets(graph)[4:], graph.operators[4:], strict=True)] == [
        ("mm", 2, "b"),
        ("mm", 2, "b"),
        ("tanh_backward", 1, ""),
        ("mm", 0, "a"),
    ]
    assert graph.training
    assert graph.notes == ()


def test_saved_tensors_have_backward_consumers() -> None:
    graph = trace(Two(), (torch.zeros(2, 8),), training=True)
    # x for a's weight gradient; tanh's result for b's and for its own derivative; what a makes is not kept.
    assert tensor(graph, "input0").consumers == (0, 7)
    assert tensor(graph, "tanh").consumers == (2, 4, 6)
    assert tensor(graph, "mm").consumers == (1,)


def test_weights_are_read_again_in_backward() -> None:
    graph = trace(Two(), (torch.zeros(2, 8),), training=True)
    assert {p.name: p.users for p in graph.parameters} == {"a.weight": (0,), "b.weight": (2, 5)}


def test_gradients_are_named_and_sized_like_their_parameters() -> None:
    graph = trace(Two(), (torch.zeros(2, 8),), training=True)
    gradient = tensor(graph, "grad:a.weight")
    assert (gradient.producer, gradient.shape, gradient.bytes) == (7, (16, 8), 512)


def test_a_surrogate_loss_is_noted() -> None:
    graph = trace(nn.Linear(4, 4), (torch.zeros(2, 4),), training=True)
    assert any("sum of the means" in note for note in graph.notes)
    check_training(graph)


def test_tied_weights_add_their_gradients_on_one_device() -> None:
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(10, 4)
            self.head = nn.Linear(4, 10, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, i):
            return F.cross_entropy(self.head(torch.tanh(self.embed(i))), i)

    graph = trace(Tied(), (torch.zeros(3, dtype=torch.long),), training=True)
    check_training(graph)
    gradient = tensor(graph, "grad:embed.weight")
    total = graph.operators[gradient.producer]
    assert total.target == "aten.add.Tensor"
    parts = [t for t in graph.tensors if gradient.producer in t.consumers]
    # Both partial gradients are full tables, 10·4·4 bytes, one from the head and one from the embedding.
    assert [t.bytes for t in parts] == [160, 160]
    makers = [graph.operators[t.producer].module for t in parts]
    assert sorted(makers) == ["embed", "head"]
    assert total.module in makers


def test_fused_attention_saves_what_kernels_save() -> None:
    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv = nn.Linear(32, 96)

        def forward(self, x):
            q, k, v = self.qkv(x).view(2, 10, 3, 4, 8).permute(2, 0, 3, 1, 4)
            return F.scaled_dot_product_attention(q, k, v, dropout_p=0.1, is_causal=True)

    graph = trace(Attention(), (torch.zeros(2, 10, 32),), training=True)
    check_training(graph)
    forward, _ = find(graph, "scaled_dot_product_attention")
    backward, op = find(graph, "scaled_dot_product_attention_backward", "backward")
    assert op.colocation == forward
    saved = {t.name: t.bytes for t in graph.tensors if backward in t.consumers and t.producer <= forward}
    # Query, key, value and result are 2·4·10·8·4 = 2560 bytes, the log-sum-exp 2·4·10·4 = 320; no 10 × 10 matrix.
    assert sorted(saved.values()) == [320, 2560, 2560, 2560, 2560]
    # Two products forward, four backward, of 2·(2·4·10)·10·8 each.
    assert (graph.operators[forward].flops, op.flops) == (2 * 12800, 4 * 12800)
    assert graph.flops == eager_flops(Attention(), (torch.zeros(2, 10, 32),), training=True)


def test_a_learned_attention_bias_gets_its_gradient() -> None:
    class Biased(nn.Module):
        def __init__(self):
            super().__init__()
            self.bias = nn.Parameter(torch.zeros(1, 2, 6, 6))

        def forward(self, x):
            return F.scaled_dot_product_attention(x, x, x, attn_mask=self.bias)

    graph = trace(Biased(), (torch.zeros(3, 2, 6, 4),), training=True)
    check_training(graph)
    backward, op = find(graph, "scaled_dot_product_attention_backward", "backward")
    # Only the scores' gradient is needed: one product of 2·(3·2·6)·6·4.
    assert op.flops == 2 * 36 * 6 * 4
    assert tensor(graph, "grad:bias").producer == backward


def test_dropout_keeps_its_mask() -> None:
    class Dropped(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(8, 8)

        def forward(self, x):
            return F.dropout(self.a(x), 0.5, self.training)

    graph = trace(Dropped(), (torch.zeros(4, 8),), training=True)
    index, _ = find(graph, "native_dropout")
    # 32 numbers and a mask of 32 booleans, which only the backward reads.
    mask = produced_by(graph, index)[1]
    assert (mask.dtype, mask.bytes) == ("bool", 32)
    assert [graph.operators[c].phase for c in mask.consumers] == ["backward"]
    assert targets(trace(Dropped(), (torch.zeros(4, 8),))) == ["addmm"]


def test_backwards_of_views_stay_with_the_viewed_value() -> None:
    class Split(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(8, 16)
            self.scale = nn.Parameter(torch.ones(1))

        def forward(self, x):
            left, right = self.a(x).chunk(2, -1)
            return torch.tanh(left) * torch.exp(right) * self.scale

    graph = trace(Split(), (torch.zeros(4, 8),), training=True)
    check_training(graph)
    joins = [op for op in graph.operators if op.phase == "backward" and "cat" in op.target]
    assert [op.module for op in joins] == ["a"]


def test_every_kind_of_gradient_has_an_operator() -> None:
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.shift = nn.Parameter(torch.zeros(4))
            self.twin = nn.Parameter(torch.zeros(4))
            self.both = nn.Parameter(torch.zeros(8))

        def forward(self, x):
            # The gradients of shift and twin are one array, and constant; those of `both` come in halves.
            return (torch.relu(x * self.both[:4]) + x * self.both[4:] + self.shift + self.twin).sum()

    check_training(trace(Odd(), (torch.zeros(4),), training=True))


def test_frozen_parameters_get_no_gradient() -> None:
    module = Two()
    module.a.requires_grad_(False)
    graph = trace(module, (torch.zeros(2, 8),), training=True)
    check_training(graph)
    assert {p.name: p.trainable for p in graph.parameters} == {"a.weight": False, "b.weight": True}
    assert [t.name for t in graph.tensors if t.name.startswith("grad:")] == ["grad:b.weight"]


def test_a_used_parameter_without_gradient_is_an_error() -> None:
    class Cut(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(4, 4)
            self.b = nn.Linear(4, 4)

        def forward(self, x):
            return self.b(self.a(x).detach())

    with pytest.raises(TraceError, match=r"parameter 'a\.weight' is used \(by aten\.addmm.* gets no gradient"):
        trace(Cut(), (torch.zeros(2, 4),), training=True)


def test_training_without_anything_to_train_is_an_error() -> None:
    with pytest.raises(TraceError, match="requires a gradient, but the model has none"):
        trace(nn.ReLU(), (torch.zeros(2),), training=True)

    class Constant(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(2, 2)

        def forward(self, x):
            return x.sum()

    with pytest.raises(TraceError, match="does not depend on any trainable parameter"):
        trace(Constant(), (torch.zeros(2),), training=True)


def test_recomputation_is_traced_where_it_happens() -> None:
    from torch.utils.checkpoint import checkpoint

    class Checkpointed(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(8, 8)
            self.b = nn.Linear(8, 8)

        def forward(self, x):
            return self.b(checkpoint(lambda y: torch.tanh(self.a(y)), x, use_reentrant=False)).square().sum()

    graph = trace(Checkpointed(), (torch.zeros(2, 8),), training=True)
    check_training(graph)
    # a and tanh run again in the backward: what tanh made is kept only as the input of b.
    assert targets(graph).count("tanh") == 2
    late = [graph.operators[c] for c in tensor(graph, "tanh").consumers if graph.operators[c].phase == "backward"]
    assert [(op.target, op.module) for op in late] == [("aten.mm.default", "b")]


def test_in_place_calls_keep_their_backward_at_home() -> None:
    class Normalised(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(4, 4)
            self.b = nn.Linear(4, 4)
            self.scale = Scale()

        def forward(self, x):
            return self.b(self.scale(torch.exp(self.a(x))))

    class Scale(nn.Module):
        def forward(self, y):
            y = y * 2
            y /= y.sum(-1, keepdim=True)
            return y

    graph = trace(Normalised(), (torch.zeros(2, 4),), training=True)
    check_training(graph)
    quotient = [op.module for op in graph.operators if op.phase == "backward" and op.target == "aten.div.Tensor"]
    assert quotient
    assert set(quotient) == {"scale"}


def test_products_and_attention_say_what_they_are() -> None:
    class Model(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(32, 48)

        def forward(self, x: Any) -> Any:
            q = self.linear(x).view(2, 16, 4, 12).transpose(1, 2)
            y = nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True)
            z = nn.functional.scaled_dot_product_attention(q, q, q)
            return nn.functional.silu(torch.bmm((y + z).flatten(0, 1), q.flatten(0, 1).transpose(1, 2))).mean()

    found = trace(Model(), (torch.zeros(2, 16, 32),), training=True)
    products = [op.product for op in found.operators if op.phase == "forward" and op.product is not None]
    assert products == [(1, 32, 48, 32), (8, 16, 16, 12)]
    for op in found.operators:
        if op.product is not None:
            assert op.flops == 2 * math.prod(op.product)
    causal = [op.causal for op in found.operators if op.target.startswith("aten.scaled_dot_product_attention.")]
    assert causal == [True, False]
    backward = [op.causal for op in found.operators if "attention_backward" in op.target]
    assert sorted(backward) == [False, True]
    # One kernel, not the recipe that PyTorch has for devices without it.
    assert sum(op.target.startswith("aten.silu_backward") for op in found.operators) == 1


def test_products_say_along_which_dimensions_rows_lie() -> None:
    model = nn.Sequential(nn.Linear(8, 16, bias=False), nn.Tanh(), nn.Linear(16, 4, bias=False), nn.Softmax(-1))
    graph = trace(model, (torch.zeros(2, 8),), training=True)
    found = [(op.product, op.consecutive) for op in graph.operators if op.product is not None]
    # Forward and for the input's gradient what is multiplied lies along rows; for a weight's gradient, of 4 × 16 and
    # 16 × 8, what comes first is read the other way round.
    assert sorted(found) == sorted(
        [
            ((1, 2, 16, 8), "kn"),
            ((1, 2, 4, 16), "kn"),
            ((1, 4, 16, 2), "mn"),
            ((1, 2, 16, 4), "kn"),
            ((1, 16, 8, 2), "mn"),
        ]
    )


def test_compiled_models_are_known() -> None:
    model = nn.Linear(4, 4)
    assert trace(torch.compile(model), (torch.zeros(2, 4),)).compiled
    assert not trace(model, (torch.zeros(2, 4),)).compiled
