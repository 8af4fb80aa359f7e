"""Orders, messages, draws, memory and errors of a run, without its processes."""

# ruff: noqa: E402 -- the imports follow the check that torch is there
from __future__ import annotations

import itertools
import math
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="the runner needs torch")

from torch.nn import functional

from partita.execution import rank, wire
from partita.execution.draws import seeded, seeder
from partita.execution.host import SMALLEST, errors
from partita.execution.orders import Process, make_orders
from partita.execution.rank import Peak, in_use
from partita.execution.wire import TensorLayout, Wire
from partita.frontends.capture import KEEPS_LAYERS
from partita.frontends.tape import Slot
from partita.ground.errors import InputError, UnsupportedError
from partita.nouns.split import Split, StagePart
from partita.simulator.schedules.protocol import Action


def split_of(ranks: list[int], replicas: list[int] | int = 1, **fields: Any) -> Split:
    """Stages on these ranks."""
    counts = [replicas] * len(ranks) if isinstance(replicas, int) else replicas
    stages = tuple(
        StagePart(rank=rank, devices=("a",) * count, replicas=count) for rank, count in zip(ranks, counts, strict=True)
    )
    return Split(model="m", stages=stages, **fields)


def deep(field: str) -> Split:
    """Two stages, of which the second is split in another way."""
    split = split_of([0, 1])
    second = msgspec.structs.replace(split.stages[1], **{field: 2})
    return msgspec.structs.replace(split, stages=(split.stages[0], second))


# -- orders ------------------------------------------------------------------------------------------------------------


def passes(orders: Any, stages: int, microbatches: int) -> list[tuple[int, Action]]:
    """All actions in an order in which they can be done, with the process of each; fails if all wait for each other."""
    left = {process.number: list(process.actions) for process in orders.processes}
    done: set[tuple[int, str, int]] = set()
    found: list[tuple[int, Action]] = []

    def ready(action: Action) -> bool:
        stage, letter, microbatch = action
        if letter == "F":
            return stage == 0 or (stage - 1, "F", microbatch) in done
        needs = [(stage, "F", microbatch)] if letter in "BI" else [(stage, "I", microbatch)]
        if letter in "BI" and stage + 1 < stages:
            return needs[0] in done and any((stage + 1, other, microbatch) in done for other in "BI")
        return needs[0] in done

    while any(left.values()):
        able = [number for number, row in left.items() if row and ready(row[0])]
        assert able, "all wait"
        for number in able:
            action = left[number].pop(0)
            done.add(tuple(action))
            found.append((number, action))
    return found


@pytest.mark.parametrize("schedule", ["1f1b", "gpipe", "zero-bubble"])
@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize("times", [1, 2])
def test_every_microbatch_passes_all_stages(schedule: str, replicas: int, times: int) -> None:
    split = split_of([0, 1, 2], replicas, training=True, schedule=schedule)
    orders = make_orders(split, 1, 8, None, times)
    columns = replicas * times
    assert orders.schedule == schedule
    assert orders.replicas == (columns,) * 3
    assert orders.group_of == (0, 1, 2)
    assert [p.number for p in orders.processes] == list(range(3 * columns))
    found = passes(orders, 3, 8)
    for letter in "FB" if schedule != "zero-bubble" else "F":
        done = sorted((action.stage, action.microbatch) for _, action in found if action.letter == letter)
        assert done == list(itertools.product(range(3), range(8)))
    for number, action in found:
        assert orders.holder(action.stage, action.microbatch) == number
        assert action.stage in orders.processes[number].stages


def test_replicas_may_differ_from_stage_to_stage() -> None:
    orders = make_orders(split_of([0, 1], [1, 3], training=True), 1, 6, "1f1b")
    found = passes(orders, 2, 6)
    assert [orders.holder(1, m) for m in range(6)] == [1, 2, 3, 1, 2, 3]
    assert all(orders.holder(action.stage, action.microbatch) == number for number, action in found)
    assert len(found) == 2 * 2 * 6
    # The first stage is ahead by as many microbatches as there are replicas behind it, and itself.
    letters = ["".join(action.letter for action in process.actions) for process in orders.processes]
    assert letters == ["FFFFBFBFBBBB", "FBFB", "FBFB", "FBFB"]
    alone = make_orders(split_of([0], 2, training=True), 1, 4, "gpipe")
    assert [[str(action) for action in p.actions[:2]] for p in alone.processes] == [["0F0", "0F2"], ["0F1", "0F3"]]


