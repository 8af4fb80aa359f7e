"""The throughput problem: validation, replace and small derived values."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest

from partita.ground.errors import InputError
from partita.problems.throughput.problem import (
    DeviceKind,
    MicrobatchSchedule,
    MovedTensor,
    SavedTensor,
    StoredParameter,
    ThroughputProblem,
    TimedOperator,
)

GPU = DeviceKind(name="gpu", count=2, memory_bytes=16)
CPU = DeviceKind(name="cpu", count=1, accelerator=False, transfer_time_per_unit=0)


def op(identity: int, **fields: Any) -> TimedOperator:
    """An operator for the two kinds."""
    return TimedOperator(**{"id": identity, "times": (1.0, 2.0), **fields})


def valid(**changes: Any) -> ThroughputProblem:
    """A valid problem, with changes."""
    fields: dict[str, Any] = {
        "name": "p",
        "kinds": (GPU, CPU),
        "operators": (op(0, name="embed"), op(1), op(2, backward=True)),
        "tensors": (MovedTensor(producer=0, consumers=(1, 2), size=1, name="x"),),
    }
    return ThroughputProblem(**{**fields, **changes})


NUMBER = "it must be finite and not negative"


@pytest.mark.parametrize("bad", [-1.0, math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(
    ("build", "owner"),
    [
        (lambda x: {"kinds": (msgspec.structs.replace(GPU, memory_bytes=x), CPU)}, "device kind 'gpu': memory_bytes"),
        (
            lambda x: {"kinds": (msgspec.structs.replace(GPU, transfer_time_per_unit=x), CPU)},
            "device kind 'gpu': transfer_time_per_unit",
        ),
        (
            lambda x: {"kinds": (msgspec.structs.replace(GPU, transfer_latency=x), CPU)},
            "device kind 'gpu': transfer_latency",
        ),
        (lambda x: {"operators": (op(0), op(1), op(2, times=(1.0, x)))}, "operator 2: time on cpu"),
        (
            lambda x: {"operators": (op(0, name="embed", memory_bytes=x), op(1), op(2))},
            "operator 0 (embed): memory_bytes",
        ),
        (lambda x: {"operators": (op(0), op(1, workspace_bytes=x), op(2))}, "operator 1: workspace_bytes"),
        (lambda x: {"tensors": (MovedTensor(producer=0, consumers=(1,), size=x, name="x"),)}, "tensor 'x': size"),
        (
            lambda x: {"parameters": (StoredParameter(name="w", users=(0,), weight_bytes=x),)},
            "parameter 'w': weight_bytes",
        ),
        (
            lambda x: {"parameters": (StoredParameter(name="w", users=(0,), weight_bytes=1, gradient_bytes=x),)},
            "parameter 'w': gradient_bytes",
        ),
        (
            lambda x: {"parameters": (StoredParameter(name="w", users=(0,), weight_bytes=1, optimizer_bytes=x),)},
            "parameter 'w': optimizer_bytes",
        ),
        (lambda x: {"saved": (SavedTensor(name="a", users=(2,), bytes=x),)}, "saved tensor 'a': bytes"),
    ],
)
def test_numbers_are_finite_and_not_negative(build: Any, owner: str, bad: float) -> None:
    """The message names the object, the field, the value and what it must be."""
    with pytest.raises(InputError) as caught:
        valid(**build(bad))
    assert str(caught.value) == f"problem 'p': {owner} is {bad}; {NUMBER}"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"operators": ()}, "problem 'p' has no operators; a plan needs at least one"),
        (
            {"kinds": (msgspec.structs.replace(GPU, count=0), msgspec.structs.replace(CPU, count=0))},
            "problem 'p' has no devices; raise the count of a device kind (--devices)",
        ),
        (
            {"kinds": (), "operators": (TimedOperator(id=0, times=()),), "tensors": ()},
            "problem 'p' has no devices; raise the count of a device kind (--devices)",
        ),
        (
            {"kinds": (msgspec.structs.replace(GPU, count=-1), CPU)},
            "problem 'p': device kind 'gpu': count is -1; it must not be negative",
        ),
        (
            {"kinds": (GPU, msgspec.structs.replace(CPU, name="gpu"))},
            "problem 'p': device kind 'gpu' appears twice; give each kind its own name",
        ),
        ({"schedule": MicrobatchSchedule(microbatches=0)}, "problem 'p': microbatches is 0; it must be at least 1"),
        (
            {"operators": (op(0), op(1), op(1), op(2))},
            "problem 'p': operator id 1 appears twice; ids must be unique",
        ),
        (
            {"operators": (op(0), op(1, times=(1.0,)), op(2))},
            "problem 'p': operator 1 has 1 times; it needs one for each of the 2 device kinds",
        ),
        (
            {"tensors": (MovedTensor(producer=7, consumers=(1,), size=1, name="x"),)},
            "problem 'p': tensor 'x': there is no operator with id 7",
        ),
        (
            {"tensors": (MovedTensor(producer=0, consumers=(7,), size=1),)},
            "problem 'p': tensor of operator 0: there is no operator with id 7",
        ),
        (
            {"tensors": (MovedTensor(producer=0, consumers=(1, 1), size=1, name="x"),)},
            "problem 'p': tensor 'x': operator id 1 is listed twice; list each once",
        ),
        (
            {"tensors": (MovedTensor(producer=0, consumers=(0,), size=1, name="x"),)},
            "problem 'p': tensor 'x': operator 0 makes and reads it; leave it out of the consumers",
        ),
        (
            {"parameters": (StoredParameter(name="w", users=(0, 7), weight_bytes=1),)},
            "problem 'p': parameter 'w': there is no operator with id 7",
        ),
        (
            {"parameters": (StoredParameter(name="w", users=(0, 0), weight_bytes=1),)},
            "problem 'p': parameter 'w': operator id 0 is listed twice; list each once",
        ),
        (
            {"saved": (SavedTensor(name="a", users=(7,), bytes=1),)},
            "problem 'p': saved tensor 'a': there is no operator with id 7",
        ),
        (
            {"saved": (SavedTensor(name="a", users=(2, 2), bytes=1),)},
            "problem 'p': saved tensor 'a': operator id 2 is listed twice; list each once",
        ),
        (
            {"tensors": (MovedTensor(producer=2, consumers=(1,), size=1),)},
            "problem 'p': backward operator 2 feeds forward operator 1; "
            "tensors may only go from the forward part to the backward part",
        ),
        (
            {
                "tensors": (
                    MovedTensor(producer=0, consumers=(1,), size=1),
                    MovedTensor(producer=1, consumers=(0,), size=1),
                )
            },
            "problem 'p' has a cycle: 0 → 1 → 0; operators must form a DAG",
        ),
    ],
)
def test_what_is_no_problem(changes: dict[str, Any], message: str) -> None:
    """Each mistake names the object and the remedy."""
    with pytest.raises(InputError) as caught:
        valid(**changes)
    assert str(caught.value) == message


def test_a_long_cycle_is_cut_short() -> None:
    """The message shows the beginning of a cycle of twenty."""
    tensors = tuple(MovedTensor(producer=i, consumers=((i + 1) % 20,), size=0) for i in range(20))
    with pytest.raises(InputError, match=r"has a cycle: (\d+ → ){7}\d+ …; operators must form a DAG"):
        valid(operators=tuple(op(i) for i in range(20)), tensors=tensors)


def test_a_wrong_value_in_a_file_is_reported_the_same_way() -> None:
    """Decoding validates, too, and unknown fields are errors."""
    data = msgspec.to_builtins(valid())
    data["kinds"][0]["count"] = -1
    with pytest.raises(msgspec.ValidationError, match="device kind 'gpu': count is -1"):
        msgspec.convert(data, ThroughputProblem)
    with pytest.raises(msgspec.ValidationError, match="unknown field `colour`"):
        msgspec.convert({**msgspec.to_builtins(valid()), "colour": "red"}, ThroughputProblem)


def test_problems_are_frozen() -> None:
    """A problem never changes; replace makes another one."""
    with pytest.raises(AttributeError):
        valid().name = "other"  # type: ignore[misc]


class TestReplace:
    """A copy with changes, validated again."""

    def test_counts_and_memory(self) -> None:
        changed = valid().replace(accelerators=5, cpus=3, memory_bytes=32.0, name="q")
        assert [(k.name, k.count, k.memory_bytes) for k in changed.kinds] == [("gpu", 5, 32), ("cpu", 3, None)]
        assert changed.name == "q"
        assert changed.operators is valid().operators or changed.operators == valid().operators
        assert changed.device_count == 8

    def test_infinite_memory_removes_the_limit(self) -> None:
        assert valid().replace(memory_bytes=math.inf).kinds[0].memory_bytes is None

    @pytest.mark.parametrize("bad", [-1.0, math.nan, -math.inf])
    def test_bad_memory(self, bad: float) -> None:
        with pytest.raises(InputError, match="device kind 'gpu': memory_bytes is"):
            valid().replace(memory_bytes=bad)

    def test_the_result_is_validated(self) -> None:
        with pytest.raises(InputError, match="count is -1"):
            valid().replace(accelerators=-1)
        with pytest.raises(InputError, match="has no devices"):
            valid().replace(accelerators=0, cpus=0)
        with pytest.raises(InputError, match="has no operators"):
            valid().replace(operators=())

    def test_an_ambiguous_count(self) -> None:
        two = valid().replace(kinds=(GPU, msgspec.structs.replace(GPU, name="tpu")))
        with pytest.raises(InputError) as caught:
            two.replace(accelerators=3)
        assert str(caught.value) == (
            "accelerators=3 needs exactly one such device kind, the problem has gpu, tpu; replace `kinds`"
        )
        with pytest.raises(InputError, match="cpus=3 needs exactly one such device kind, the problem has none"):
            two.replace(cpus=3)

    def test_counts_apply_to_new_kinds(self) -> None:
        changed = valid().replace(kinds=(msgspec.structs.replace(GPU, name="new"), CPU), accelerators=7)
        assert changed.device_names()[6] == ("new:6", 0)


def test_device_names_follow_the_kinds() -> None:
    """<kind>:<number>, with the index of the kind."""
    assert valid().device_names() == [("gpu:0", 0), ("gpu:1", 0), ("cpu:0", 1)]


def test_training_means_backward_operators() -> None:
    """Inference problems have none."""
    assert valid().training
    assert not valid(operators=(op(0), op(1)), tensors=()).training


@pytest.mark.parametrize(
    ("name", "microbatches", "held"),
    [("inference", 8, [1, 1, 1]), ("gpipe", 8, [8, 8, 8]), ("1f1b", 8, [1, 2, 3]), ("1f1b", 2, [1, 2, 2])],
)
def test_microbatches_in_flight(name: Any, microbatches: int, held: list[int]) -> None:
    """For 1, 2 and 3 stages to the end."""
    schedule = MicrobatchSchedule(name=name, microbatches=microbatches)
    assert [schedule.in_flight(stages) for stages in (1, 2, 3)] == held
    assert schedule.positional == (len(set(held)) > 1)
