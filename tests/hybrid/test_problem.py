"""What a hybrid problem and its plans accept, and the messages for what they do not."""

from __future__ import annotations

from typing import Any

import pytest

from partita.errors import InputError
from partita.hybrid.evaluate import evaluate
from partita.hybrid.plan import HybridPlan, HybridStage
from partita.hybrid.problem import Configuration, Edge, HybridProblem, Layer


def layer(number: int, **fields: Any) -> Layer:
    return Layer(id=number, configurations={1: (Configuration(**{"id": "c", "time": 1.0, **fields}),)})


def problem(**changes: Any) -> HybridProblem:
    fields: dict[str, Any] = {
        "name": "small",
        "devices": 4,
        "bandwidth_bytes_per_unit": 2.0,
        "microbatches": 4,
        "layers": (layer(0, time=2.0), layer(1, time=4.0, weight_bytes=3.0, memory_per_microbatch_bytes=5.0)),
        "edges": (Edge(source=0, target=1, bytes=6.0),),
    }
    return HybridProblem(**(fields | changes))


def stage(*operators: int, d: int = 1, t: int = 1, name: str = "c") -> HybridStage:
    return HybridStage(
        operators=operators, data_parallel=d, tensor_parallel=t, configurations=dict.fromkeys(operators, name)
    )


nan, inf = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"layers": ()}, "no layers"),
        ({"devices": 0}, "devices is 0"),
        ({"microbatches": 0}, "microbatches is 0"),
        ({"bandwidth_bytes_per_unit": 0.0}, "bandwidth"),
        ({"bandwidth_bytes_per_unit": inf}, "finite"),
        ({"bandwidth_bytes_per_unit": nan}, "bandwidth"),
        ({"memory_bytes": -1.0}, "memory_bytes"),
        ({"layers": (layer(0), layer(0))}, "id 0 appears twice"),
        ({"layers": (layer(0), Layer(id=1, configurations={}))}, "layer 1 has no configurations"),
        ({"layers": (layer(0), Layer(id=1, configurations={1: ()}))}, "layer 1 has no configurations"),
        ({"layers": (layer(0), Layer(id=1, configurations={0: layer(1).configurations[1]}))}, "degree 0"),
        ({"layers": (layer(0), Layer(id=1, configurations={1: layer(1).configurations[1] * 2}))}, "appears twice"),
        ({"layers": (layer(0), layer(1, time=nan))}, "time is nan"),
        ({"layers": (layer(0), layer(1, memory_bytes=-2.0))}, "memory_bytes is -2"),
        ({"layers": (layer(0), layer(1, sync_in_bytes={7: 1.0}))}, "names layer 7"),
        ({"layers": (layer(0), layer(1, sync_in_bytes={0: inf}))}, "sync_in_bytes of layer 0"),
        ({"layers": (layer(0, sync_out_bytes={0: 1.0}), layer(1))}, "names layer 0"),
        ({"edges": (Edge(source=0, target=9, bytes=1.0),)}, "no layer with id 9"),
        ({"edges": (Edge(source=0, target=0, bytes=1.0),)}, "cycle of one layer"),
        ({"edges": (Edge(source=0, target=1, bytes=nan),)}, "bytes is nan"),
        ({"edges": (Edge(source=0, target=1, bytes=1.0),) * 2}, "appears twice"),
        ({"edges": (Edge(source=0, target=1, bytes=1.0), Edge(source=1, target=0, bytes=1.0))}, "cycle: "),
    ],
)
def test_bad_problems_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        problem(**changes)


def test_replace_lifts_the_memory_limit() -> None:
    limited = problem(memory_bytes=3.0)
    assert limited.replace(memory_bytes=inf).memory_bytes is None
    assert limited.replace(devices=2).memory_bytes == 3.0


def test_transfers_scale_by_the_bandwidth() -> None:
    assert problem().scale_communication(4.0).bandwidth_bytes_per_unit == 0.5
    with pytest.raises(InputError, match="scale"):
        problem().scale_communication(0.0)


def test_a_plan_by_hand() -> None:
    """The second stage has two replicas: 4/2 + 2·6/(2·2) + 4·1·3/(2·2·2) = 6.5; the first waits for 12/2."""
    found = evaluate(problem(memory_bytes=5.0), HybridPlan(stages=(stage(0), stage(1, d=2))))
    assert [entry.time_per_sample for entry in found.stages] == [2.0 + 6.0, 2.0 + 3.0 + 1.5]
    assert (found.objective, found.feasible) == (8.0, True)
    assert [entry.in_flight for entry in found.stages] == [3, 1]
    assert [entry.memory_bytes for entry in found.stages] == [0.0, 5.0]


def test_weights_synchronised_once_per_batch() -> None:
    plan = HybridPlan(stages=(stage(0), stage(1, d=2)))
    found = evaluate(problem(weight_sync_per_batch=True), plan)
    assert found.stages[1].weight_sync == 4 * 1 * 3 / (2 * 4 * 2)
    assert evaluate(problem(weight_sync_per_batch=True, microbatches=3), plan).violations == (
        "stage 1: data-parallel degree 2 does not divide the 3 microbatches",
    )


@pytest.mark.parametrize(
    ("changes", "stages", "message"),
    [
        ({"devices": 2}, (stage(0), stage(1, d=2)), "use 3 devices"),
        ({"microbatches": 2}, (stage(0), stage(1, d=2)), "add up to 3"),
        ({"memory_bytes": 4.0}, (stage(0), stage(1)), "stage 1 needs"),
        ({}, (stage(1), stage(0)), "goes from stage 1 back to stage 0"),
        ({}, (stage(0, t=2), stage(1)), "layer 0 has no configuration of degree 2"),
    ],
)
def test_broken_limits_are_violations(changes: dict[str, Any], stages: tuple[HybridStage, ...], message: str) -> None:
    found = evaluate(problem(**changes), HybridPlan(stages=stages))
    assert not found.feasible
    assert any(message in text for text in found.violations)


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        ((), "no stages"),
        ((stage(), stage(0, 1)), "stage 0 has no operators"),
        ((stage(0),), "layer 1 is in no stage"),
        ((stage(0, 1), stage(1)), "placed twice"),
        ((stage(0, 1, 5),), "no layer with id 5"),
        ((stage(0, 1, d=0),), "data_parallel is 0"),
        ((stage(0, 1, name="x"),), "no configuration 'x'"),
        (
            (HybridStage(operators=(0, 1), data_parallel=1, tensor_parallel=1, configurations={0: "c"}),),
            "no configuration for layer 1",
        ),
        (
            (
                stage(0),
                HybridStage(operators=(1,), data_parallel=1, tensor_parallel=1, configurations={0: "c", 1: "c"}),
            ),
            "not in the stage",
        ),
    ],
)
def test_what_is_no_plan_is_refused(stages: tuple[HybridStage, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        evaluate(problem(), HybridPlan(stages=stages))
