"""Modules as users write them: each is traced with its FLOPs, or refused naming module, cause and remedy."""

# ruff: noqa: E402 -- the imports follow the check that torch is there
from __future__ import annotations

import copy
import textwrap
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the PyTorch frontend needs torch")

from torch import nn
from torch.nn import functional
from torch.nn.utils import parametrizations
from torch.utils.checkpoint import checkpoint, checkpoint_sequential
from torch.utils.flop_counter import FlopCounterMode

from frontends.helpers import check_training, targets
from partita.frontends.models import load_model
from partita.frontends.run import loss_of
from partita.frontends.surroundings import BRANCH_NOTE
from partita.frontends.torch import trace
from partita.ground.errors import TraceError

X = torch.zeros(8, 64)
EDGES = torch.tensor([[0, 1, 2, 3, 4, 5, 6, 7, 0, 1], [1, 2, 3, 4, 5, 6, 7, 0, 4, 4]])


class Applied(nn.Module):
    """A product of 64 features, and what a function makes of it and its inputs."""

    def __init__(self, function: Callable[..., Any], **children: Any) -> None:
        super().__init__()
        self.function, self.linear = function, nn.Linear(64, 64)
        for name, child in children.items():
            setattr(self, name, child)

    def forward(self, *inputs: Any) -> Any:
        return self.function(self, *inputs)


def eager(module: nn.Module, inputs: tuple[Any, ...], training: bool) -> int:
    """FLOPs that torch counts of a real run."""
    module = copy.deepcopy(module)
    if module.training != training:
        module.train(training)
    with FlopCounterMode(display=False) as counter, torch.set_grad_enabled(training):
        out = module(*inputs)
        if training:
            loss_of(out)[0].backward()
    return int(counter.get_total_flops())


class Swish(torch.autograd.Function):
    """x W σ(x W), whose product is not kept."""

    @staticmethod
    def forward(ctx: Any, x: Any, weight: Any) -> Any:
        ctx.save_for_backward(x, weight)
        y = x @ weight
        return y * y.sigmoid()

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        x, weight = ctx.saved_tensors
        y = x @ weight
        grad = grad * y.sigmoid() * (1 + y * (1 - y.sigmoid()))
        return grad @ weight.T, x.T @ grad


class Largest(torch.autograd.Function):
    """The four largest numbers of a row and their places, which have no gradient."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        values, places = x.topk(4)
        ctx.mark_non_differentiable(places)
        ctx.save_for_backward(places)
        ctx.shape = x.shape
        return values, places

    @staticmethod
    def backward(ctx: Any, grad: Any, _: Any) -> Any:
        (places,) = ctx.saved_tensors
        return torch.zeros(ctx.shape).scatter(1, places, grad)


class ForwardOnly(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x.abs()


class Rounded(torch.autograd.Function):
    """A straight-through estimator, written with ``setup_context``."""

    @staticmethod
    def forward(x: Any) -> Any:
        return x.round()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad


class Averaged(nn.Module):
    """A running mean of its own beside a batch norm's, and a counter."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(64, 64), nn.BatchNorm1d(64)
        self.register_buffer("mean", torch.zeros(64))
        self.register_buffer("steps", torch.tensor(0))

    def forward(self, x: Any) -> Any:
        y = self.linear(x)
        if self.training:
            self.mean.mul_(0.9).add_(y.detach().mean(0), alpha=0.1)
            self.steps += 1
        if self.steps < 3:
            y = self.linear(y)
        return self.norm(y - self.mean)


def attend(y: Any) -> Any:
    q = y.view(1, 4, 8, 16)
    return functional.scaled_dot_product_attention(q, q, q, dropout_p=0.1).reshape(8, 64)


def message(m: Any, x: Any, edges: Any) -> Any:
    h = m.linear(x)
    sent = h[edges[0]] * m.score(torch.cat([h[edges[0]], h[edges[1]]], -1)).sigmoid()
    added = torch.zeros_like(h).scatter_add(0, edges[1][:, None].expand_as(sent), sent)
    degree = torch.bincount(edges[1], minlength=8).clamp(min=1)
    largest = torch.zeros_like(h).scatter_reduce(0, edges[1][:, None].expand_as(sent), sent, "amax")
    return h + added / degree[:, None] + torch.zeros_like(h).index_add_(0, edges[1], sent) + largest