@pytest.mark.parametrize("training", [False, True])
def test_rounds_run_in_waves(training: bool) -> None:
    """A later round of one microbatch beside an earlier one of the next; back in the opposite order."""
    split = split_of([0, 1], training=training, schedule="gpipe" if training else "forward")
    orders = make_orders(split, 2, 3, None)
    assert orders.group_of == (0, 1, 0, 1)
    assert orders.schedule == ("gpipe" if training else "forward")
    found = passes(orders, 4, 3)
    assert len(found) == (2 if training else 1) * 4 * 3
    forward = [str(action) for action in orders.processes[0].actions if action.letter == "F"]
    assert forward == ["0F0", "2F0", "0F1", "2F1", "0F2", "2F2"]
    backward = [str(action) for action in orders.processes[0].actions if action.letter == "B"]
    assert backward == [each.replace("F", "B") for each in reversed(forward)] * training
    # A rank without stages has no process.
    assert [p.group for p in make_orders(split_of([0, 2]), 2, 3, None).processes] == [0, 2]
    circle = split_of([0, 1], training=training, schedule="gpipe" if training else "forward", sequential=True)
    assert len(passes(make_orders(circle, 1, 3, None), 2, 3)) == (2 if training else 1) * 2 * 3


def test_chunks_share_processes() -> None:
    orders = make_orders(split_of([0, 1, 0, 1], training=True), 1, 4, "interleaved")
    assert [p.stages for p in orders.processes] == [(0, 2), (1, 3)]
    assert [p.label for p in orders.processes] == ["rank 0 (stages 0, 2)", "rank 1 (stages 1, 3)"]
    assert Process(3, 1, 0, (4,), ()).label == "rank 3 (stage 4)"
    assert len(passes(orders, 4, 4)) == 2 * 4 * 4


