"""The definition, by hand and against an evaluator that shares nothing with it."""

from __future__ import annotations

import random

import msgspec
import pytest

from partita.ground.errors import InputError
from partita.problems.mapping.evaluate import evaluate
from partita.problems.mapping.instance import MappingInstance, device_array
from partita.problems.mapping.problem import MappingProblem, MappingStage, MappingTransfer, Placement
from problems.mapping.brute_force import objective
from problems.mapping.random_problems import random_problem

#: Two stages of three replicas on six devices; links slower with the distance, and slower one way.
PROBLEM = MappingProblem(
    replicas=3,
    stages=(MappingStage(name="a", time_s=1.0, parameter_bytes=6.0), MappingStage(name="b", time_s=2.0)),
    transfers=(MappingTransfer(source=0, target=1, bytes=8.0), MappingTransfer(source=0, target=1, bytes=4.0)),
    bandwidth_bytes_per_s=tuple(
        tuple(None if a == b else (4.0 if a < b else 2.0) / abs(a - b) for b in range(6)) for a in range(6)
    ),
)
PLAN = Placement(placement=((0, 1, 2), (3, 4, 5)))


def test_every_term_by_hand() -> None:
    """Replica 0 of the first stage is on device 0: to 3 at 4/3, ring to 1 at 4 and to 2 at 2, all of its own row."""
    worth = evaluate(PROBLEM, PLAN)
    first = worth.loads[0][0]
    assert first.compute == 1.0
    assert first.point_to_point == pytest.approx(12 / (4 / 3))
    assert first.all_reduce == pytest.approx(2 * 2 / 3 * 6 / 2)
    # Replica 2 of it, on device 2: back to 1 at 2, and to 0 at 1.
    assert worth.loads[0][2].all_reduce == pytest.approx(2 * 2 / 3 * 6 / 1)
    # The other end of a transfer pays in its own row: 3 to 0 at 2/3.
    assert worth.loads[1][0].point_to_point == pytest.approx(12 / (2 / 3))
    assert worth.objective == pytest.approx(2 + 18)
    assert worth.critical == (1, 0)
    assert worth.feasible


def test_forms_leave_terms_out() -> None:
    """And two replicas have one partner, one has none."""
    only = evaluate(PROBLEM.replace(form="point-to-point"), PLAN)
    assert only.loads[0][0].all_reduce == 0
    assert only.loads[0][0].point_to_point > 0
    only = evaluate(PROBLEM.replace(form="all-reduce"), PLAN)
    assert only.loads[0][0].point_to_point == 0
    assert only.loads[0][0].all_reduce > 0
    pair = evaluate(PROBLEM.replace(replicas=2), Placement(placement=((0, 1), (2, 3))))
    assert pair.loads[0][0].all_reduce == pytest.approx(2 / 2 * 6 / 4)
    assert evaluate(PROBLEM.replace(replicas=1), Placement(placement=((0,), (1,)))).loads[0][0].all_reduce == 0


def test_a_device_takes_one_replica() -> None:
    """Two are a violation, with names."""
    worth = evaluate(PROBLEM, Placement(placement=((0, 1, 2), (3, 4, 0))))
    assert worth.violations == ("device 0 runs replica 0 of stage 0 and replica 2 of stage 1; it takes one",)


@pytest.mark.parametrize(
    ("placement", "said"),
    [
        (((0, 1, 2),), "1 stages"),
        (((0, 1), (3, 4)), "2 replicas of stage 0"),
        (((0, 1, 6), (3, 4, 5)), "device 6"),
        (((0, 1, -1), (3, 4, 5)), "device -1"),
    ],
)
def test_what_is_no_mapping_is_refused(placement: tuple[tuple[int, ...], ...], said: str) -> None:
    """With what is wrong."""
    with pytest.raises(InputError, match=said):
        evaluate(PROBLEM, Placement(placement=placement))


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"replicas": 0}, "replicas is 0"),
        ({"stages": ()}, "no stages"),
        ({"stages": (MappingStage(name="a"), MappingStage(name="b", time_s=1.0))}, "either time_s or"),
        (
            {"stages": (MappingStage(name="a", times_s=(1.0,)), MappingStage(name="b", time_s=1.0))},
            "times_s has 1 entries",
        ),
        ({"stages": (MappingStage(name="a", time_s=-1.0), MappingStage(name="b", time_s=1.0))}, "time_s is -1"),
        (
            {"stages": (MappingStage(name="a", times_s=(-1.0,) * 6), MappingStage(name="b", time_s=1.0))},
            "time on device 0",
        ),
        ({"transfers": (MappingTransfer(source=0, target=2, bytes=1.0),)}, "no stage 2"),
        ({"transfers": (MappingTransfer(source=1, target=1, bytes=1.0),)}, "to itself"),
        ({"transfers": (MappingTransfer(source=0, target=1, bytes=-1.0),)}, "bytes is -1"),
        ({"bandwidth_bytes_per_s": ((0.0, 1.0), (1.0,))}, "row 1 has 1 entries"),
        ({"bandwidth_bytes_per_s": ((0.0, 0.0), (1.0, 0.0))}, "from device 0 to device 1 is 0"),
        ({"bandwidth_bytes_per_s": ((0.0, None), (1.0, 0.0))}, "from device 0 to device 1"),
        ({"devices": ("a",)}, "names 1 devices"),
    ],
)
def test_bad_problems_are_refused(fields: dict[str, object], said: str) -> None:
    """With the object and the value."""
    with pytest.raises(InputError, match=said):
        PROBLEM.replace(**fields)


def test_without_devices_nothing_is_worth_anything() -> None:
    """The message says how to give them."""
    with pytest.raises(InputError, match="--topology"):
        evaluate(PROBLEM.replace(bandwidth_bytes_per_s=()), PLAN)


def test_evaluators_and_kernel_agree() -> None:
    """On random mappings of random problems."""
    from partita.engines.kernels.mapping.arrays import load_of

    for seed in range(120):
        problem = random_problem(seed, random.Random(seed).choice(("both", "point-to-point", "all-reduce")))
        count = problem.used
        devices = random.Random(seed).sample(range(len(problem.bandwidth_bytes_per_s)), count)
        rows = tuple(
            tuple(devices[s * problem.replicas : (s + 1) * problem.replicas]) for s in range(len(problem.stages))
        )
        plan = Placement(placement=rows)
        found = evaluate(problem, plan).objective
        assert found == pytest.approx(objective(problem, plan), rel=1e-12, abs=1e-300)
        arrays, device = MappingInstance(problem).arrays, device_array(plan)
        assert max(load_of(arrays, device, x) for x in range(count)) == pytest.approx(found, rel=1e-12, abs=1e-300)


def test_communication_can_be_scaled() -> None:
    """Transfers and parameters, not times."""
    twice = evaluate(PROBLEM.scale_communication(2.0), PLAN)
    once = evaluate(PROBLEM, PLAN)
    assert twice.loads[0][0].compute == once.loads[0][0].compute
    assert twice.loads[0][0].point_to_point == pytest.approx(2 * once.loads[0][0].point_to_point)
    assert twice.loads[0][0].all_reduce == pytest.approx(2 * once.loads[0][0].all_reduce)
    assert msgspec.json.encode(PROBLEM.scale_communication(1.0)) == msgspec.json.encode(PROBLEM)