def warp(m: Any, x: Any) -> Any:
    y = m.conv(x)
    grid = functional.affine_grid(m.linear(y.flatten(1)[:, :64])[:, :6].view(-1, 2, 3), y.shape, align_corners=False)
    y = functional.grid_sample(y, grid, align_corners=False)
    return functional.pixel_shuffle(functional.interpolate(y, scale_factor=2, mode="bicubic"), 2)


def fold(m: Any, x: Any) -> Any:
    y = m.linear(functional.unfold(x, 4, stride=4).transpose(1, 2)).transpose(1, 2)
    return functional.fold(y, (16, 16), 4, stride=4)


def experts(m: Any, x: Any) -> Any:
    weights, chosen = m.gate(x).softmax(-1).topk(2)
    out = torch.zeros_like(x)
    for number, expert in enumerate(m.experts):
        rows, slot = torch.where(chosen == number)
        out.index_add_(0, rows, expert(x[rows]) * weights[rows, slot][:, None])
    return out


def penalty(m: Any, x: Any) -> Any:
    with torch.enable_grad():
        y = m.linear(x).tanh().sum()
        (gradient,) = torch.autograd.grad(y, m.linear.weight, create_graph=True)
    return y + gradient.pow(2).sum()


def rotary(m: Any, x: Any) -> Any:
    angles = torch.polar(torch.ones(8, 32), torch.arange(8.0)[:, None] * torch.arange(32.0))
    return torch.view_as_real(torch.view_as_complex(m.linear(x).view(8, 32, 2)) * angles).flatten(1)


def ctc(m: Any, x: Any, labels: Any) -> Any:
    scores = m.linear(x).log_softmax(-1)
    return functional.ctc_loss(scores, labels, torch.full((2,), 12), torch.tensor([3, 5]))


def packed(m: Any, x: Any, lengths: Any) -> Any:
    rows = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    return m.linear(nn.utils.rnn.pad_packed_sequence(m.rnn(rows)[0], batch_first=True)[0])


def formats(m: Any, x: Any) -> Any:
    narrow = (x.bfloat16() @ m.linear.weight.bfloat16()).float()
    return m.linear(x).double() @ m.wide.weight + narrow.sum(-1, keepdim=True).double() + x.long().sum()


def hooked() -> nn.Module:
    module = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 32))
    module[0].register_forward_hook(lambda child, inputs, out: out.relu())
    module[1].register_forward_pre_hook(lambda child, inputs: (inputs[0] @ module[0].weight,))
    module[1].register_full_backward_hook(lambda child, before, after: None)
    module[1].weight.register_hook(lambda grad: grad * 2)
    return module


def shared() -> nn.Module:
    module = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64))
    module[2].weight = module[0].weight
    return module


def plain() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 10))


def of(function: Callable[..., Any], *inputs: Any, **children: Any) -> Callable[[], tuple[nn.Module, tuple[Any, ...]]]:
    return lambda: (Applied(function, **children), inputs or (X,))


def alone(build: Callable[[], nn.Module], *inputs: Any) -> Callable[[], tuple[nn.Module, tuple[Any, ...]]]:
    return lambda: (build(), inputs or (X,))


SEQUENCE = torch.zeros(4, 10, 64)
LENGTHS = torch.tensor([10, 3, 7, 5])
IMAGES = torch.zeros(2, 4, 16, 16)
IDS = torch.arange(20)

