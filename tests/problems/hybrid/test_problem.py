"""What a hybrid problem and its plans accept, and the messages for what they do not."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from partita.conductor.judge import evaluate
from partita.ground.errors import InputError
from partita.nouns.pipeline import Plan, Stage
from partita.problems.hybrid.layer import Configuration, Edge, Layer
from partita.problems.hybrid.problem import Hierarchy, HybridProblem


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


def stage(*operators: int, d: int = 1, t: int = 1, name: str = "c") -> Stage:
    return Stage(operators=operators, data_parallel=d, tensor_parallel=t, configurations=dict.fromkeys(operators, name))


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


@pytest.mark.parametrize(
    ("size", "bandwidth", "message"),
    [
        (0, 1.0, "devices_per_machine is 0"),
        (3, 1.0, "take 3 or 6 devices"),
        (2, 0.0, "machine_bandwidth_bytes_per_unit is 0"),
        (2, inf, "finite"),
    ],
)
def test_bad_machines_are_refused(size: int, bandwidth: float, message: str) -> None:
    with pytest.raises(InputError, match=message):
        problem(hierarchy=Hierarchy(devices_per_machine=size, machine_bandwidth_bytes_per_unit=bandwidth))


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
    found = evaluate(problem(memory_bytes=5.0), Plan(stages=(stage(0), stage(1, d=2))))
    assert [entry.time_per_microbatch for entry in found.stages] == [2.0 + 6.0, 2.0 + 3.0 + 1.5]
    assert (found.objective, found.feasible) == (8.0, True)
    assert [entry.in_flight for entry in found.stages] == [3, 1]
    assert [entry.memory_bytes for entry in found.stages] == [0.0, 5.0]


def test_what_tensor_parallel_groups_move_counts_at_the_boundary() -> None:
    """Beside the edge's 6 bytes the first layer's group moves 3 on the way back, the second's 1 on the way in."""
    layers = (layer(0, time=2.0, sync_out_bytes={1: 3.0}), layer(1, time=4.0, sync_in_bytes={0: 1.0}))
    found = evaluate(problem(layers=layers), Plan(stages=(stage(0), stage(1))))
    assert [entry.transfer for entry in found.stages] == [2 * (6 + 3) / 2, 2 * (6 + 1) / 2]
    together = evaluate(problem(layers=layers), Plan(stages=(stage(0, 1),)))
    assert [entry.transfer for entry in together.stages] == [0.0]


def test_edges_inside_a_stage_move_nothing() -> None:
    """Of three layers in a row the first two share a stage: 2·5/2 between the stages."""
    edges = (Edge(source=0, target=1, bytes=7.0), Edge(source=1, target=2, bytes=5.0))
    found = evaluate(problem(layers=(layer(0), layer(1), layer(2)), edges=edges), Plan(stages=(stage(0, 1), stage(2))))
    assert found.feasible
    assert [entry.transfer for entry in found.stages] == [5.0, 5.0]


def test_all_devices_and_microbatches_may_be_used() -> None:
    found = evaluate(problem(devices=4, microbatches=4), Plan(stages=(stage(0), stage(1, d=3))))
    assert found.violations == ()


def test_every_layer_without_the_degree_is_named() -> None:
    found = evaluate(problem(), Plan(stages=(stage(0, 1, t=2),)))
    assert found.violations == (
        "layer 0 has no configuration of degree 2 (stage 0)",
        "layer 1 has no configuration of degree 2 (stage 0)",
    )


def test_weights_synchronised_once_per_batch() -> None:
    plan = Plan(stages=(stage(0), stage(1, d=2)))
    found = evaluate(problem(weight_sync_per_batch=True), plan)
    assert found.stages[1].weight_sync == 4 * 1 * 3 / (2 * 4 * 2)
    assert evaluate(problem(weight_sync_per_batch=True, microbatches=3), plan).violations == (
        "stage 1: data-parallel degree 2 does not divide the 3 microbatches",
    )


def nested(*groups: tuple[int, tuple[Stage, ...]]) -> Plan:
    """Groups of stages with their machines; the stages' data parallelism is per machine."""
    return Plan(
        stages=tuple(
            Stage(
                operators=part.operators,
                data_parallel=part.data_parallel * machines,
                tensor_parallel=part.tensor_parallel,
                configurations=part.configurations,
                machines=machines,
                machine_group=number,
            )
            for number, (machines, parts) in enumerate(groups)
            for part in parts
        )
    )


PAIRS = Hierarchy(devices_per_machine=2, machine_bandwidth_bytes_per_unit=0.5)


