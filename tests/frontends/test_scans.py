"""Recurrences and scans: one operator each, with the arithmetic of their own code."""

# ruff: noqa: E402 -- the imports follow the check that torch is there
from __future__ import annotations

import sys
import types

import pytest

torch = pytest.importorskip("torch", reason="the PyTorch frontend needs torch")

from torch import nn

from frontends.helpers import check_training, eager_flops, find, produced_by, targets
from partita.frontends.torch import trace

LENGTH = 48


def scan_of_products(x: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A recurrence h = tanh(h W + x), step by step."""
    state = torch.zeros_like(x[:, 0])
    rows = []
    for t in range(x.shape[1]):
        state = torch.tanh(state @ weight + x[:, t])
        rows.append(state)
    return torch.stack(rows, 1), state


def short_loop(x: torch.Tensor) -> torch.Tensor:
    """Too few operators for a scan."""
    for _ in range(3):
        x = torch.tanh(x)
    return x


def scan_in_place(x: torch.Tensor, cache: torch.Tensor) -> torch.Tensor:
    """Changes what it is handed."""
    rows = []
    for t in range(x.shape[1]):
        cache.add_(x[:, t])
        rows.append(torch.tanh(cache))
    return torch.stack(rows, 1)


class Scanning(nn.Module):
    """Two layers of one scan."""

    def __init__(self, width: int = 8):
        super().__init__()
        self.first, self.second = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x):
        x, _ = scan_of_products(x, self.first.weight)
        return scan_of_products(x, self.second.weight)[0]


@pytest.mark.parametrize("training", [False, True])
def test_a_function_that_loops_for_long_is_one_operator(training: bool) -> None:
    model, x = Scanning(), torch.zeros(2, LENGTH, 8)
    graph = trace(model, (x,), training=training)
    forward = [op for op in graph.operators if op.target == "partita.scan_of_products.default"]
    assert [op.flops for op in forward] == [2 * 2 * LENGTH * 8 * 8] * 2
    # No kernel is known for it: each step has a product, a sum and a tanh, and reads the weight anew.
    assert forward[0].launches == 3 * LENGTH + 2
    assert forward[0].bytes_read > LENGTH * 4 * 8 * 8
    assert graph.flops == eager_flops(Scanning(), (x,), training=training)
    if training:
        check_training(graph)
        backward = [op for op in graph.operators if op.target == "partita.scan_of_products_backward.default"]
        # The first layer's source needs no gradient, but every state but the first does.
        assert [op.colocation for op in backward] == [1, 0]
        assert len([t for t in graph.tensors if t.name.startswith("grad:")]) == 2
    else:
        assert len(graph.operators) == 2
    assert any("scan_of_products is one operator with the work of all its steps" in note for note in graph.notes)
    assert not hasattr(scan_of_products, "__wrapped__")


def test_short_loops_and_loops_that_change_arguments_stay_as_they_are() -> None:
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(8))

        def forward(self, x):
            return scan_in_place(short_loop(x * self.scale), torch.zeros(2, 8))

    graph = trace(Model(), (torch.zeros(2, 20, 8),))
    names = targets(graph)
    assert names[:4] == ["mul", "tanh", "tanh", "tanh"]
    assert "scan_in_place" not in names
    assert names.count("add_") == 20


def test_methods_that_scan_are_whole_with_the_weights_that_they_read() -> None:
    class Mixer(nn.Module):
        def __init__(self):
            super().__init__()
            self.decay = nn.Parameter(torch.ones(8))
            self.mix = nn.Parameter(torch.ones(8, 8))

        def run_scan(self, x):
            state = x.new_zeros(x.shape[0], 8)
            rows = []
            for t in range(x.shape[1]):
                state = torch.sigmoid(self.decay) * state + x[:, t]
                rows.append(state @ self.mix)
            return torch.stack(rows, 1)

        def forward(self, x):
            return self.run_scan(x)

    x = torch.zeros(2, LENGTH, 8)
    graph = trace(Mixer(), (x,), training=True)
    check_training(graph)
    index, op = find(graph, "run_scan")
    assert {p.name for p in graph.parameters if index in p.users} == {"decay", "mix"}
    assert op.flops == 2 * 2 * LENGTH * 8 * 8
    assert graph.flops == eager_flops(Mixer(), (x,), training=True)


def test_a_method_with_layers_of_its_own_is_not_whole() -> None:
    class Stack(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(80))

        def run_layers(self, x):
            for index in range(len(self.layers)):
                x = self.layers[index](x)
            return x

        def forward(self, x):
            return self.run_layers(x)

    assert targets(trace(Stack(), (torch.zeros(2, 8),))) == ["addmm"] * 80


def test_equal_calls_are_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from partita.frontends import scans

    tried = []
    real = scans.try_out

    def counted(*args):
        tried.append(args)
        return real(*args)

    monkeypatch.setattr(scans, "try_out", counted)
    trace(Scanning(), (torch.zeros(2, LENGTH, 8),))
    assert len(tried) == 1


class Stepped(nn.Module):
    """A recurrence handed to torch as a scan."""

    def __init__(self):
        super().__init__()
        self.inner, self.mix = nn.Linear(8, 8), nn.Parameter(torch.ones(8, 8))

    def forward(self, x):
        from torch._higher_order_ops.scan import scan

        def step(state, row):
            state = torch.tanh(state @ self.mix + row)
            return state, state * 2

        last, rows = scan(step, x.new_zeros(x.shape[0], 8), self.inner(x), dim=1, reverse=True)
        return rows + last[:, None]


@pytest.mark.parametrize("training", [False, True])
def test_a_scan_is_one_operator_with_all_its_steps(training: bool) -> None:
    graph = trace(Stepped(), (torch.zeros(2, LENGTH, 8),), training=training)
    index, op = find(graph, "scan")
    one = 2 * 2 * 8 * 8
    assert (op.flops, op.launches) == (LENGTH * one, 4 * LENGTH)
    assert {p.name for p in graph.parameters if index in p.users and not p.buffer} == {"mix"}
    assert {t.shape for t in produced_by(graph, index)} == {(2, 8), (2, LENGTH, 8)}
    if training:
        check_training(graph)
        _, backward = find(graph, "scan_backward", "backward")
        # A step's weight gradient and its state's.
        assert (backward.flops, backward.colocation) == (2 * LENGTH * one, index)


def test_an_associative_scan_is_one_operator() -> None:
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(8, 16)

        def forward(self, x):
            from torch._higher_order_ops.associative_scan import associative_scan

            def join(left, right):
                return left[0] * right[0], right[0] * left[1] + right[1]

            return associative_scan(join, self.inner(x).chunk(2, -1), dim=1)[1]

    graph = trace(Model(), (torch.zeros(2, LENGTH, 8),), training=True)
    check_training(graph)
    assert targets(graph)[:2] == ["addmm", "associative_scan"]
    assert [op.colocation for op in graph.operators if op.target == "partita.associative_scan_backward.default"] == [1]


def _module_of(text: str) -> types.ModuleType:
    made = types.ModuleType("scans_of_a_library")
    exec(text, vars(made))
    sys.modules[made.__name__] = made
    return made


def test_a_decorator_that_names_a_kernel_makes_a_short_function_one_call() -> None:
    text = """
import functools
import torch

def kernel(func_name, package):
    def decorator(function):
        @functools.wraps(function)
        def wrapped(*args, **kwargs):
            (func_name, package)
            return function(*args, **kwargs)
        return wrapped
    return decorator

@kernel("causal_products", "some_kernels")
def slow_products(x, w):
    return torch.tanh(x @ w) @ w

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.ones(8, 8))

    def forward(self, x):
        return slow_products(x, self.w)