#: Whose FLOPs are those that torch counts of a real run, forward and in training.
COUNTED = {
    "checkpoints in a row": of(
        lambda m, x: checkpoint_sequential(m.row, 2, m.linear(x), use_reentrant=False), row=nn.Sequential(*plain()[:3])
    ),
    "a function with its own gradient": of(lambda m, x: Swish.apply(m.linear(x), m.linear.weight)),
    "a result without a gradient": of(lambda m, x: Largest.apply(m.linear(x))[0]),
    "a straight-through estimator": of(lambda m, x: m.linear(Rounded.apply(m.linear(x)))),
    "a compiled child": of(lambda m, x: m.child(m.linear(x)), child=torch.compile(nn.Linear(64, 32))),
    "a compiled function": of(lambda m, x: torch.compile(lambda y, w: (y @ w).relu())(x, m.linear.weight)),
    "weight norm": of(lambda m, x: m.child(x), child=parametrizations.weight_norm(nn.Linear(64, 32))),
    "an orthogonal weight": of(
        lambda m, x: m.child(x), child=parametrizations.orthogonal(nn.Linear(64, 64), orthogonal_map="cayley")
    ),
    "fake quantisation": of(
        lambda m, x: functional.linear(torch.fake_quantize_per_tensor_affine(x, 0.1, 0, -128, 127), m.linear.weight)
    ),
    "several number formats": of(formats, wide=nn.Linear(64, 64, dtype=torch.float64)),
    "a Fourier transform": of(
        lambda m, x: torch.fft.irfft(torch.fft.rfft(m.linear(x)) * m.filter),
        filter=nn.Parameter(torch.zeros(33, dtype=torch.complex64)),
    ),
    "complex rotations": of(rotary),
    "messages along edges": of(message, X, EDGES, score=nn.Linear(128, 1)),
    "sums of segments": of(
        lambda m, x, sizes: torch.segment_reduce(m.linear(x), "sum", lengths=sizes, axis=0), X, torch.tensor([3, 5])
    ),
    "bags of embeddings": of(
        lambda m, ids, starts: m.linear(m.bag(ids, starts)),
        IDS,
        torch.tensor([0, 5, 12]),
        bag=nn.EmbeddingBag(100, 64, mode="sum"),
    ),
    "a map over samples": of(lambda m, x: torch.vmap(m.linear)(x)),
    "a map over weights": of(lambda m, x: torch.vmap(lambda w: x @ w)(m.w), w=nn.Parameter(torch.zeros(3, 64, 32))),
    "a call with other weights": of(
        lambda m, x: torch.func.functional_call(m.linear, {"weight": m.linear.weight * 2}, (x,))
    ),
    "a gradient in the loss": of(penalty),
    "hooks": alone(hooked),
    "a shared weight": alone(shared),
    "a route by name": of(lambda m, x: m.ways["b"](x), ways=nn.ModuleDict({"a": plain(), "b": nn.Linear(64, 32)})),
    "buffers written in place": alone(Averaged),
    "an Einstein sum": of(lambda m, x: torch.einsum("bi,oi,ko->bk", x, m.linear.weight, m.linear.weight)),
    "patches": of(fold, IMAGES),
    "a warped image": of(warp, torch.zeros(2, 3, 8, 8), conv=nn.Conv2d(3, 8, 3, padding=1)),
    "the CTC loss": of(ctc, torch.zeros(12, 2, 64), torch.ones(2, 5, dtype=torch.long)),
    "distances": of(lambda m, x: torch.cdist(m.linear(x), m.linear.weight).topk(3).values.sort(-1).values),
    "distances of many": of(lambda m, x: torch.cdist(m.linear(x), m.linear.weight), torch.zeros(40, 64)),
    "experts": of(
        experts, torch.zeros(32, 64), gate=nn.Linear(64, 4), experts=nn.ModuleList(nn.Linear(64, 64) for _ in range(4))
    ),
    "lists of parameters": of(
        lambda m, x: sum(x @ p for p in m.row) + x @ m.by_name["w"],
        row=nn.ParameterList(nn.Parameter(torch.zeros(64, 32)) for _ in range(3)),
        by_name=nn.ParameterDict({"w": nn.Parameter(torch.zeros(64, 32))}),
    ),
    "a scripted module": alone(lambda: torch.jit.script(plain())),
    "a module traced by torch": alone(lambda: torch.jit.trace(nn.Sequential(nn.Linear(64, 64), nn.ReLU()), X)),
    "parts that run in parallel": of(lambda m, x: m.child(x), child=nn.DataParallel(nn.Linear(64, 32))),
    "a softmax by frequency": of(
        lambda m, x, labels: m.head(x, labels).loss,
        X,
        torch.tensor([0, 120, 640, 3, 99, 501, 7, 999]),
        head=nn.AdaptiveLogSoftmaxWithLoss(64, 1000, [100, 500]),
    ),
    "a system of equations": of(
        lambda m, x: torch.linalg.solve(m.linear.weight @ m.linear.weight.T + torch.eye(64), x.T)
    ),
    "an image with its channels last": of(
        lambda m, x: m.conv(x.to(memory_format=torch.channels_last)), IMAGES, conv=nn.Conv2d(4, 8, 3)
    ),
    "images of several sizes": of(
        lambda m, rows: torch.cat([m.linear(r) for r in rows]), [torch.zeros(3, 64), torch.zeros(5, 64)]
    ),
    "labels to leave out": of(
        lambda m, x, labels: functional.cross_entropy(m.linear(x), labels), X, torch.tensor([1, 2, -100, 3, 4, 5, 6, 7])
    ),
    "weights written by hand": of(
        lambda m, x: (setattr(m.linear.weight, "data", m.linear.weight.data * 0.9), m.linear(x))[1]
    ),
    "a scripted child": of(lambda m, x: m.child(m.linear(x)), child=torch.jit.script(nn.Linear(64, 32))),
}


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", COUNTED)
def test_modules_whose_flops_torch_counts(name: str, training: bool) -> None:
    module, inputs = COUNTED[name]()
    graph = trace(module, inputs, training=training)
    assert graph.flops == eager(module, inputs, training) > 0
    if training:
        check_training(graph)


