"""Plans of stages on physical devices: against all layouts, against the plan's own time line, and limits."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

import partita as pt
from partita.conductor.place import place, place_staged, placing_facet, staged_plan, step_on
from partita.nouns.pipeline import Plan, Stage
from partita.nouns.topology import topology
from partita.nouns.topology.counted import counted
from partita.nouns.topology.topology import Topology
from partita.problems.hybrid.layer import Configuration, ContextExpertLayers, Edge, Layer
from partita.problems.hybrid.problem import Hierarchy, HybridProblem
from partita.problems.hybrid.step.layout import MeshLayout, equal_parts, uniform_plan
from partita.problems.hybrid.training import SCHEDULES, ZERO_STAGES, LayerState, Training
from partita.problems.throughput.devices import DeviceKind
from partita.problems.throughput.problem import (
    MicrobatchSchedule,
    MovedTensor,
    StoredParameter,
    ThroughputProblem,
    TimedOperator,
)
from partita.simulator.pipeline import Handover, Pipeline, PipelineStage, StageWork
from partita.simulator.placed import all_reduce_s

RATE = 1e9

#: Of the problems of meshes.
MESH_DEVICES = 768


def row(
    times: list[float], sizes: list[float], *, devices: int, replicas: int = 1, weights: float = 0.0
) -> ThroughputProblem:
    """Training of a chain of operators, each with a backward one of twice its time, on devices of one kind."""
    count = len(times)
    forward = [TimedOperator(id=i, times=(t,), colocation=i) for i, t in enumerate(times)]
    backward = [TimedOperator(id=count + i, times=(2 * t,), colocation=i, backward=True) for i, t in enumerate(times)]
    tensors = [MovedTensor(producer=i, consumers=(i + 1,), size=s) for i, s in enumerate(sizes)]
    tensors += [MovedTensor(producer=count + i + 1, consumers=(count + i,), size=s) for i, s in enumerate(sizes)]
    tensors += [MovedTensor(producer=count - 1, consumers=(2 * count - 1,), size=0.0)]
    return ThroughputProblem(
        name="row",
        kinds=(DeviceKind(name="gpu", count=devices, transfer_time_per_unit=1 / RATE),),
        operators=(*forward, *backward),
        tensors=tuple(tensors),
        parameters=tuple(
            StoredParameter(name=f"w{i}", users=(i, count + i), weight_bytes=weights, gradient_bytes=weights)
            for i in range(count)
        ),
        schedule=MicrobatchSchedule(name="1f1b", microbatches=8),
        max_replicas=replicas,
    )


def plan_of(stages: list[tuple[int, ...]], count: int, replicas: int = 1) -> pt.Plan:
    """Stages of a row with as many replicas of each."""
    numbers = iter(range(len(stages) * replicas))
    rows = []
    for ids in stages:
        first, *more = [f"gpu:{next(numbers)}" for _ in range(replicas)]
        rows.append(
            pt.Stage(
                devices=(first, *more),
                kind="gpu",
                operators=(*ids, *(count + i for i in ids)),
                data_parallel=1 + len(more),
            )
        )
    return pt.Plan(stages=tuple(rows))


def matrix(count: int, seed: int) -> Topology:
    """Devices whose links have nothing in common."""
    draw = np.random.default_rng(seed).uniform(0.2e9, 5e9, (count, count))
    names = tuple(f"d{i}" for i in range(count))
    return Topology(name="random", names=names, bandwidth_bytes_per_s=(draw + draw.T) / 2, machine_of=(0,) * count)


def test_the_mapping_is_the_best_of_all_layouts() -> None:
    problem = row([0.01, 0.02], [4e6], devices=4, replicas=2, weights=3e7)
    plan = plan_of([(0,), (1,)], 2, replicas=2)
    where = matrix(5, 3)
    found = place(problem, plan, where)
    band = where.bandwidth_bytes_per_s
    turns, best = 8 / 2, float("inf")
    for a, b, c, d in itertools.permutations(range(5), 4):
        # Forward and backward tensor, once for each of a replica's microbatches; a ring of two sends all parameters.
        loads = [
            turns * (3 * time + 8e6 / band[mine, peer]) + 3e7 / band[mine, other]
            for time, mine, peer, other in ((0.01, a, c, b), (0.01, b, d, a), (0.02, c, a, d), (0.02, d, b, c))
        ]
        best = min(best, max(loads))
    mapped = min(one.objective for one in found.candidates if one.objective is not None)
    assert mapped == pytest.approx(best, rel=1e-9)
    assert found.result.bound is not None
    assert found.result.bound.value <= best * (1 + 1e-9)
    assert found.chosen.step is not None
    assert found.chosen.step.time == min(one.step.time for one in found.candidates if one.step is not None)


@pytest.mark.parametrize("seed", range(6))
def test_alike_links_change_nothing(seed: int) -> None:
    draw = random.Random(seed)
    count = draw.randint(2, 5)
    problem = row(
        [draw.randint(1, 9) / 100 for _ in range(count)],
        [draw.randint(1, 9) * 1e6 for _ in range(count - 1)],
        devices=4,
    )
    cut = draw.randint(1, count - 1)
    plan = plan_of([tuple(range(cut)), tuple(range(cut, count))], count)
    staged = staged_plan(problem, plan)
    here = Topology(name="flat", names=("a", "b"), bandwidth_bytes_per_s=np.full((2, 2), RATE), machine_of=(0, 0))
    step = step_on(staged, (((0,),), ((1,),)), here)
    assert step is not None
    assert step.time == pytest.approx(pt.simulate(problem, plan).step_time, rel=1e-12)


def test_slow_links_are_paid_by_the_replicas_that_use_them() -> None:
    stage = PipelineStage(replicas=(("",), ("",)), forward=StageWork(1.0))
    staged = Pipeline(
        name="two", unit="s", stages=(stage, stage), handovers=(Handover(0, 1, 2.0),), microbatches=2,
        schedule="forward",
    )  # fmt: skip
    band = np.full((4, 4), 2.0)
    band[1, 3] = band[3, 1] = 0.5
    where = Topology(name="one slow", names=tuple("abcd"), bandwidth_bytes_per_s=band, machine_of=(0,) * 4)
    # Replica 1 of both stages pays 4 at each end; the other one 1.
    step = step_on(staged, (((0,), (1,)), ((2,), (3,))), where)
    assert step is not None
    assert step.time == pytest.approx((1 + 4) + (4 + 1))


def hybrid(degrees: list[tuple[int, int]], devices: int) -> tuple[HybridProblem, Plan]:
    """A chain of layers and a plan with a stage for each, with (replicas, tensor-parallel degree)."""
    layers = tuple(
        Layer(
            id=i,
            name=f"l{i}",
            configurations={t: (Configuration(id="c", time=0.3 / t, weight_bytes=1e6 / t),) for t in (1, 2, 4)},
        )
        for i in range(len(degrees))
    )
    problem = HybridProblem(
        name="h", devices=devices, bandwidth_bytes_per_unit=1e9, microbatches=12, layers=layers,
        edges=tuple(Edge(source=i, target=i + 1, bytes=1e6) for i in range(len(degrees) - 1)),
    )  # fmt: skip
    stages = tuple(
        Stage(operators=(i,), data_parallel=d, tensor_parallel=t, configurations={i: "c"})
        for i, (d, t) in enumerate(degrees)
    )
    return problem, Plan(stages=stages)


@pytest.mark.parametrize(
    "degrees", [[(2, 2), (2, 2)], [(1, 4), (2, 2), (3, 1), (1, 1)], [(4, 1), (2, 1)], [(3, 2), (2, 1)]]
)
def test_groups_are_consecutive_devices_of_a_machine(degrees: list[tuple[int, int]]) -> None:
    problem, plan = hybrid(degrees, 16)
    where = topology("dgx1:2")
    found = place(problem, plan, where)
    for layout in (one.layout for one in found.candidates if one.names != ("in order",)):
        taken = [device for stage in layout for group in stage for device in group]
        assert len(taken) == len(set(taken))
        for stage, (d, t) in zip(layout, degrees, strict=True):
            assert len(stage) == d
            for group in stage:
                assert list(group) == list(range(group[0], group[0] + t))
                assert len({where.machine_of[device] for device in group}) == 1
    assert found.result.objective is not None
    assert found.result.bound is not None
    assert found.result.bound.value <= found.result.objective * (1 + 1e-9)


def test_a_pipeline_stays_inside_a_machine() -> None:
    problem = row([0.01] * 4, [1e7] * 3, devices=8)
    plan = plan_of([(0,), (1,), (2,), (3,)], 4)
    where = topology("two-level:2x4")
    found = place(problem, plan, where)
    assert len({where.machine_of[d] for stage in found.chosen.layout for group in stage for d in group}) == 1


def test_a_stage_goes_to_devices_that_can_run_it() -> None:
    kinds = (
        DeviceKind(name="A100-40GB", count=2, transfer_time_per_unit=1 / RATE),
        DeviceKind(name="T4", count=2, transfer_time_per_unit=1 / RATE),
    )
    problem = ThroughputProblem(
        name="mixed",
        kinds=kinds,
        operators=(TimedOperator(id=0, times=(1.0, 5.0)), TimedOperator(id=1, times=(1.0, None))),
        tensors=(MovedTensor(producer=0, consumers=(1,), size=1e9),),
    )
    plan = pt.Plan(
        stages=(
            pt.Stage(devices=("T4:0",), kind="T4", operators=(0,)),
            pt.Stage(devices=("A100-40GB:0",), kind="A100-40GB", operators=(1,)),
        )
    )
    band = np.full((4, 4), 1e9)
    mixed = Topology(
        name="mixed", names=tuple("abcd"), bandwidth_bytes_per_s=band, machine_of=(0,) * 4,
        kinds=("T4", "T4", "A100-40GB", "A100-40GB"),
    )  # fmt: skip
    layout = place(problem, plan, mixed).chosen.layout
    # Both stages are best on the fast devices, and the second can only run there.
    assert {layout[0][0][0], layout[1][0][0]} == {2, 3}


def test_what_cannot_be_placed_is_refused() -> None:
    problem = row([0.01, 0.02], [4e6], devices=2)
    plan = plan_of([(0,), (1,)], 2)
    with pytest.raises(pt.InputError, match="needs 2 devices, and flat:1"):
        place(problem, plan, topology("flat:1"))
    in_ms = problem.replace(unit="ms")
    with pytest.raises(pt.InputError, match="times of transfers"):
        place(in_ms, plan, topology("flat:2"))
    wide, groups = hybrid([(1, 4)], 4)
    with pytest.raises(pt.InputError, match="groups of 4 consecutive devices"):
        place(wide, groups, topology("two-level:2x2"))


def test_a_circle_of_stages_has_a_mapping_and_no_step() -> None:
    stage = PipelineStage(replicas=(("gpu:0",),), forward=StageWork(1.0))
    staged = Pipeline(
        name="circle", unit="s", stages=(stage, stage), handovers=(Handover(0, 1, 1e9), Handover(1, 0, 1e9)),
        schedule="forward", row=False,
    )  # fmt: skip
    found = place_staged(staged, topology("two-level:2x2"))
    assert found.chosen.step is None
    assert found.in_order is None
    assert found.chosen.objective == pytest.approx(1 + 2e9 / 11e9)


def test_layouts_and_mappings_say_the_same() -> None:
    problem, plan = hybrid([(1, 4), (2, 2), (3, 1), (1, 1)], 16)
    placing = placing_facet().placing(staged_plan(problem, plan), topology("dgx1:2"))
    mapping = pt.solve(placing.problem, time_limit_s=1.0).plan
    assert placing.plan(placing.layout(mapping)) == mapping


def test_replicas_exchange_in_levels_over_machines() -> None:
    work = StageWork(1.0)
    stage = PipelineStage(replicas=(("",),) * 4, forward=work, backward=work, parameter_bytes=4.0)
    staged = Pipeline(name="one", unit="s", stages=(stage,), microbatches=4)
    where = topology("two-level:2x2:inside=4:between=1")
    layout = (((0,), (1,), (2,), (3,)),)
    band = where.bandwidth_bytes_per_s
    assert all_reduce_s(stage, layout[0], band) == pytest.approx(2 * 3 / 4 * 4.0 / 1)
    # Half of it in each machine's ring of two, and two halves at once between the machines.
    assert all_reduce_s(stage, layout[0], band, where.machine_of) == pytest.approx(4.0 / 4 + 2.0 / 1)
    # Seven of eight parts of the gradients are there before the backward part ends; 3/8 s each.
    step = step_on(staged, layout, where)
    assert step is not None
    assert step.time == pytest.approx(1 + 1 / 8 + 3.0)


# -- steps of uniform meshes -------------------------------------------------------------------------------------------


def mesh_plan(seed: int, context: int = 1, expert: int = 1) -> tuple[HybridProblem, Plan]:
    """Layers with weights on machines of four devices, under any schedule, degrees and stage of ZeRO that run."""
    draw = random.Random(seed)
    stages, data, tensor = draw.choice((1, 2, 3)), draw.choice((1, 2, 4, 8)), draw.choice((1, 2))
    data *= max(1, expert // context)
    schedule = draw.choice(("1f1b", "gpipe", "zero-bubble"))
    count = stages * draw.randint(1, 2)
    layers = []
    for v in range(count):
        time = draw.randint(1, 9)
        choice = Configuration(
            id="none",
            time=time,
            forward_time=draw.choice((None, time / 4)),
            memory_per_microbatch_bytes=1.0,
            sync_in_bytes={v - 1: draw.randint(0, 2)} if v else {},
            sync_out_bytes={v + 1: draw.randint(0, 2)} if v + 1 < count else {},
        )
        state = LayerState(
            parameter_bytes=draw.randint(0, 4),
            gradient_bytes=draw.randint(0, 8),
            optimizer_bytes=4.0,
            update_time=draw.choice((0.0, 0.5)),
            weight_gradient_time=draw.choice((None, 0.0, 1.0)),
            experts=LayerState(
                parameter_bytes=draw.randint(0, 4),
                gradient_bytes=draw.randint(0, 8),
                optimizer_bytes=2.0,
                update_time=draw.choice((0.0, 0.5)),
            )
            if expert > 1 and draw.random() < 0.7
            else None,
        )
        layers.append(Layer(id=v, configurations={tensor: (choice,)}, states={tensor: state}))
    problem = HybridProblem(
        name=f"mesh {seed}",
        unit="s",
        devices=MESH_DEVICES,
        bandwidth_bytes_per_unit=4.0,
        microbatches=data * draw.randint(stages, 6),
        layers=tuple(layers),
        spreads=(ContextExpertLayers(context=context, expert=expert, layers=tuple(layers), reserves={}),)
        if context * expert > 1
        else (),
        edges=tuple(Edge(source=v, target=v + 1, bytes=draw.randint(1, 6)) for v in range(count - 1)),
        hierarchy=Hierarchy(devices_per_machine=4, machine_bandwidth_bytes_per_unit=draw.choice((2.0, 8.0))),
        training=Training(
            schedules=SCHEDULES,
            zero=ZERO_STAGES,
            overlap=draw.random() < 0.7,
            occupied=draw.choice((0.0, 0.25)),
            call_times=(0.25, 0.5),
            hop_times=(0.125, 0.25),
            switched=(True, False),
        ),
    )
    layout = MeshLayout(
        tensor=tensor,
        pipeline=stages,
        data=data,
        zero=draw.choice(ZERO_STAGES),
        schedule=schedule,
        context=context,
        expert=expert,
    )
    starts = [0, *sorted(draw.sample(range(1, count), stages - 1))]
    return problem, uniform_plan(
        problem, layers, equal_parts(count, starts), dict.fromkeys(range(count), "none"), layout
    )


def machines_of(problem: HybridProblem) -> tuple[Topology, Topology]:
    """The machines of a mesh with all links listed, and counted."""
    assert problem.hierarchy is not None
    machine_of = tuple(device // 4 for device in range(MESH_DEVICES))
    outside = problem.hierarchy.machine_bandwidth_bytes_per_unit / 4
    matrix = np.where(np.equal.outer(machine_of, machine_of), 4.0, outside)
    return tuple(
        Topology(
            name="machines",
            names=tuple(f"d{device}" for device in range(MESH_DEVICES)),
            bandwidth_bytes_per_s=links,
            machine_of=machine_of,
        )
        for links in (matrix, counted([(4, 4.0, outside)] * (MESH_DEVICES // 4)))
    )


#: Groups that share out the sequence, and experts.
SHARED = [(1, 1), (2, 1), (4, 1), (1, 2), (1, 4), (2, 2), (2, 4), (4, 2), (8, 1), (1, 8)]


@pytest.mark.parametrize(
    ("seed", "context", "expert"),
    [(seed, *shared) for shared in SHARED for seed in range(60 if shared == (1, 1) else 10)],
)
def test_a_mesh_in_the_order_of_its_ranks_takes_what_its_time_line_does(seed: int, context: int, expert: int) -> None:
    problem, plan = mesh_plan(seed, context, expert)
    here, counted_here = machines_of(problem)
    staged = staged_plan(problem, plan)
    step = step_on(staged, tuple(stage.own for stage in staged.stages), here)
    assert step is not None
    assert step.time == pytest.approx(pt.simulate(problem, plan).step_time, rel=1e-9)
    if len(plan.stages) == 1:
        assert step.time == pytest.approx(pt.evaluate(problem, plan).objective, rel=1e-9)
    again = step_on(staged, tuple(stage.own for stage in staged.stages), counted_here)
    assert again is not None
    assert again.time == pytest.approx(step.time, rel=1e-12)


def test_tensors_stay_in_a_machine_where_a_block_fills_several() -> None:
    plans = (mesh_plan(seed, context=2) for seed in itertools.count())
    problem, plan = next(one for one in plans if one[1].stages[0].tensor_parallel == 2)
    staged = staged_plan(problem, plan)
    placing = placing_facet().placing(staged, topology("two-level:384x2"))
    assert placing.problem.device_count == 192
    with pytest.raises(pt.InputError, match="groups of 4 consecutive devices that fill machines"):
        placing_facet().placing(staged, topology("two-level:768x1"))
