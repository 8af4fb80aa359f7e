"""A model in pieces computes what it computes whole, wherever its operators are."""

# ruff: noqa: E402 -- the imports follow the check that torch is there
from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="the runner needs torch")

from partita.errors import InputError
from partita.frontends.models import load_module
from partita.frontends.tape import Tape
from partita.frontends.torch import trace_calls
from partita.runtime.pieces import bytes_of, make_pieces
from partita.runtime.places import place_calls
from runtime.plans import in_a_row, run_pieces, source

NAMES = ("tied", "tricky", "unet", "recurrent")


def check(found, *, gradients):
    assert found["outputs"]
    assert bool(found["gradients"]) == gradients
    for errors in found.values():
        assert max(errors.values(), default=0.0) < 1e-5


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("training", [False, True])
def test_a_row_of_stages_computes_the_same(name, training):
    check(run_pieces(source(name, training=training), 3, lambda graph: in_a_row(graph, 3)), gradients=training)


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(NAMES), st.booleans(), st.randoms(use_true_random=False))
def test_any_assignment_computes_the_same(name, training, random):
    def anyhow(graph):
        together = {}
        found = {}
        for v, op in enumerate(graph.operators):
            if op.phase == "forward":
                # What is written in place shares a device, as in every plan.
                root = v if op.colocation is None else op.colocation
                stage = together.setdefault("norm" if op.module == "norm" or op.module == "deep.1" else root, None)
                if stage is None:
                    stage = random.randrange(3)
                    together["norm" if op.module in ("norm", "deep.1") else root] = stage
                found[v] = stage
        return found

    check(run_pieces(source(name, training=training), 3, anyhow), gradients=training)


def pieces_of(name, assign, stages=2):
    model = load_module(source(name))
    tape = Tape()
    graph, capture, calls = trace_calls(model.module, model.args, model.kwargs, True, tape=tape)
    stage_of = {calls[v]: s for v, s in assign(graph).items() if calls[v] is not None}
    constant, modules = [c.constant for c in capture.calls], [c.module for c in capture.calls]
    return graph, tape, make_pieces(place_calls(tape, constant, modules, stage_of, stages))


def test_only_the_slices_that_are_read_are_sent():
    """Of a product that is cut in three the other stage reads one part and sends it alone."""

    def last_third(graph):
        reader = next(v for v, op in enumerate(graph.operators) if op.target.startswith("aten.mul") and op.module == "")
        return {v: int(v >= reader) for v, op in enumerate(graph.operators) if op.phase == "forward"}

    graph, tape, pieces = pieces_of("tricky", last_third)
    product = next(t for t in graph.tensors if t.name == "addmm" or t.shape == (4, 24))
    moved = bytes_of(tape, pieces[1].receives[0])
    assert product.bytes <= moved <= 3 * product.bytes


def test_a_tied_weight_is_read_on_both_stages():
    _, _, pieces = pieces_of("tied", lambda graph: in_a_row(graph, 2))
    assert all("embed.weight" in piece.arrays for piece in pieces)


def test_a_value_that_is_read_late_goes_straight_to_its_reader():
    _, _, pieces = pieces_of("unet", lambda graph: in_a_row(graph, 4), 4)
    assert len(pieces) == 4
    assert any(target - from_ > 1 for target, piece in enumerate(pieces) for from_ in piece.receives)


def test_an_array_that_is_written_and_read_apart_is_refused():
    class Counter(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(4))

        def forward(self, x):
            self.count.add_(x.mean())
            return (x * 2).sin() + self.count

    tape = Tape()
    _graph, capture, calls = trace_calls(Counter(), (torch.ones(4),), tape=tape)
    stage_of = {call: int(place > 1) for place, call in enumerate(calls) if call is not None}
    constant, modules = [c.constant for c in capture.calls], [c.module for c in capture.calls]
    with pytest.raises(InputError, match="count"):
        place_calls(tape, constant, modules, stage_of, 2)