LINEAR = 2 * 8 * 64 * 64


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointed_attention_with_dropout_runs_again(reentrant: bool) -> None:
    def part(m: Any, y: Any) -> Any:
        return functional.dropout(attend(m.linear(y)), 0.1)

    again = Applied(lambda m, x: checkpoint(lambda y: part(m, y), m.linear(x), use_reentrant=reentrant))
    once = Applied(lambda m, x: part(m, m.linear(x)))
    attention = 2 * 2 * 4 * 8 * 8 * 16
    assert trace(again, (X,)).flops == trace(once, (X,)).flops == 2 * LINEAR + attention
    assert trace(again, (X,), training=True).flops - trace(once, (X,), training=True).flops == LINEAR + attention


def test_checkpoints_of_transformers() -> None:
    from transformers import GPT2Config, GPT2LMHeadModel

    module = GPT2LMHeadModel(GPT2Config(n_layer=2, n_embd=64, n_head=4, vocab_size=100))
    ids = torch.zeros(1, 16, dtype=torch.long)
    before, more = (trace(module, (), {"input_ids": ids, "labels": ids}, training=on) for on in (True, False))
    module.gradient_checkpointing_enable()
    after = trace(module, (), {"input_ids": ids, "labels": ids}, training=True)
    # All but the head, which is no part of a layer.
    assert after.flops - before.flops == more.flops - 2 * 16 * 64 * 100
    check_training(after)


def test_power_iterations_are_counted() -> None:
    module = Applied(lambda m, x: m.child(x), child=parametrizations.spectral_norm(nn.Linear(64, 32)))
    product, vector = 2 * 8 * 64 * 32, 2 * 64 * 32
    # The largest singular value takes a product with a vector; in training, an iteration takes two more.
    assert trace(module, (X,)).flops == product + vector
    graph = trace(module, (X,), training=True)
    check_training(graph)
    assert graph.flops == 2 * product + 3 * vector
    assert {"child.parametrizations.weight.original"} <= {p.name for p in graph.parameters if p.trainable}


def test_complex_products_are_four_real_ones() -> None:
    weight = nn.Parameter(torch.zeros(64, 32, dtype=torch.complex64))
    module = Applied(lambda m, x: torch.view_as_real((m.linear(x) + 0j) @ m.w).sum(-1), w=weight)
    assert trace(module, (X,)).flops == LINEAR + 4 * (2 * 8 * 64 * 32)
    assert trace(module, (X,)).parameter_bytes == 8 * 64 * 32 + 4 * 64 * 65


