"""Validation, one message for each mistake; changes of a stated problem."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest

import partita as pt
from partita.ground.errors import InputError
from partita.problems.makespan.options import MakespanChanges, change
from partita.problems.makespan.problem import Device, MakespanFlow, MakespanOperator, MakespanProblem
from problems.makespan.samples import row

FLOW = MakespanFlow(id=0, source=0, target=1, times=((0.0, 1.0), (1.0, 0.0)))
OPERATORS = (MakespanOperator(id=0, times=(1.0, 2.0)), MakespanOperator(id=1, times=(1.0, None), name="last"))
FIELDS: dict[str, Any] = {
    "name": "two",
    "devices": (Device(name="a"), Device(name="b", memory=2.0)),
    "operators": OPERATORS,
    "flows": (FLOW,),
    "precedence": ((0, 1),),
}


def flow(**changes: Any) -> dict[str, Any]:
    return {"flows": (msgspec.structs.replace(FLOW, **changes),)}


def operator(**changes: Any) -> dict[str, Any]:
    return {"operators": (OPERATORS[0], msgspec.structs.replace(OPERATORS[1], **changes))}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"devices": ()}, "'two' has no devices"),
        ({"operators": (), "flows": (), "precedence": ()}, "'two' has no operators"),
        ({"devices": (Device(name="a"), Device(name="b", memory=-1.0))}, "device 'b': memory is -1"),
        (operator(id=0), "operator id 0 appears twice"),
        (operator(times=(1.0,)), r"operator 1 \(last\): times has 1 entries; it needs one for each of the 2 devices"),
        (operator(times=(None, None)), "has no time on any device"),
        (operator(times=(-1.0, None)), "time on device 'a' is -1"),
        (operator(times=(math.nan, None)), "time on device 'a' is nan"),
        (operator(memory=math.inf), "memory is inf"),
        ({"flows": (FLOW, FLOW)}, "flow id 0 appears twice"),
        (flow(target=7), "flow 0 .0 → 7.: there is no operator with id 7"),
        (flow(target=0), "is a cycle of one operator"),
        (flow(times=((0.0, 1.0),)), "times has 1 entries"),
        (flow(times=((0.0, 1.0), (1.0,))), "times from device 'b' has 1 entries"),
        (flow(times=((0.0, -1.0), (1.0, 0.0))), "time from device 'a' to 'b' is -1"),
        (flow(times=((0.5, 1.0), (1.0, 0.0))), "time from device 'a' to 'a' is 0.5; it must be 0"),
        ({"precedence": ((0, 5),)}, "precedence 0 → 5: there is no operator with id 5"),
        ({"precedence": ((1, 0),)}, "has a cycle: .*; operators must form a DAG"),
    ],
)
def test_mistakes_are_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        MakespanProblem(**FIELDS | changes)


def test_changes() -> None:
    problem = MakespanProblem(**FIELDS)
    assert change(problem, MakespanChanges()) == problem
    assert [d.memory for d in change(problem, MakespanChanges(memory=3.0)).devices] == [3.0, 3.0]
    assert [d.memory for d in change(problem, MakespanChanges(memory=math.inf)).devices] == [None, None]
    for field, switch in (
        ("ignore_sender_congestion", "sender_congestion"),
        ("ignore_receiver_congestion", "receiver_congestion"),
        ("parallel_operators", "serial_operators"),
    ):
        changed = change(problem, MakespanChanges(**{field: True}))
        assert changed == problem.replace(**{switch: False})


def test_communication_is_scaled() -> None:
    problem = MakespanProblem(**FIELDS)
    assert problem.scale_communication(1.0) == problem
    assert problem.scale_communication(3.0).flows[0].times == ((0.0, 3.0), (3.0, 0.0))
    with pytest.raises(InputError, match="the communication scale is inf"):
        problem.scale_communication(math.inf)


def test_infeasible_problems_say_why() -> None:
    result = pt.solve(row(devices=2, memory=1.0))
    assert result.status is pt.Status.INFEASIBLE
    assert result.reason == "the operators hold 3 bytes, all devices together have 2"
    operators = tuple(MakespanOperator(id=v, times=(1.0, 1.0), memory=1.25) for v in range(3))
    result = pt.solve(
        row(devices=2).replace(
            devices=(Device(name="a", memory=2.0), Device(name="b", memory=2.0)), operators=operators
        )
    )
    assert result.status is pt.Status.INFEASIBLE
    assert "no way to divide the operators keeps the memory limits" in result.reason
    apart = (
        MakespanOperator(id=0, times=(1.0, None), colocation=1),
        MakespanOperator(id=1, times=(None, 1.0), colocation=1),
    )
    result = pt.solve(MakespanProblem(**FIELDS | {"operators": apart}))
    assert result.status is pt.Status.INFEASIBLE
    assert result.reason.startswith(
        "no device that can run operator 0 with the 1 more of its colocation class has room"
    )