def test_a_plan_on_machines_by_hand() -> None:
    """The second layer on two machines of two devices: synchronised inside each, then between them."""
    built = problem(devices=6, microbatches=5, memory_bytes=10.0, hierarchy=PAIRS)
    found = evaluate(built, nested((1, (stage(0),)), (2, (stage(1, d=2),))))
    assert found.feasible, found.violations
    first, second = found.stages
    assert (first.compute, first.transfer, first.weight_sync, first.in_flight) == (2.0, 6.0, 0.0, 5)
    # d = 4: 4/4, 2·6/(4·2), and 4·(1/2)·3/(2·2·2) for two microbatches of each machine, of which there are two.
    assert (second.compute, second.transfer, second.weight_sync) == (1.0, 1.5, 4 * 1 * 3 / (2 * 4 * 2))
    assert (second.in_flight, second.memory_bytes) == (1, 5.0)
    # Links between machines: 2·6/(d·0.5), and 4·1·3/(2·2·0.5).
    assert [(g.machines, g.transfer, g.weight_sync) for g in found.machine_groups] == [(1, 24.0, 0.0), (2, 12.0, 6.0)]
    assert [g.time_per_microbatch for g in found.machine_groups] == [24.0, 18.0]
    assert found.objective == 24.0


def test_machines_once_per_batch() -> None:
    built = problem(devices=4, microbatches=8, weight_sync_per_batch=True, hierarchy=PAIRS)
    found = evaluate(built, nested((2, (stage(0, 1, d=2),))))
    assert found.stages[0].weight_sync == 4 * 1 * 3 / (2 * 8 * 2)
    assert found.machine_groups[0].weight_sync == 4 * 1 * 3 / (2 * 8 * 0.5)


def test_stages_of_one_machine_move_nothing_between_machines() -> None:
    found = evaluate(problem(hierarchy=PAIRS), nested((1, (stage(0), stage(1)))))
    assert (found.feasible, found.objective) == (True, 10.0)
    assert found.machine_groups[0].time_per_microbatch == 0.0


def test_whole_weights_are_the_smallest_over_degrees_unless_given() -> None:
    ways = {t: (Configuration(id="c", time=1.0, weight_bytes=w),) for t, w in ((1, 8.0), (2, 3.0))}
    assert Layer(id=0, configurations=ways).whole_weight_bytes == 6.0
    assert Layer(id=0, configurations=ways, weight_bytes=7.0).whole_weight_bytes == 7.0


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (nested((3, (stage(0, 1),))), "use 3 machines, the problem has 2"),
        (nested((1, (stage(0, d=2), stage(1)))), "group 0 needs 3 devices in each machine"),
    ],
)
def test_too_many_machines_are_violations(plan: Plan, message: str) -> None:
    found = evaluate(problem(microbatches=9, hierarchy=PAIRS), plan)
    assert not found.feasible
    assert any(message in text for text in found.violations)


def placed(d: int, machines: int | None, group: int | None) -> Stage:
    return Stage(
        operators=(0,) if group in (0, None) else (1,),
        data_parallel=d,
        tensor_parallel=1,
        configurations={0 if group in (0, None) else 1: "c"},
        machines=machines,
        machine_group=group,
    )


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        ((stage(0), stage(1)), "does not say on how many machines"),
        ((placed(3, 2, 0), placed(2, 2, 1)), "not a multiple of its 2 machines"),
        ((placed(1, 0, 0), placed(2, 2, 1)), "not a multiple of its 0 machines"),
        ((placed(1, 1, 0), placed(2, 2, 2)), "group 2 after group 0"),
        ((placed(1, 1, None), placed(2, 2, 1)), "does not say on how many machines"),
        ((placed(1, None, 0), placed(2, 2, 1)), "does not say on how many machines"),
        (
            (placed(2, 2, 0), msgspec.structs.replace(placed(1, 1, 1), machine_group=0)),
            "runs on 1 machines, the stage before it in machine group 0 on 2",
        ),
    ],
)
def test_what_is_no_plan_on_machines_is_refused(stages: tuple[Stage, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        evaluate(problem(hierarchy=PAIRS), Plan(stages=stages))


@pytest.mark.parametrize("fields", [{"machines": 1}, {"machine_group": 0}, {"machines": 1, "machine_group": 0}])
def test_machines_need_a_hierarchy(fields: dict[str, int]) -> None:
    with pytest.raises(InputError, match="has no hierarchy"):
        evaluate(problem(), Plan(stages=(msgspec.structs.replace(stage(0, 1), **fields),)))


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
def test_broken_limits_are_violations(changes: dict[str, Any], stages: tuple[Stage, ...], message: str) -> None:
    found = evaluate(problem(**changes), Plan(stages=stages))
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
            (Stage(operators=(0, 1), data_parallel=1, tensor_parallel=1, configurations={0: "c"}),),
            "no configuration for layer 1",
        ),
        (
            (
                stage(0),
                Stage(operators=(1,), data_parallel=1, tensor_parallel=1, configurations={0: "c", 1: "c"}),
            ),
            "not in the stage",
        ),
    ],
)
def test_what_is_no_plan_is_refused(stages: tuple[Stage, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        evaluate(problem(), Plan(stages=stages))