def test_integer_products_have_their_flops() -> None:
    rows = torch.zeros(32, 64, dtype=torch.int8)
    assert trace(Applied(lambda m, x: torch._int_mm(x, x.T)), (rows,)).flops == 2 * 32 * 64 * 32


def test_eight_bit_floats() -> None:
    def function(m: Any, x: Any) -> Any:
        one = torch.tensor(1.0)
        a, b = x.to(torch.float8_e4m3fn), m.linear.weight.to(torch.float8_e4m3fn).t()
        return torch._scaled_mm(a, b, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)

    graph = trace(Applied(function), (torch.zeros(32, 64),))
    assert [(op.flops, op.dtype) for op in graph.operators if op.flops] == [(2 * 32 * 64 * 64, "float8_e4m3fn")]


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_packed_sequences_multiply_their_rows(kind: Any) -> None:
    module = Applied(packed, rnn=kind(64, 32, num_layers=2, batch_first=True, bidirectional=True))
    graph = trace(module, (SEQUENCE, LENGTHS))
    assert graph.flops == eager(module, (SEQUENCE, LENGTHS), False)
    name = "rnn_tanh" if kind is nn.RNN else kind.__name__.lower()
    assert targets(graph).count(name) == 4
    weights = sum(p.numel() for n, p in module.rnn.named_parameters() if n.startswith("weight"))
    rows = int(LENGTHS.sum())
    assert sum(op.flops for op in graph.operators if op.target == f"partita.{name}.default") == 2 * rows * weights
    assert any("values of input 'input1'" in note for note in graph.notes)
    # As many padded steps cost more.
    assert trace(module, (SEQUENCE, torch.full((4,), 10))).flops > graph.flops
    training = trace(module, (SEQUENCE, LENGTHS), training=True)
    check_training(training)
    assert training.flops == pytest.approx(eager(module, (SEQUENCE, LENGTHS), True), rel=0.01)


def test_lengths_that_do_not_fit_are_refused() -> None:
    module = Applied(packed, rnn=nn.LSTM(64, 32, batch_first=True))
    with pytest.raises(TraceError, match=r"lengths \[12, 7, 5, 3\] do not go with 4 samples of 10 steps"):
        trace(module, (SEQUENCE, torch.tensor([12, 3, 7, 5])))


def test_a_branch_on_data_is_the_first_with_a_note() -> None:
    graph = trace(Applied(lambda m, x: torch.cond(x.sum() > 0, lambda y: m.linear(y), lambda y: y + 1, (x,))), (X,))
    assert graph.flops == LINEAR
    assert BRANCH_NOTE in graph.notes


def test_derivatives_in_forward() -> None:
    assert trace(Applied(lambda m, x: torch.func.jvp(m.linear, (x,), (x + 1,))[1]), (X,)).flops >= LINEAR
    gradient = Applied(lambda m, x: torch.func.grad(lambda y: m.linear(y).pow(2).sum())(x))
    assert trace(gradient, (X,)).flops == 2 * LINEAR
    check_training(trace(gradient, (X,), training=True))


def test_experts_have_their_share_and_say_so() -> None:
    module, inputs = COUNTED["experts"]()
    graph = trace(module, inputs)
    assert any("aten.nonzero picks 16 of 64 rows, their expected share" in note for note in graph.notes)


def test_rows_that_activations_pick_are_all_of_them() -> None:
    graph = trace(Applied(lambda m, x: m.linear(m.linear(x)[m.linear(x).sum(-1) > 0])), (X,))
    assert graph.flops == 3 * LINEAR
    assert any("all of the 8 rows" in note for note in graph.notes)


