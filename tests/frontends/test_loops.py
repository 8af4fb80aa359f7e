"""Loops that programs step through: one operator each, with the work of all steps."""

# ruff: noqa: E402 -- the imports follow the check that torch is there
from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="the PyTorch frontend needs torch")

from torch import nn

from frontends.helpers import check_training, eager_flops, produced_by, targets
from partita.frontends.loops import STEPS
from partita.frontends.torch import trace

#: Little more than is needed for folding.
LENGTH = STEPS + 3


def scan_of_products(x: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A recurrence h = tanh(h W + x), step by step."""
    state = torch.zeros_like(x[:, 0])
    rows = []
    for t in range(x.shape[1]):
        state = torch.tanh(state @ weight + x[:, t])
        rows.append(state)
    return torch.stack(rows, 1), state


class Cells(nn.Module):
    """A program that steps through its sequence with cells."""

    def __init__(self, kind: str, layers: int = 2):
        super().__init__()
        self.cells = nn.ModuleList(getattr(nn, kind)(16, 16) for _ in range(layers))
        self.head = nn.Linear(16, 5)
        self.pair = kind == "LSTMCell"

    def forward(self, x):
        for cell in self.cells:
            state = x.new_zeros(x.shape[0], 16)
            state = (state, state) if self.pair else state
            rows = []
            for t in range(x.shape[1]):
                state = cell(x[:, t], state)
                rows.append(state[0] if self.pair else state)
            x = torch.stack(rows, 1)
        return self.head(x)


@pytest.mark.parametrize("kind", ["LSTMCell", "GRUCell", "RNNCell"])
@pytest.mark.parametrize("training", [False, True])
def test_a_loop_over_time_is_one_operator_for_each_layer(kind: str, training: bool) -> None:
    x = torch.zeros(2, LENGTH, 16)
    graph = trace(Cells(kind), (x,), training=training)
    loops = [(i, op) for i, op in enumerate(graph.operators) if op.target == "partita.loop.default"]
    forward = [(i, op) for i, op in loops if op.phase == "forward"]
    assert [op.module for _, op in forward] == ["cells.0", "cells.1"]
    for index, op in forward:
        # Its weights are read by it alone forward; each step launches its kernels.
        mine = {p.name for p in graph.parameters if index in p.users}
        assert mine == {f"{op.module}.{n}" for n in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")}
        assert op.launches > 3 * LENGTH
        gates = {"LSTMCell": 4, "GRUCell": 3, "RNNCell": 1}[kind]
        assert op.flops == 2 * 2 * LENGTH * 2 * gates * 16 * 16
        # Every step reads the weights.
        assert op.bytes_read > LENGTH * 4 * 2 * gates * 16 * 16
    assert graph.flops == eager_flops(Cells(kind), (x,), training=training)
    assert len(graph.tensors) < 40
    assert any(f"of {LENGTH} steps" in note or f"of {LENGTH - 1} steps" in note for note in graph.notes)
    if training:
        check_training(graph)
        backward = [op.colocation for _, op in loops if op.phase == "backward"]
        assert backward == [forward[1][0], forward[0][0]]
        # What a loop keeps for its backward is one tensor.
        saved = [t for t in produced_by(graph, forward[0][0]) if t.dtype == "uint8"]
        assert len(saved) == 1
        assert saved[0].bytes >= LENGTH * 2 * 16 * 4
        heads = [op for op in graph.operators if op.module == "head" and op.phase == "backward"]
        assert len([op for op in heads if op.flops]) == 2
    else:
        assert len(graph.operators) == 3


def test_loops_over_layers_with_weights_of_their_own_are_not_folded() -> None:
    model = nn.Sequential(*[nn.Sequential(nn.Linear(8, 8), nn.ReLU()) for _ in range(2 * STEPS)])
    assert len(trace(model, (torch.zeros(2, 8),)).operators) == 4 * STEPS


def test_equal_branches_side_by_side_are_not_folded() -> None:
    class Branches(nn.Module):
        def __init__(self):
            super().__init__()
            self.one = nn.Linear(8, 8)

        def forward(self, xs):
            return torch.stack([torch.tanh(self.one(x)) for x in xs])

    graph = trace(Branches(), ([torch.zeros(2, 8) for _ in range(2 * STEPS)],))
    assert targets(graph).count("addmm") == 2 * STEPS


def test_a_state_written_in_place_keeps_its_home() -> None:
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("total", torch.zeros(8))
            self.w = nn.Parameter(torch.ones(8, 8))

        def forward(self, x):
            state = x[0]
            for t in range(x.shape[0]):
                state = torch.tanh(state @ self.w + x[t])
                self.total.add_(state.sum(0))
            return state + self.total

    graph = trace(Counting(), (torch.zeros(2 * STEPS, 2, 8),))
    assert [name for name in targets(graph) if name != "slice"] == ["loop"]
    (index,) = (i for i, name in enumerate(targets(graph)) if name == "loop")
    assert {p.name for p in graph.parameters if index in p.users} == {"w", "total"}


def test_a_cost_of_many_launches_is_that_of_each() -> None:
    from partita.costs.roofline import Roofline
    from partita.nouns.catalogue.loader import load_catalogue

    graph = trace(Cells("RNNCell"), (torch.zeros(2, LENGTH, 16),))
    loop = graph.operators[0]
    device = load_catalogue().device("A100-80GB")
    assert Roofline().time_s(loop, device) >= loop.launches * device.launch_overhead_s


def test_the_steps_of_a_while_loop_are_counted_where_they_are_known() -> None:
    class Model(nn.Module):
        def __init__(self, known: bool):
            super().__init__()
            self.inner, self.known = nn.Linear(8, 8), known

        def forward(self, x):
            from torch._higher_order_ops.while_loop import while_loop

            def goes_on(count, x):
                return count < 40 if self.known else self.inner(x).sum() < 40

            def step(count, x):
                return count + 1, torch.tanh(self.inner(x))

            return while_loop(goes_on, step, (torch.tensor(0), x))[1]

    x = torch.zeros(2, 20, 8)
    graph = trace(Model(True), (x,))
    assert targets(graph) == ["loop"]
    assert graph.flops == 40 * 2 * 40 * 8 * 8
    unknown = trace(Model(False), (x,))
    assert targets(unknown) == ["addmm", "tanh"]
    assert any("number of steps depends on data" in note for note in unknown.notes)


def test_what_is_folded_can_be_run_from_its_trace() -> None:
    from partita.frontends.tape import Tape
    from partita.frontends.torch import trace_calls

    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.mix = nn.Parameter(torch.ones(16, 16))
            self.cells = Cells("GRUCell", 1)

        def forward(self, x):
            return self.cells(scan_of_products(x, self.mix)[0])

    tape = Tape()
    graph, _, calls = trace_calls(Both(), (torch.zeros(2, LENGTH, 16),), tape=tape)
    assert targets(graph) == ["scan_of_products", "loop", "addmm"]
    made = [entry for entry in tape.entries if entry.call == calls[0]]
    assert len(made) == 1
    x, weight = torch.randn(2, LENGTH, 16), torch.randn(16, 16)
    assert torch.equal(made[0].func(x, weight)[0], scan_of_products(x, weight)[0])
    # All calls of the loop are placed with it.
    assert len([entry for entry in tape.entries if entry.call == calls[1]]) >= 10 * LENGTH
