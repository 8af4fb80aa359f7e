"""The verifier of schedules: every kind of broken schedule is refused, in words."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from partita.ground.errors import InputError
from partita.problems.makespan.evaluate import evaluate
from partita.problems.makespan.problem import (
    Device,
    MakespanFlow,
    MakespanOperator,
    MakespanPlan,
    MakespanProblem,
    PlacedOperator,
    Sent,
)

_LINK = ((0.0, 1.0), (2.0, 0.0))

#: 0 feeds 1 and 2, which feed 3; 4 comes after 0 without data and runs on the first device only.
PROBLEM = MakespanProblem(
    name="five",
    devices=(Device(name="a", memory=4.0), Device(name="b", memory=4.0)),
    operators=(
        MakespanOperator(id=0, times=(1.0, 1.0), memory=1.0),
        MakespanOperator(id=1, times=(2.0, 3.0), memory=1.0),
        MakespanOperator(id=2, times=(2.0, 2.0), memory=1.0, name="two"),
        MakespanOperator(id=3, times=(1.0, 1.0), memory=1.0),
        MakespanOperator(id=4, times=(1.0, None), memory=1.0),
    ),
    flows=(
        MakespanFlow(id=10, source=0, target=1, times=_LINK),
        MakespanFlow(id=11, source=0, target=2, times=_LINK),
        MakespanFlow(id=12, source=1, target=3, times=_LINK),
        MakespanFlow(id=13, source=2, target=3, times=_LINK),
    ),
    precedence=((0, 4),),
)

#: 1 and 2 run on the second device, one after the other; their results come back one after the other.
PLAN = MakespanPlan(
    operators={
        0: PlacedOperator(device=0, start=0.0, end=1.0),
        1: PlacedOperator(device=1, start=2.0, end=5.0),
        2: PlacedOperator(device=1, start=5.0, end=7.0),
        3: PlacedOperator(device=0, start=9.0, end=10.0),
        4: PlacedOperator(device=0, start=1.0, end=2.0),
    },
    flows={
        10: Sent(source=0, target=1, start=1.0, end=2.0),
        11: Sent(source=0, target=1, start=2.0, end=3.0),
        12: Sent(source=1, target=0, start=5.0, end=7.0),
        13: Sent(source=1, target=0, start=7.0, end=9.0),
    },
)


def changed(operators: dict[int, dict[str, Any]] | None = None, flows: dict[int, dict[str, Any]] | None = None) -> Any:
    """The schedule with some fields of some entries changed."""

    def table(entries: dict[int, Any], changes: dict[int, dict[str, Any]]) -> dict[int, Any]:
        return entries | {v: msgspec.structs.replace(entries[v], **fields) for v, fields in changes.items()}

    return MakespanPlan(operators=table(PLAN.operators, operators or {}), flows=table(PLAN.flows, flows or {}))


def without(flow: int) -> MakespanPlan:
    return MakespanPlan(operators=PLAN.operators, flows={f: sent for f, sent in PLAN.flows.items() if f != flow})


def test_a_schedule_that_keeps_everything() -> None:
    found = evaluate(PROBLEM, PLAN)
    assert found.violations == ()
    assert found.objective == 10.0
    assert found.memory == (3.0, 2.0)
    assert found.busy == (3.0, 5.0)


BROKEN = {
    "operator before a predecessor": (
        changed({4: {"start": 0.5, "end": 1.5}}),
        "operator 4 starts at 0.5, before its predecessor 0 ends at 1",
    ),
    "operator before a flow": (
        changed({3: {"start": 8.5, "end": 9.5}}),
        "operator 3 starts at 8.5, before flow 13 arrives at 9",
    ),
    "flow before its producer": (
        changed(flows={10: {"start": 0.5, "end": 1.5}}),
        "flow 10 starts at 0.5, before its producer 0 ends at 1",
    ),
    "overlap on a device": (
        changed({2: {"start": 4.0, "end": 6.0}}),
        r"operator 1 and operator 2 \(two\) run on device 'b' at the same time",
    ),
    "two flows leave": (
        changed(flows={11: {"start": 1.5, "end": 2.5}}),
        "flow 10 and flow 11 leave device 'a' at the same time",
    ),
    "two flows enter": (
        changed({2: {"start": 5.0}}, flows={11: {"start": 1.5, "end": 2.5}}),
        "flow 10 and flow 11 enter device 'b' at the same time",
    ),
    "unsupported device": (changed({4: {"device": 1}}), "operator 4 is on device 'b', where it cannot run"),
    "wrong duration": (changed({3: {"end": 11.0}}), "operator 3 lasts 2 on device 'a'; it takes 1 there"),
    "wrong duration of a flow": (changed(flows={13: {"end": 8.5}}), "flow 13 lasts 1.5; it takes 2 between"),
    "negative start": (changed({0: {"start": -1.0, "end": 0.0}}), "operator 0 starts at -1, before 0"),
    "a flow is missing": (without(13), "flow 13 is not moved, but operators 2 and 3 are on two devices"),
    "a flow within a device": (
        MakespanPlan(
            operators=PLAN.operators | {3: PlacedOperator(device=1, start=9.0, end=10.0)},
            flows=PLAN.flows,
        ),
        "flow 12 is moved, but operators 1 and 3 are on one device",
    ),
    "a flow from elsewhere": (
        changed(flows={13: {"source": 0, "target": 1, "end": 8.0}}),
        "flow 13 goes from device 'a' to 'b', its operators are on 'b' and 'a'",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_schedules_are_refused(name: str) -> None:
    plan, message = BROKEN[name]
    found = evaluate(PROBLEM, plan)
    assert not found.feasible
    with pytest.raises(AssertionError, match=message):
        raise AssertionError("; ".join(found.violations))


def test_memory() -> None:
    small = PROBLEM.replace(devices=(Device(name="a", memory=2.5), Device(name="b", memory=4.0)))
    assert evaluate(small, PLAN).violations == ("device 'a' holds 3 bytes, 0.5 more than its 2.5",)
    assert evaluate(PROBLEM.replace(devices=(Device(name="a"), Device(name="b"))), PLAN).feasible


def test_colocation() -> None:
    operators = tuple(
        msgspec.structs.replace(op, colocation=7 if op.id in (1, 3) else None) for op in PROBLEM.operators
    )
    assert evaluate(PROBLEM.replace(operators=operators), PLAN).violations == (
        "operator 3 is not on the device of operator 1, both are of colocation class 7",
    )


@pytest.mark.parametrize(
    ("switches", "plan"),
    [
        ({"serial_operators": False}, BROKEN["overlap on a device"][0]),
        ({"sender_congestion": False, "receiver_congestion": False}, BROKEN["two flows leave"][0]),
    ],
)
def test_switches(switches: dict[str, bool], plan: MakespanPlan) -> None:
    """What is switched off is no violation, and each switch is for itself."""
    starts = {v: msgspec.structs.replace(p) for v, p in plan.operators.items()}
    free = evaluate(PROBLEM.replace(**switches), MakespanPlan(operators=starts, flows=plan.flows))
    assert [text for text in free.violations if "at the same time" in text] == []
    for name in switches:
        others = {other: value for other, value in switches.items() if other != name}
        if others:
            found = evaluate(PROBLEM.replace(**others), plan)
            word = "leave" if name == "sender_congestion" else "enter"
            assert [word in text for text in found.violations if "at the same time" in text] == [True]


def test_what_takes_no_time_stands_at_ends_only() -> None:
    problem = MakespanProblem(
        name="instant",
        devices=(Device(name="a"),),
        operators=(
            MakespanOperator(id=0, times=(2.0,)),
            MakespanOperator(id=1, times=(0.0,)),
            MakespanOperator(id=2, times=(0.0,)),
        ),
    )

    def at(start: float) -> MakespanPlan:
        return MakespanPlan(
            operators={
                0: PlacedOperator(device=0, start=0.0, end=2.0),
                1: PlacedOperator(device=0, start=start, end=start),
                2: PlacedOperator(device=0, start=start, end=start),
            }
        )

    assert evaluate(problem, at(0.0)).feasible
    assert evaluate(problem, at(2.0)).feasible
    assert not evaluate(problem, at(1.0)).feasible


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (MakespanPlan(operators={0: PLAN.operators[0]}), r"does not say where operator 1 runs \(4 are missing\)"),
        (
            MakespanPlan(operators=PLAN.operators | {9: PLAN.operators[0]}, flows=PLAN.flows),
            "names operator 9, which the problem does not have",
        ),
        (
            MakespanPlan(operators=PLAN.operators, flows=PLAN.flows | {99: PLAN.flows[10]}),
            "names flow 99, which the problem does not have",
        ),
        (changed({0: {"device": 2}}), "operator 0 on device 2; the devices are 0 to 1"),
        (changed({0: {"start": float("nan")}}), "times of operator 0 are not finite"),
        (changed(flows={10: {"end": float("inf")}}), "times of flow 10 are not finite"),
    ],
)
def test_what_is_no_schedule_of_the_problem(plan: MakespanPlan, message: str) -> None:
    with pytest.raises(InputError, match=message):
        evaluate(PROBLEM, plan)


def test_a_long_span_is_compared_with_all_that_it_covers() -> None:
    """Also with those that come after a short one that ended in between, in whatever order they are listed."""
    times = {0: (2.0, 3.0), 1: (5.0, 6.0), 2: (0.0, 10.0), 3: (10.0, 11.0)}
    problem = MakespanProblem(
        name="covered",
        devices=(Device(name="a"),),
        operators=tuple(MakespanOperator(id=v, times=(end - start,)) for v, (start, end) in times.items()),
    )
    plan = MakespanPlan(
        operators={v: PlacedOperator(device=0, start=start, end=end) for v, (start, end) in times.items()}
    )
    assert evaluate(problem, plan).violations == (
        "operator 2 and operator 0 run on device 'a' at the same time",
        "operator 2 and operator 1 run on device 'a' at the same time",
    )


def test_rounding_is_no_violation() -> None:
    """Relative to the times: ends that are a little late, whatever the unit."""
    for unit in (1e-6, 1.0, 1e6):
        late = unit * (1 + 1e-12)
        problem = MakespanProblem(
            name="rounded",
            devices=(Device(name="a"),),
            operators=(MakespanOperator(id=0, times=(unit,)), MakespanOperator(id=1, times=(unit,))),
            precedence=((0, 1),),
        )
        plan = MakespanPlan(
            operators={
                0: PlacedOperator(device=0, start=0.0, end=late),
                1: PlacedOperator(device=0, start=unit, end=2 * unit),
            }
        )
        assert evaluate(problem, plan).feasible
        early = msgspec.structs.replace(plan.operators[1], start=unit * 0.999999, end=unit * 1.999999)
        assert not evaluate(problem, MakespanPlan(operators=plan.operators | {1: early})).feasible


def test_each_of_two_flows_is_checked() -> None:
    """Also one that comes after a flow which stays on a device."""
    operators = {v: msgspec.structs.replace(p, device=0) if v == 1 else p for v, p in PLAN.operators.items()}
    flows = {f: sent for f, sent in PLAN.flows.items() if f == 11}
    found = evaluate(PROBLEM, MakespanPlan(operators=operators, flows=flows))
    assert "flow 13 is not moved, but operators 2 and 3 are on two devices" in found.violations