def test_numbers_within_a_range_that_code_reads() -> None:
    def crop(m: Any, x: Any) -> Any:
        box = m.linear(x)[:, :2].clamp(min=0, max=6)
        first, last = box[0].round().int().tolist()
        return m.linear(x[first:last])

    graph = trace(Applied(crop), (X,))
    assert [op.flops for op in graph.operators if op.flops] == [LINEAR * 6 // 8], "the box is the whole range"
    assert any("numbers that code limits to a range" in note for note in graph.notes)


def test_observers_that_are_off() -> None:
    from torch.ao import quantization

    module = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    module.qconfig = quantization.QConfig(
        activation=quantization.FakeQuantize.with_args(observer=quantization.MovingAverageMinMaxObserver),
        weight=quantization.default_weight_fake_quant,
    )
    prepared = quantization.prepare_qat(module.train())
    with pytest.raises(TraceError, match=r"module '0\.weight_fake_quant' .*depend on data.*take one way there"):
        trace(prepared, (X,))
    prepared.apply(quantization.disable_observer)
    graph = trace(prepared, (X,))
    assert graph.flops == LINEAR + 2 * 8 * 64 * 10
    assert sum("fake_quantize" in name for name in targets(graph)) == 4


SPARSE = torch.eye(8).to_sparse()


class Adjacent(nn.Module):
    def __init__(self, adjacency: Any) -> None:
        super().__init__()
        self.linear = nn.Linear(64, 64)
        self.register_buffer("adjacency", adjacency)

    def forward(self, x: Any) -> Any:
        return torch.sparse.mm(self.adjacency, self.linear(x))


class Lazy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.LazyLinear(10))

    def forward(self, x: Any) -> Any:
        return self.inner(x)


def jagged() -> Any:
    return torch.nested.nested_tensor([torch.zeros(3, 64), torch.zeros(5, 64)], layout=torch.jagged)


