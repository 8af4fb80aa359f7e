"""A model in pieces computes what it computes whole, wherever its operators are."""

# ruff: noqa: E402 -- the imports follow the check that torch is there
from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="the runner needs torch")

from execution.plans import bytes_of, in_a_row, run_pieces, source
from partita.execution.draws import seeder
from partita.execution.pieces import make_pieces
from partita.execution.places import place_calls
from partita.execution.program import compile_piece
from partita.frontends.models import load_module
from partita.frontends.tape import Tape
from partita.frontends.torch import trace_calls
from partita.ground.errors import InputError

NAMES = ("tied", "tricky", "unet", "recurrent", "shifted")


def check(found, *, gradients):
    assert found["outputs"]
    assert bool(found["gradients"]) == gradients
    for errors in found.values():
        assert max(errors.values(), default=0.0) < 1e-5


@pytest.mark.parametrize("name", [*NAMES, "noisy"])
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


def pieces_of_module(module, x, stage):
    """The tape and pieces of a module, whose operators are on the stage that a function of their target says."""
    tape = Tape()
    graph, capture, calls = trace_calls(module, (x,), tape=tape)
    stage_of = {calls[v]: stage(op.target) for v, op in enumerate(graph.operators) if calls[v] is not None}
    constant, modules = [c.constant for c in capture.calls], [c.module for c in capture.calls]
    return tape, make_pieces(place_calls(tape, constant, modules, stage_of, 2))


def test_only_the_slices_that_are_read_are_sent():
    class Cut(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Linear(8, 24)

        def forward(self, x):
            a, _, c = self.inner(x).chunk(3, dim=-1)
            return a.sin(), c.cos()

    tape, pieces = pieces_of_module(Cut(), torch.ones(4, 8), lambda target: int("cos" in target))
    assert bytes_of(tape, pieces[1].receives[0]) == 4 * 8 * 4
    tape, pieces = pieces_of_module(Cut(), torch.ones(4, 8), lambda target: int("mm" not in target))
    assert bytes_of(tape, pieces[1].receives[0]) == 2 * 4 * 8 * 4


def test_what_is_overwritten_later_is_sent_as_it_was():
    class Later(torch.nn.Module):
        def forward(self, x):
            y = x * 3
            z = y.sin()
            y.mul_(2)
            return y, z

    tape, pieces = pieces_of_module(Later(), torch.ones(4), lambda target: int("sin" in target))
    programs = [compile_piece(tape, piece, {}, training=False) for piece in pieces]
    x = torch.ones(4)
    kept, first, _ = programs[0].run([], {"input0": x}, seeder(0, 0), [0])
    _, second, _ = programs[1].run(list(kept), {"input0": x}, seeder(0, 0), [0])
    assert torch.equal(first[0], torch.full((4,), 6.0))
    assert torch.equal(second[1], torch.full((4,), 3.0).sin())


def test_every_draw_has_its_own_seed():
    def drawn(seed, microbatch, number):
        seeder(seed, microbatch)(number)
        return float(torch.rand(()))

    assert drawn(0, 1, 2) == drawn(0, 1, 2)
    assert len({drawn(0, 0, 0), drawn(0, 0, 1), drawn(0, 1, 0), drawn(1, 0, 0)}) == 4


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