@pytest.mark.parametrize(
    ("split", "schedule", "microbatches", "rounds", "error", "message"),
    [
        (split_of([0, 1], 3), None, 2, 1, InputError, "2 microbatches are too few for 3 replicas"),
        (split_of([0, 1]), "1f1b", 2, 1, InputError, "not for inference, and this plan is; use forward"),
        (split_of([0, 1], training=True), "forward", 2, 1, InputError, "not for training, and this plan is; use 1f1b"),
        (split_of([0, 1], training=True), "pipedream", 2, 1, UnsupportedError, "no end of a batch"),
        (split_of([0, 1], training=True), "1f1b", 2, 2, InputError, "wait for each other in a circle"),
        (split_of([0, 1, 0, 1], training=True), "1f1b", 2, 1, InputError, "one stage on each rank"),
        (split_of([0, 0, 1, 1], training=True), "interleaved", 2, 1, InputError, "has stages on ranks .* has them on"),
        (split_of([0, 1], [1, 2], training=True), "zero-bubble", 2, 1, InputError, "as many replicas of every stage"),
        (split_of([0, 1], 2, training=True), "zero-bubble", 3, 1, InputError, "or a multiple of 2"),
        (split_of([0, 1, 0, 1], [1, 2, 1, 2], training=True), "1f1b", 2, 1, InputError, "one stage on each rank"),
        (split_of([0, 1, 1, 0], training=True, schedule="dualpipe-v"), None, 3, 1, InputError, "dualpipe-v"),
        (split_of([0, 1, 1, 0], 2, training=True, schedule="dualpipe-v"), None, 6, 1, InputError, "dualpipe-v"),
        (split_of([0, 1], [1, 3]), None, 2, 1, InputError, "2 microbatches are too few for 3 replicas"),
        (deep("tensor"), None, 2, 1, UnsupportedError, "stage 1 has tensor-parallel degree 2"),
        (deep("context"), None, 2, 1, UnsupportedError, "stage 1 has context-parallel degree 2"),
    ],
)
def test_orders_that_cannot_be(
    split: Split, schedule: str | None, microbatches: int, rounds: int, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        make_orders(split, rounds, microbatches, schedule)


# -- messages ----------------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 3), max_size=3), st.data())
def test_a_tensor_arrives_as_it_was_sent(shape: list[int], data: st.DataObject) -> None:
    count = math.prod(shape)
    order = data.draw(st.permutations(range(len(shape))))
    sent = torch.arange(count, dtype=torch.float32).reshape([shape[i] for i in order])
    sent = sent.permute([order.index(i) for i in range(len(shape))])
    form = TensorLayout(
        Slot(0, tuple(shape), sent.stride(), data.draw(st.sampled_from([torch.float32, torch.bfloat16])))
    )
    other = data.draw(st.booleans())
    tensor, flat = form.room()
    assert tensor.shape == sent.shape
    assert tensor.stride() == sent.stride() or not count
    flat.copy_(form.bytes_of(sent.contiguous() if other else sent))
    assert torch.equal(tensor, sent)
    assert form.count == count
    assert flat.numel() == 4 * count


def test_what_overlaps_is_sent_dense() -> None:
    """An expanded tensor has one element in four places; all four go."""
    sent = torch.arange(2.0)[:, None].expand(2, 4)
    form = TensorLayout(Slot(0, (2, 4), sent.stride(), torch.float32))
    assert form.stride == (4, 1)
    tensor, flat = form.room()
    flat.copy_(form.bytes_of(sent))
    assert torch.equal(tensor, sent)
    assert TensorLayout(Slot(0, (3, 2), (4, 1), torch.float32)).stride == (2, 1)
    assert TensorLayout(Slot(0, (3, 1), (1, 9), torch.float32)).stride == (1, 9)


@pytest.mark.parametrize(
    ("shape", "stride", "sent"),
    [
        ((2,), (2,), (1,)),
        ((3, 2), (1, 3), (1, 3)),
        ((2, 3, 4), (4, 8, 1), (4, 8, 1)),
        ((2, 1, 3), (0, 0, 1), (3, 3, 1)),
        ((2, 0, 3), (0, 3, 0), (3, 3, 1)),
        ((2, 2, 2), (0, 0, 0), (4, 2, 1)),
        ((), (), ()),
    ],
)
def test_strides_are_kept_where_memory_is_filled(
    shape: tuple[int, ...], stride: tuple[int, ...], sent: tuple[int, ...]
) -> None:
    assert TensorLayout(Slot(0, shape, stride, torch.float32)).stride == sent


@pytest.mark.parametrize("dtype", [torch.float64, torch.int64, torch.bool])
def test_numbers_keep_their_format(dtype: Any) -> None:
    sent = torch.tensor([[1, 0, 1], [0, 0, 1]]).to(dtype)
    form = TensorLayout(Slot(0, (2, 3), (1, 2), dtype))
    tensor, flat = form.room()
    flat.copy_(form.bytes_of(sent))
    assert tensor.dtype is dtype
    assert torch.equal(tensor, sent)
    assert flat.numel() == 6 * dtype.itemsize


def test_messages_are_posted_taken_and_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[str] = []
    parcels: dict[int, Any] = {}

    def send(flat: Any, target: int, tag: int) -> Any:
        parcels[tag] = flat.clone()
        return SimpleNamespace(wait=lambda: waited.append(f"sent {tag} to {target}"))

    def receive(flat: Any, source: int, tag: int) -> Any:
        def wait() -> None:
            flat.copy_(parcels[tag])
            waited.append(f"got {tag} from {source}")

        return SimpleNamespace(wait=wait)

    monkeypatch.setattr(wire.dist, "isend", send)
    monkeypatch.setattr(wire.dist, "irecv", receive)
    form, empty = (TensorLayout(Slot(0, shape, (1,), torch.float32)) for shape in ((3,), (0,)))
    one = Wire()
    one.post(5, 2, form)
    one.post(6, 2, empty)
    one.send(5, 1, form, torch.arange(3.0), 0)
    one.send(6, 1, empty, torch.zeros(0), 0)
    one.send(7, 1, form, torch.ones(3), 1)
    assert one.take(5).tolist() == [0.0, 1.0, 2.0]
    assert one.take(6).shape == (0,)
    assert not one.coming
    assert waited == ["got 5 from 2"]
    one.release(0)
    assert waited[1:] == ["sent 5 to 1"]
    assert [entry[2] for entry in one.going] == [1]
    one.release()
    assert waited[2:] == ["sent 7 to 1"]
    assert not one.going


# -- draws and memory --------------------------------------------------------------------------------------------------


def test_draws_of_a_model_are_seeded_by_their_numbers() -> None:
    seed, numbers = seeder(1, 2), []

    def draw(number: int) -> None:
        numbers.append(number)
        seed(number)

    def alone(number: int, func: Any) -> Any:
        seed(number)
        return func()

    x, heads = torch.ones(50), torch.ones(1, 1, 4, 4)
    with seeded(draw):
        first = torch.rand(3)
        plain = functional.dropout(x, 0.5, training=False)
        dropped = functional.dropout(x, 0.5)
        attended = functional.scaled_dot_product_attention(heads, heads, heads)
        more = functional.scaled_dot_product_attention(heads, heads, heads, dropout_p=0.5)
        also = functional.scaled_dot_product_attention(heads, heads, heads, None, 0.5)
        single = torch.rand(())
        last = torch.dropout(x, 0.25, True)
        written = x.clone()
        in_place = functional.dropout(written, 0.5, True, True)
        # All is dropped without a draw, which has a number nevertheless.
        gone = [functional.dropout(x, 1.0), torch.dropout(x, 1.0, True)]
    assert numbers == list(range(9))
    assert torch.equal(first, alone(0, lambda: torch.rand(3)))
    assert torch.equal(plain, x)
    assert torch.equal(dropped, alone(1, lambda: torch.native_dropout(x, 0.5, True)[0]))
    assert torch.equal(attended, heads)
    for number, found in ((2, more), (3, also)):
        again = alone(number, lambda: functional.scaled_dot_product_attention(heads, heads, heads, dropout_p=0.5))
        assert torch.equal(found, again)
    assert float(single) == KEEPS_LAYERS
    assert torch.equal(last, alone(5, lambda: torch.native_dropout(x, 0.25, True)[0]))
    assert in_place is written
    assert set(in_place.tolist()) == {0.0, 2.0}
    assert x.tolist() == [1.0] * 50
    assert not torch.cat(gone).any()
    assert functional.scaled_dot_product_attention.__name__ == "scaled_dot_product_attention"


@given(st.integers(0, 5), st.integers(0, 5))
def test_microbatches_have_seeds_of_their_own(seed: int, microbatch: int) -> None:
    def first(seed: int, microbatch: int, number: int) -> float:
        seeder(seed, microbatch)(number)
        return float(torch.rand(1))

    assert first(seed, microbatch, 0) == first(seed, microbatch, 0)
    others = [first(seed + 1, microbatch, 0), first(seed, microbatch + 1, 0), first(seed, microbatch, 1)]
    assert first(seed, microbatch, 0) not in others


def test_a_seed_is_made_of_its_parts() -> None:
    for seed, microbatch, number in ((0, 0, 0), (2, 3, 5), (10**13, 7, 1), (10**7, 7, 1)):
        seeder(seed, microbatch)(number)
        assert torch.initial_seed() == ((seed * 1_000_003 + microbatch) * 1_000_003 + number) % 2**63


def test_calls_within_draws_keep_their_arguments() -> None:
    numbers: list[int] = []
    x, heads = torch.ones(8), torch.ones(1, 1, 4, 4)
    with seeded(numbers.append):
        assert torch.rand(3, dtype=torch.float64).dtype is torch.float64
        assert x.sum(dtype=torch.float64).dtype is torch.float64
        assert torch.equal(functional.dropout(x, 0.0), x)
        assert torch.equal(torch.dropout(x, 0.5, False), x)
        assert functional.scaled_dot_product_attention(heads, heads, heads, None).shape == heads.shape
        assert numbers == [0]
        assert set(functional.dropout(x).tolist()) <= {0.0, 2.0}
        assert numbers == [0, 1]


@pytest.mark.parametrize("weights", [False, True])
def test_attention_of_a_module_draws_once(weights: bool) -> None:
    originals = functional.scaled_dot_product_attention, functional.dropout
    module, x, numbers = torch.nn.MultiheadAttention(4, 2, dropout=0.5), torch.ones(3, 1, 4), list[int]()
    with seeded(numbers.append):
        module(x, x, x, need_weights=weights)
        # Everything dropped counts, too; nothing dropped does not, though kernels of attention count as random.
        module.dropout = 1.0
        module(x, x, x, need_weights=weights)
        module.eval()
        module(x, x, x, need_weights=weights)
    assert numbers == [0, 1]
    assert (functional.scaled_dot_product_attention, functional.dropout) == originals


def test_the_most_memory_is_that_of_the_worst_call(monkeypatch: pytest.MonkeyPatch) -> None:
    told = iter([100, 95, 140, 190, 120, 95])
    monkeypatch.setattr(rank, "in_use", lambda: told.__next__)
    watch = Peak()
    with watch:
        x = torch.ones(4, dtype=torch.float64)
        assert x.dtype is torch.float64
        assert watch.most_bytes == 0
        x = x + 1
        x = x * 2
        assert watch.most_bytes == 90
        x.neg()
    assert watch.most_bytes == 90


def test_what_the_allocator_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than it ever keeps for itself is mapped; where it does not say, there is nothing."""
    used = in_use()
    before = used()
    held = torch.ones(1 << 24)
    assert used() - before >= 4 << 24 or before == 0
    del held

    def missing(name: None) -> Any:
        raise OSError

    monkeypatch.setattr(rank.ctypes, "CDLL", missing)
    assert in_use()() == 0


# -- errors ------------------------------------------------------------------------------------------------------------


def test_errors_are_relative_to_the_largest_entry() -> None:
    wanted = {"a": torch.tensor([1.0, -8.0]), "b": torch.tensor([1e-6, 0.0]), "c": torch.zeros(0)}
    found = {"a": torch.tensor([1.5, -8.0]), "b": torch.tensor([3e-6, 0.0]), "c": torch.zeros(0)}
    answer = errors(found, wanted)
    assert answer["a"] == 0.5 / 8
    # Below a thousandth of the largest of all, that is what counts.
    assert answer["b"] == pytest.approx(2e-6 / (SMALLEST * 8))
    assert answer["c"] == 0.0
    assert errors({"b": found["b"]}, {"b": wanted["b"]})["b"] == pytest.approx(2.0)
    assert errors({"b": found["b"]}, {"b": wanted["b"]}, wanted)["b"] == answer["b"]
    assert errors({"x": torch.ones(1)}, {"x": torch.zeros(1)})["x"] == 1.0
    # Nothing, and what is not finite, is not large.
    for other in (torch.zeros(0), torch.tensor([math.inf])):
        assert errors({**found, "o": other}, {"b": wanted["b"], "o": other})["b"] == pytest.approx(2.0)


def test_errors_of_what_is_missing_or_not_finite() -> None:
    nan, inf = math.nan, math.inf
    wanted = {"gone": torch.ones(1), "shape": torch.ones(2), "same": torch.tensor([nan, inf, 1.0])}
    found = {"new": torch.ones(1), "shape": torch.ones(3), "same": torch.tensor([nan, inf, 2.0])}
    assert errors(found, wanted) == {"gone": inf, "shape": inf, "same": 1.0, "new": inf}
    assert errors({"x": torch.tensor([nan, 1.0])}, {"x": torch.tensor([1.0, 1.0])}) == {"x": inf}
    assert errors({"x": torch.tensor([inf])}, {"x": torch.tensor([inf])}) == {"x": 0.0}
    assert errors({"x": torch.tensor([3, 5])}, {"x": torch.tensor([4, 5])}) == {"x": 0.2}
    assert errors({"x": torch.tensor([True])}, {"x": torch.tensor([False])}) == {"x": 1.0}
    assert errors({"x": torch.tensor([3 + 4j])}, {"x": torch.tensor([0 + 5j])}) == {"x": pytest.approx(10**0.5 / 5)}
    assert errors({}, {}) == {}