class Peeking(nn.Module):
    """Stops early where it is sure."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(64, 64)

    def forward(self, x: Any) -> Any:
        return x if self.linear(x).softmax(-1).max() > 0.9 else self.linear(x)


#: What is refused, with the module, the cause and the remedy that the message names.
REFUSED: list[tuple[str, Callable[[], Any], bool, list[str]]] = [
    ("a sparse buffer", alone(lambda: Adjacent(SPARSE)), False, ["'adjacency'", "sparse_coo", "index_add"]),
    (
        "a compressed buffer",
        alone(lambda: Adjacent(SPARSE.to_sparse_csr())),
        False,
        ["'adjacency'", "sparse_csr", "dense one"],
    ),
    (
        "a sparse product in forward",
        alone(lambda: nn.Sequential(Applied(lambda m, x: torch.sparse.mm(m.linear(x).to_sparse(), m.linear.weight)))),
        False,
        ["module '0' (Applied)", "sparse_coo", "use dense ones"],
    ),
    (
        "a sparse gradient",
        alone(
            lambda: nn.Sequential(nn.Embedding(100, 16, sparse=True), nn.Linear(16, 4)),
            torch.zeros(8, dtype=torch.long),
        ),
        True,
        ["backward of module '0' (Embedding)", "sparse_coo", "sparse=False"],
    ),
    ("a nested input", lambda: (nn.Linear(64, 64), (jagged(),)), False, ["'input0'", "nested", "padded one"]),
    (
        "a nested tensor in forward",
        alone(lambda: nn.Sequential(Applied(lambda m, x: m.linear(torch.nested.as_nested_tensor([x[:3], x[3:]]))))),
        False,
        ["module '0' (Applied)", "nested", "padded one"],
    ),
    ("a weight without a shape", alone(Lazy), False, ["'inner.0.weight'", "no shape", "call the module once"]),
    (
        "dynamic quantisation",
        alone(lambda: torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.Linear(64, 64)), {nn.Linear})),
        False,
        ["module '0'", "packed weights", "trace it unconverted"],
    ),
    (
        "a function without a gradient",
        of(lambda m, x: ForwardOnly.apply(m.linear(x))),
        True,
        ["backward of", "must implement either the backward"],
    ),
    (
        "numpy in forward",
        alone(lambda: nn.Sequential(Applied(lambda m, x: torch.from_numpy(m.linear(x).detach().numpy())))),
        False,
        ["module '0' (Applied)", "numpy reads the values", "compute with torch", "test_user_modules.py, line"],
    ),
    (
        "an early exit",
        alone(lambda: nn.Sequential(Peeking())),
        False,
        ["module '0' (Peeking)", "depend on data", "test_user_modules.py, line", "take one way there"],
    ),
    (
        "a loop that activations end",
        of(lambda m, x: [m.linear(x) for _ in range(int(m.linear(x).argmax(-1)[0]))]),
        False,
        ["root module (Applied)", "depend on data", "take one way there"],
    ),
]


@pytest.mark.parametrize(("name", "build", "training", "words"), REFUSED, ids=[row[0] for row in REFUSED])
def test_what_is_refused_is_one_line_with_a_remedy(name: str, build: Any, training: bool, words: list[str]) -> None:
    module, inputs = build()
    with pytest.raises(TraceError) as caught:
        trace(module, inputs, training=training)
    message = str(caught.value)
    assert "\n" not in message
    for word in words:
        assert word in message


def test_a_function_without_a_gradient_can_be_run_forward() -> None:
    assert trace(Applied(lambda m, x: ForwardOnly.apply(m.linear(x))), (X,)).flops == LINEAR


def test_operators_of_ones_own() -> None:
    @torch.library.custom_op("partita_tests::double", mutates_args=())
    def double(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    module = Applied(lambda m, x: double(m.linear(x)))
    with pytest.raises(TraceError, match=r"no fake impl registered.*register_fake"):
        trace(module, (X,))
    double.register_fake(torch.empty_like)
    graph = trace(module, (X,))
    assert [op.target for op in graph.operators] == ["aten.addmm.default", "partita_tests.double.default"]
    with pytest.raises(TraceError, match=r"backward .*no autograd formula was registered.*register_autograd"):
        trace(module, (X,), training=True)


SOURCE = """
    import torch
    from torch import nn

    def lazy():
        return nn.Sequential(nn.LazyLinear(32), nn.ReLU(), nn.LazyLinear(4)), (torch.zeros(2, 50),)

    def lazy_images():
        return nn.Sequential(nn.LazyConv2d(10, 3), nn.LazyBatchNorm2d()), torch.zeros(1, 3, 8, 8)

    class Half(nn.Module):
        def __init__(self):
            super().__init__()
            rates = [rate.item() for rate in torch.linspace(0, 0.5, 3)]
            assert rates == [0, 0.25, 0.5]
            widths = (torch.arange(3) * 8 + 16).tolist()
            count = int(torch.unique(torch.tensor([8, 16, 16, 24])).numel())
            self.layers = nn.ModuleList(nn.Linear(widths[0], width) for width in widths[:count])

        def forward(self, x):
            self.layers.half()
            return torch.cat([layer(x.to("cuda").half()) for layer in self.layers], -1)

    def half():
        return Half(), (torch.zeros(2, 16),)

    def doubtful():
        model = nn.Linear(4, 4)
        if not torch.isfinite(model.weight).all():
            raise ValueError("no numbers")
        return model, (torch.zeros(2, 4),)
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "nets.py"
    path.write_text(textwrap.dedent(SOURCE))
    return path


@pytest.mark.parametrize(("name", "count"), [("lazy", 51 * 32 + 33 * 4), ("lazy_images", 10 * 28 + 20)])
@pytest.mark.parametrize("training", [False, True])
def test_layers_that_take_their_size_from_the_first_call(file, name: str, count: int, training: bool) -> None:
    graph = load_model(f"{file}:{name}", training=training)
    assert graph.parameter_count == count
    assert graph.flops > 0


def test_sizes_read_in_a_constructor_and_conversions_in_forward(file) -> None:
    graph = load_model(f"{file}:half")
    assert graph.flops == 2 * 2 * 16 * (16 + 24 + 32)
    assert {op.dtype for op in graph.operators if op.flops} == {"float16"}


def test_a_constructor_that_looks_at_weights_gets_some(file) -> None:
    graph = load_model(f"{file}:doubtful")
    assert graph.flops == 2 * 2 * 4 * 4
    assert not graph.notes