"""
    made = _module_of(text)
    try:
        graph = trace(made.Model(), (torch.zeros(4, 8),))
    finally:
        del sys.modules[made.__name__]
    assert targets(graph) == ["causal_products"]
    assert graph.operators[0].flops == 2 * 2 * 4 * 8 * 8
    # It reads its inputs once, and writes its result.
    assert graph.operators[0].launches == 1
    assert (graph.operators[0].bytes_read, graph.operators[0].bytes_written) == (4 * (4 * 8 + 8 * 8), 4 * 4 * 8)


SMALL = {
    "mamba": {"num_hidden_layers": 2, "hidden_size": 32, "state_size": 4, "vocab_size": 99},
    "mamba2": {
        "num_hidden_layers": 2,
        "hidden_size": 32,
        "state_size": 8,
        "num_heads": 8,
        "head_dim": 8,
        "n_groups": 2,
        "chunk_size": 16,
        "vocab_size": 99,
    },
    "rwkv": {"num_hidden_layers": 2, "hidden_size": 32, "attention_hidden_size": 32, "vocab_size": 99},
    "recurrent_gemma": {
        "num_hidden_layers": 3,
        "hidden_size": 32,
        "lru_width": 32,
        "intermediate_size": 96,
        "num_attention_heads": 2,
        "vocab_size": 99,
    },
    "qwen3_next": {
        "num_hidden_layers": 4,
        "hidden_size": 32,
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
        "linear_key_head_dim": 8,
        "linear_value_head_dim": 8,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "intermediate_size": 48,
        "moe_intermediate_size": 16,
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "shared_expert_intermediate_size": 16,
        "vocab_size": 99,
    },
}


@pytest.mark.parametrize(
    ("training", "kind"),
    [
        pytest.param(training, kind, marks=[pytest.mark.slow] if training and kind == "rwkv" else [])
        for training in (False, True)
        for kind in sorted(SMALL)
    ],
)
def test_scans_of_transformers_models_are_one_operator_a_layer(
    kind: str, training: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("transformers", reason="hf: models need transformers")
    from contextlib import nullcontext

    from partita.frontends import loops, run
    from partita.frontends.models import load_model

    fields = {name: str(value) for name, value in SMALL[kind].items()}
    given = {"set_fields": fields, "sequence_length": 40, "dtype": "bfloat16", "training": training}
    whole = load_model(f"hf:{kind}", **given)
    names = {
        op.target for op in whole.operators if op.target.startswith("partita.") and op.target != "partita.slice.default"
    }
    scan = {
        "mamba": "selective_scan_fn",
        "mamba2": "mamba_chunk_scan_combined",
        "rwkv": "rwkv_linear_attention_cpu",
        "recurrent_gemma": "rnn_scan",
        "qwen3_next": "chunk_gated_delta_rule",
    }[kind]
    assert f"partita.{scan}.default" in names
    assert any(f"{scan} is taken as one kernel" in note for note in whole.notes)
    if training:
        check_training(whole)
        assert f"partita.{scan}_backward.default" in names
    # The same model step by step has the same arithmetic, but for products that nothing reads, and more operators.
    monkeypatch.setattr(run, "whole_scans", lambda module, recorder: nullcontext())
    monkeypatch.setattr(loops, "STEPS", 10**9)
    unrolled = load_model(f"hf:{kind}", **given)
    assert unrolled.flops <= whole.flops <= 1.02 * unrolled.flops
    assert len(whole.operators) < len(unrolled.operators)
    ends = [[(t.shape, t.dtype) for t in graph.tensors if not t.consumers] for graph in (whole, unrolled)]
    assert sorted(ends[0]) == sorted(ends[1])
