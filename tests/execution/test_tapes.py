"""Tapes written by hand: where calls go, what pieces hand each other, and that programs compute what the tape does."""

# ruff: noqa: E402 -- the imports follow the check that torch is there
from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from instances.strategies import examples

torch = pytest.importorskip("torch", reason="the runner needs torch")

from execution.plans import bytes_of
from partita.execution.draws import seeder
from partita.execution.pieces import HandedTensor, PlanPiece, make_pieces
from partita.execution.places import ANYWHERE, NOWHERE, PlacedTape, place_calls
from partita.execution.program import CompiledPiece, compile_piece, draws, widened
from partita.frontends.capture import KEEPS_LAYERS
from partita.frontends.tape import Origin, Ref, Slot, Tape, TapedCall
from partita.ground.errors import InputError


class Hand(Tape):
    """A tape that is written by hand; every call has a number of its own, views have none."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[bool, str]] = []
        self.storages = 0

    def add(self, shape: tuple[int, ...], storage: int | None = None) -> int:
        """A tensor, on a storage of its own unless one is named."""
        if storage is None:
            storage = self.storages
            self.storages += 1
        self.slots.append(Slot(storage, shape, (1,) * len(shape), torch.float32))
        return len(self.slots) - 1

    def given(self, kind: str, name: str = "", value: Any = None, shape: tuple[int, ...] = (4,)) -> int:
        """What is there before the first call."""
        slot = self.add(shape)
        self.origins[slot] = Origin(kind, name, value)
        return slot

    def write(self, func: Any, *args: Any, outs: tuple[int, ...], writes: tuple[int, ...] = (), **flags: Any) -> None:
        """An entry; ``view``, ``constant``, ``module`` and ``random`` say more."""
        call = None
        if not flags.get("view"):
            call = len(self.calls)
            self.calls.append((flags.get("constant", False), flags.get("module", f"m{call}")))
        reads = tuple(slot for slot in args if isinstance(slot, Ref))
        self.entries.append(
            TapedCall(
                func=func, args=args, kwargs={}, single=True, outs=outs, reads=tuple(ref.slot for ref in reads),
                writes=writes, call=call, grad=True, random=flags.get("random", False),
            )
        )  # fmt: skip

    def mixed(self, a: int, b: int, **flags: Any) -> int:
        """a + the sum of b, as a new tensor."""
        out = self.add(self.slots[a].shape)
        self.write(_mix, Ref(a), Ref(b), outs=(out,), **flags)
        return out

    def half(self, a: int) -> int:
        """A view of the first half."""
        out = self.add((self.slots[a].shape[0] // 2,), self.slots[a].storage)
        self.write(_half, Ref(a), outs=(out,), view=True)
        return out

    def raised(self, a: int, b: int, **flags: Any) -> int:
        """a, with the sum of b added in place."""
        self.write(_raise, Ref(a), Ref(b), outs=(a,), writes=(a,), **flags)
        return a

    def placed(self, stage_of: dict[int, int], stages: int) -> PlacedTape:
        return place_calls(self, [c for c, _ in self.calls], [m for _, m in self.calls], stage_of, stages)

    def run(self, inputs: dict[str, Any], arrays: dict[str, Any]) -> list[Any]:
        """The results, one call after the other."""
        values: dict[int, Any] = {}
        for slot, origin in self.origins.items():
            found = inputs[origin.name] if origin.kind == "input" else arrays.get(origin.name, origin.value)
            values[slot] = found.clone()
        for entry in self.entries:
            values[entry.outs[0]] = entry.func(
                *(values[ref.slot] if isinstance(ref, Ref) else ref for ref in entry.args)
            )
        return [values[slot] for slot in self.outputs]


def _mix(a: Any, b: Any) -> Any:
    return a + b.sum()


def _half(a: Any) -> Any:
    return a[: len(a) // 2]


def _raise(a: Any, b: Any) -> Any:
    return a.add_(b.sum())


def run_pieces(pieces: list[PlanPiece], programs: list[CompiledPiece], inputs: dict[str, Any]) -> dict[int, Any]:
    """Outputs by place, of pieces one after the other."""
    made: list[dict[HandedTensor, Any]] = []
    outputs: dict[int, Any] = {}
    for piece, program in zip(pieces, programs, strict=True):
        received = [made[other][piece.receives[other][place]] for other, place in program.receives]
        beat = [0]
        kept, found, loss = program.run(received, inputs, seeder(0, 0), beat)
        assert loss is None
        assert beat[0] == sum(line.what == "call" and not line.constant for line in piece.lines)
        made.append({tensor: value.clone() for tensor, value in zip(piece.kept, kept, strict=True)})
        outputs |= found
    return outputs


@st.composite
def tapes(draw: st.DrawFn) -> tuple[Hand, dict[int, int]]:
    """A few calls on whole tensors and views, some in place, and the stages of most of them."""
    tape = Hand()
    there = [tape.given("input", "x"), tape.given("parameter", "w"), tape.given("constant", value=torch.arange(4.0))]
    steady = {1}
    for _ in range(draw(st.integers(1, 12))):
        sort = draw(st.sampled_from(["mixed", "mixed", "half", "half", "raised"]))
        a, b = (draw(st.sampled_from(there)) for _ in range(2))
        if sort == "half" and tape.slots[a].shape[0] > 1:
            there.append(tape.half(a))
        elif sort == "raised" and tape.slots[a].storage not in steady:
            tape.raised(a, b, constant=draw(st.booleans()))
        else:
            there.append(tape.mixed(a, b, constant=draw(st.booleans())))
    tape.outputs = draw(st.lists(st.sampled_from(there[3:] or there), min_size=1, max_size=2))
    known = {call: draw(st.integers(0, 2)) for call in range(len(tape.calls)) if draw(st.integers(0, 4)) > 0}
    return tape, known


@examples(600)
@given(tapes(), st.lists(st.integers(-3, 3), min_size=8, max_size=8))
def test_pieces_compute_what_the_tape_does(made: tuple[Hand, dict[int, int]], numbers: list[int]) -> None:
    tape, stage_of = made
    x, w = torch.tensor(numbers, dtype=torch.float32).split(4)
    placed = tape.placed(stage_of, 3)
    assert placed.pieces == 3 * placed.rounds
    for entry, place in zip(tape.entries, placed.place, strict=True):
        if place >= 0 and entry.call in stage_of:
            assert place % 3 == stage_of[entry.call]
    pieces = make_pieces(placed)
    programs = [compile_piece(tape, piece, {"w": w}, training=False) for piece in pieces]
    wanted = tape.run({"x": x}, {"w": w})
    for _ in range(2):
        found = run_pieces(pieces, programs, {"x": x})
        assert [found[place].tolist() for place in range(len(wanted))] == [each.tolist() for each in wanted]
    # Nobody sends to an earlier piece, everything that is sent arrives, and nothing is sent twice.
    for number, piece in enumerate(pieces):
        for other, tensors in piece.receives.items():
            assert other < number
            assert len(set(tensors)) == len(tensors)
            assert pieces[other].sends[number] == tensors
        assert all(number in pieces[other].receives for other in piece.sends)
        assert ("w" in piece.arrays) == any(line.what == "origin" and line.slot == 1 for line in piece.lines)


def test_a_later_stage_that_is_waited_for_begins_another_round() -> None:
    tape = Hand()
    x = tape.given("input", "x")
    first = tape.mixed(x, x)
    second = tape.mixed(first, first)
    tape.outputs = [tape.mixed(second, first)]
    placed = tape.placed({0: 0, 1: 1, 2: 0}, 2)
    assert (placed.rounds, placed.pieces) == (2, 4)
    assert placed.place == [0, 1, 2]
    row = tape.placed({0: 0, 1: 0, 2: 1}, 2)
    assert (row.rounds, row.place) == (1, [0, 0, 1])


def test_what_the_plan_does_not_place() -> None:
    """Views and constants are made anywhere, what nothing needs nowhere, other calls where their module works."""
    tape = Hand()
    x, c = tape.given("input", "x"), tape.given("constant", value=torch.ones(4))
    table = tape.mixed(c, c, constant=True)
    made = tape.mixed(x, table, module="norm")
    view = tape.half(made)
    tape.mixed(made, made)
    again = tape.mixed(view, made, module="norm")
    beside = tape.mixed(again, again, module="other")
    noise = tape.mixed(c, c, constant=True, random=True)
    tape.outputs = [tape.mixed(beside, noise)]
    # Calls are counted without the view: 1 is the one of the norm, 3 another of it, and 4 is placed like its input.
    placed = tape.placed({1: 1, 6: 2}, 3)
    assert placed.place == [ANYWHERE, 1, ANYWHERE, NOWHERE, 1, 1, 0, 2]


def test_an_array_that_two_stages_use_is_not_written() -> None:
    for apart in (False, True):
        tape = Hand()
        x, w = tape.given("input", "x"), tape.given("buffer", "count")
        tape.raised(w, x)
        tape.outputs = [tape.mixed(x, w)]
        if apart:
            with pytest.raises(
                InputError, match="buffer 'count' is written on one stage and used on another, stages 0, 1"
            ):
                tape.placed({0: 0, 1: 1}, 2)
        else:
            assert tape.placed({0: 1, 1: 1}, 2).place == [1, 1]


def test_only_what_is_needed_of_a_tensor_is_sent() -> None:
    """Of 8 numbers the first 2 are read elsewhere: these go, unless all of it is needed, too."""
    for whole in (False, True):
        tape = Hand()
        x = tape.given("input", "x", shape=(8,))
        made = tape.mixed(x, x)
        quarter = tape.half(tape.half(made))
        last = tape.mixed(quarter, quarter)
        tape.outputs = [tape.mixed(last, made) if whole else last]
        pieces = make_pieces(tape.placed({0: 0, 1: 1, 2: 1}, 2))
        (sent,) = pieces[1].receives[0]
        assert sent == HandedTensor(made if whole else quarter, 0)
        assert bytes_of(tape, pieces[0].kept) == (32 if whole else 8)
        programs = [compile_piece(tape, piece, {}, training=False) for piece in pieces]
        x_value = torch.arange(8.0)
        assert torch.equal(run_pieces(pieces, programs, {"x": x_value})[0], tape.run({"x": x_value}, {})[0])


def test_a_loss_is_where_it_is_made() -> None:
    tape = Hand()
    x = tape.given("input", "x")
    first = tape.mixed(x, x)
    tape.loss = tape.mixed(first, first)
    tape.outputs = [first]
    pieces = make_pieces(tape.placed({0: 0, 1: 1}, 2))
    assert [piece.loss for piece in pieces] == [None, tape.loss]
    assert [piece.outputs for piece in pieces] == [{0: first}, {}]
    programs = [compile_piece(tape, piece, {}, training=False) for piece in pieces]
    kept, found, none = programs[0].run([], {"x": torch.ones(4)}, seeder(0, 0), [0])
    assert none is None
    assert programs[1].run(kept, {}, seeder(0, 0), [0])[2].tolist() == [25.0] * 4
    assert found[0].tolist() == [5.0] * 4


def test_what_many_read_is_sent_to_each() -> None:
    """In two versions, of which the first is read by one stage and the second, written there, by another."""
    tape = Hand()
    x = tape.given("input", "x")
    made = tape.mixed(x, x)
    early = tape.mixed(made, made)
    tape.raised(made, x)
    late = tape.mixed(made, early)
    tape.outputs = [late, made]
    pieces = make_pieces(tape.placed({0: 0, 1: 1, 2: 1, 3: 2}, 3))
    assert [line.what for line in pieces[1].lines if line.what != "origin"] == [
        "receive",
        "own",
        "call",
        "call",
        "keep",
        "keep",
    ]
    assert set(pieces[2].receives) == {1}
    assert pieces[2].receives[1] == [HandedTensor(made, 1), HandedTensor(early, 0)]
    programs = [compile_piece(tape, piece, {}, training=False) for piece in pieces]
    lines = [line.strip() for line in programs[1].source.splitlines()]
    assert {f"t{made} = t{made}.clone()", f"e{made}_1 = t{made}"} <= set(lines)
    x_value = torch.arange(4.0)
    found = run_pieces(pieces, programs, {"x": x_value})
    assert [found[place].tolist() for place in range(2)] == [each.tolist() for each in tape.run({"x": x_value}, {})]


def test_draws_are_counted_and_floats_are_widened() -> None:
    tape = Hand()
    x = tape.given("input", "x")
    out = tape.add((4,))
    tape.write(lambda a: torch.rand_like(a), Ref(x), outs=(out,), random=True)
    other = tape.mixed(out, out)
    again = tape.add((4,))
    tape.write(lambda a: a + torch.rand(4), Ref(other), outs=(again,), random=True)
    tape.outputs = [again]
    assert draws(tape) == {0: 0, 2: 1}
    (piece,) = make_pieces(tape.placed({}, 1))
    program = compile_piece(tape, piece, {}, training=False)
    seed, numbers = seeder(3, 1), []
    _, found, _ = program.run([], {"x": torch.zeros(4)}, lambda number: (numbers.append(number), seed(number)), [0])
    assert numbers == [0, 1]
    seed(0)
    first = torch.rand(4)
    seed(1)
    assert torch.equal(found[0], first + first.sum() + torch.rand(4))
    assert widened(torch.bfloat16) is torch.float32
    assert widened(torch.float64) is torch.float64
    assert widened(torch.ones(2, dtype=torch.float16)).dtype is torch.float32
    assert widened(torch.ones(2, dtype=torch.int8)).dtype is torch.int8
    assert widened("word") == "word"


def test_arguments_of_all_sorts() -> None:
    """Plain ones stand in the text, tensors in lists and tuples too, everything else has a name; floats are widened."""
    seen: list[Any] = []

    def record(*args: Any, **kwargs: Any) -> tuple[Any, Any, Any]:
        seen.append((args, kwargs))
        return args[0] + 1, "no tensor", args[0] + 2, args[0] + 3

    tape = Hand()
    x = tape.given("input", "x")
    first, second, unread = tape.add((4,)), tape.add((4,)), tape.add((4,))
    nested = [Ref(x), (Ref(x), 1.5)]
    args = (Ref(x), nested, (Ref(x),), [1, 2], (None, True), None, True, 7, 0.25, "word", torch.bfloat16)
    entry = TapedCall(
        func=record, args=args, kwargs={"other": Ref(x), "size": 3}, single=False, outs=(first, None, second, unread),
        reads=(x,), writes=(), call=0, grad=True, random=False,
    )  # fmt: skip
    tape.calls.append((False, "m"))
    tape.entries.append(entry)
    last = tape.mixed(first, second)
    tape.outputs = [last]
    (piece,) = make_pieces(tape.placed({0: 0, 1: 0}, 1))
    program = compile_piece(tape, piece, {}, training=False)
    value = torch.ones(4)
    _, found, _ = program.run([], {"x": value}, seeder(0, 0), [0])
    assert found[0].tolist() == [14.0] * 4
    ((given, named),) = seen
    assert given[0] is value
    assert (given[1][0] is value, given[1][1][0] is value, given[1][1][1]) == (True, True, 1.5)
    assert isinstance(given[1], list)
    assert isinstance(given[2], tuple)
    assert given[2][0] is value
    assert given[3:] == ([1, 2], (None, True), None, True, 7, 0.25, "word", torch.float32)
    assert named == {"other": value, "size": 3}
    assert "None, True, 7," in program.source
    # Each tensor is let go after its last reader, or at once without one; results are not.
    freed = [line.strip() for line in program.source.splitlines() if "del " in line]
    assert freed == [f"del t{x}, t{unread}", f"del t{first}, t{second}"]


def test_a_single_number_keeps_layers() -> None:
    tape = Hand()
    out = tape.add(())
    tape.write(torch.ops.aten.rand.default, [], outs=(out,), random=True)
    wide = tape.add((2,))
    tape.write(torch.ops.aten.rand.default, [2], outs=(wide,), random=True)
    tape.outputs = [out, wide]
    (piece,) = make_pieces(tape.placed({}, 1))
    _, found, _ = compile_piece(tape, piece, {}, training=False).run([], {}, seeder(0, 0), [0])
    assert float(found[0]) == KEEPS_LAYERS
    seeder(0, 0)(1)
    assert torch.equal(found[1], torch.rand(2))


def test_what_is_written_is_copied_first() -> None:
    """Inputs and what was received, where it is written; what goes to others, where it will be."""
    tape = Hand()
    x = tape.given("input", "x")
    tape.raised(x, x)
    made = tape.mixed(x, x)
    read = tape.mixed(made, made)
    tape.raised(made, x)
    tape.outputs = [made, read]
    pieces = make_pieces(tape.placed({0: 0, 1: 0, 2: 1, 3: 0}, 2))
    programs = [compile_piece(tape, piece, {}, training=False) for piece in pieces]
    texts = [program.source for program in programs]
    assert f"t{x} = inputs['x'].clone()" in texts[0]
    assert f"e{made}_0 = t{made}.clone()" in texts[0]
    assert "clone" not in texts[1]
    value = torch.ones(4)
    found = run_pieces(pieces, programs, {"x": value})
    assert value.tolist() == [1.0] * 4
    assert [found[place].tolist() for place in range(2)] == [each.tolist() for each in tape.run({"x": value}, {})]


def test_gradients_are_off_where_they_were() -> None:
    tape = Hand()
    w = tape.given("parameter", "w")
    first = tape.mixed(w, w)
    tape.entries[-1].grad = False
    tape.outputs = [tape.mixed(first, w)]
    (piece,) = make_pieces(tape.placed({0: 0, 1: 0}, 1))
    weight = torch.ones(4, requires_grad=True)
    for training in (False, True):
        program = compile_piece(tape, piece, {"w": weight}, training=training)
        assert ("set_grad(False)" in program.source) == training
        weight.grad = None
        _, found, _ = program.run([], {}, seeder(0, 0), [0])
        found[0].sum().backward()
        assert weight.grad.tolist() == ([4.0] * 4 if training else [9.0] * 4)
