"""Bounds of the search over stages and replicas, against every split and placement of small problems.

``SEEDS`` makes it longer: ``SEEDS=0:2000 pytest tests/conductor/test_search_bounds.py``.
"""

from __future__ import annotations

import math
import os
import random
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import partita as pt
from conductor.placements import instance, shortest, splits, topology
from conductor.test_search_hybrid import FACET as HYBRID
from conductor.test_search_hybrid import plans, problem_of
from partita.conductor import search as module
from partita.conductor.place import staged_plan
from partita.conductor.search import search_stages, shape_bound
from partita.nouns.topology.topology import Topology
from partita.problems import kind_of
from partita.problems.facets.stages import Replication
from partita.problems.throughput.devices import DeviceKind
from partita.problems.throughput.problem import MicrobatchSchedule, MovedTensor, ThroughputProblem, TimedOperator
from partita.simulator.fastest import FastLinks, fast_links, least_collective_s, least_ring_s, least_step
from partita.simulator.pipeline import Exchange, Exchanged, Pipeline, PipelineStage, StageWork
from partita.simulator.placed import placed_step
from problems.hybrid.brute_force_step import meshes

FIRST, LAST = (int(part) for part in os.environ.get("SEEDS", "0:5").split(":"))


def replicas_of(problem: object) -> Replication[object, object]:
    facet = kind_of(problem).replicas
    assert facet is not None
    return facet


def test_no_split_and_placement_of_throughput_plans_is_below_the_bounds() -> None:
    looked = several = close = 0
    for seed in range(FIRST, LAST):
        draw = random.Random(seed)
        problem, where = instance(seed)
        facet, links = replicas_of(problem), fast_links(where.bandwidth_bytes_per_s, where.machine_of)
        shapes = [shape for shape in facet.shapes(problem) if shape.devices <= where.device_count]
        for shape in draw.sample(shapes, min(4, len(shapes))):
            bound = shape_bound(shape, links)
            for stages in range(1, min(shape.stages, len(problem.operators) // 2) + 1):
                for plan in splits(problem, stages, shape.replicas):
                    whole, spread = facet.spread(problem, shape, plan)
                    if not kind_of(whole).evaluate(whole, spread).feasible:
                        continue
                    staged = staged_plan(whole, spread)
                    best = shortest(staged, where, 24, draw)
                    if math.isinf(best):
                        continue
                    least = least_step(staged, links)
                    assert bound <= best, (seed, shape.name, plan)
                    assert least <= best, (seed, shape.name, plan)
                    looked, several = looked + 1, several + (len(problem.kinds) > 1)
                    close += least > best * (1 - 1e-6)
    tried = LAST - FIRST
    assert looked > 10 * tried
    assert several > 5 * tried
    assert close > looked / 4, "a bound that is met nowhere may be far too low"


def test_no_plan_and_placement_of_a_step_is_below_the_bounds() -> None:
    looked = levels = close = sharded = 0
    for seed in range(FIRST, FIRST + 3 * (LAST - FIRST)):
        draw = random.Random(seed)
        problem, where = problem_of(seed, sharded=seed % 2 == 0), topology(draw, fast=draw.choice((0.3, 3.0, 30.0)))
        links = fast_links(where.bandwidth_bytes_per_s, where.machine_of)
        shapes = {shape.mesh: shape for shape in HYBRID.shapes(problem) if shape.devices <= where.device_count}
        for mesh in meshes(problem):
            shape = shapes.get((mesh.stages, mesh.data, mesh.tensor, mesh.zero, mesh.zero_shards, mesh.schedule))
            if shape is None:
                continue
            bound = shape_bound(shape, links)
            of_mesh = list(plans(mesh, draw))
            for plan in draw.sample(of_mesh, min(4, len(of_mesh))):
                if not kind_of(problem).evaluate(problem, plan).feasible:
                    continue
                staged = staged_plan(problem, plan)
                best = shortest(staged, where, 24, draw)
                least = least_step(staged, links)
                assert bound <= best, (seed, shape.name, plan)
                assert least <= best, (seed, shape.name, plan)
                looked, levels = looked + 1, levels + (len(links.machines) > 1 and shape.replicas > 1)
                sharded += plan.zero_shards > 0
                close += least > best * (1 - 1e-6)
    tried = LAST - FIRST
    assert looked > 10 * tried
    assert levels > tried
    assert sharded > tried
    assert close > looked / 4, "a bound that is met nowhere may be far too low"


# -- what went wrong once -----------------------------------------------------------------------------------------


def two_kinds() -> tuple[ThroughputProblem, Topology]:
    """Two operators in a row on four devices, two of each kind: one is quick forward, the other one backward."""
    times = [((1.0, 4.0), (9.0, 7.0)), ((4.0, 6.0), (3.0, 2.0))]
    operators = [TimedOperator(id=i, times=forward, colocation=i) for i, (forward, _) in enumerate(times)]
    operators += [
        TimedOperator(id=2 + i, times=backward, colocation=i, backward=True) for i, (_, backward) in enumerate(times)
    ]
    problem = ThroughputProblem(
        name="two kinds",
        kinds=tuple(DeviceKind(name=name, count=1, transfer_time_per_unit=1e-9) for name in ("a", "b")),
        operators=tuple(operators),
        tensors=(
            MovedTensor(producer=0, consumers=(1,), size=1.0),
            MovedTensor(producer=1, consumers=(3,), size=0.0),
            MovedTensor(producer=3, consumers=(2,), size=1.0),
        ),
        schedule=MicrobatchSchedule(name="gpipe", microbatches=4),
    )
    where = Topology(
        name="two", names=("0", "1"), bandwidth_bytes_per_s=np.full((2, 2), 1e9), machine_of=(0, 0), kinds=("a", "b")
    )
    return problem, where


def test_under_gpipe_the_kind_with_the_least_sum_is_no_bound() -> None:
    """Forward and backward parts meet the slowest stage of each, so that a larger sum may be the shorter step."""
    problem, where = two_kinds()
    links = fast_links(where.bandwidth_bytes_per_s, where.machine_of)
    steps = {}
    for plan in splits(problem, 2):
        staged = staged_plan(problem, plan)
        steps[tuple(stage.kind for stage in plan.stages)] = shortest(staged, where)
        assert least_step(staged, links) <= shortest(staged, where)
        summed = replace(staged, stages=tuple(least_sum(stage) for stage in staged.stages))
        assert shortest(summed, where) > shortest(staged, where), "the case shows nothing any more"
    assert len(steps) == 2


def least_sum(stage: PipelineStage) -> PipelineStage:
    """A stage on the kind on which forward and backward parts together are shortest."""
    kind = min(stage.work_s, key=lambda name: sum(stage.work_s[name]))
    return replace(stage, kind="", work_s={"": stage.work_s[kind]})


def two_machines(across: float = 50e9) -> Topology:
    """Two machines of eight devices, 450 GB/s inside and 50 GB/s between them."""
    machine_of = tuple(number // 8 for number in range(16))
    same = np.equal.outer(machine_of, machine_of)
    return Topology(
        name="two machines", names=tuple(map(str, range(16))), machine_of=machine_of,
        bandwidth_bytes_per_s=np.where(same, 450e9, across),
    )  # fmt: skip


@pytest.mark.parametrize(("kind", "scattered"), [("all-reduce", False), ("reduce-scatter", True)])
def test_levels_that_go_on_at_once_are_no_flat_ring(kind: str, scattered: bool) -> None:
    """Sixteen replicas send 7/8 of their gradients inside and 1/16 across, at once: less than 15/16 around one ring."""
    where, size = two_machines(), 1e10
    exchange = Exchange(
        forward_s=(0.0,), backward_s=(0.0,), reduce_bytes=(size,), gather_bytes=(0.0,), reduce_wait_s=(0.0,),
        gather_wait_s=(0.0,), scattered=scattered, overlap=False,
    )  # fmt: skip
    nothing = StageWork()
    stage = PipelineStage(replicas=(("",),) * 16, forward=nothing, backward=nothing, exchange=exchange)
    plan = Pipeline(name="one stage", unit="s", stages=(stage,), microbatches=16)
    layout = (tuple((device,) for device in range(16)),)
    step = placed_step(plan, layout, where.bandwidth_bytes_per_s, machine_of=where.machine_of).time
    links = fast_links(where.bandwidth_bytes_per_s, where.machine_of)
    rate = least_collective_s(kind, 16, links)
    twice = 1 if scattered else 2
    assert step == pytest.approx(twice * 7 / 8 * size / 450e9)
    assert size * rate == pytest.approx(step)
    assert least_step(plan, links) <= step
    assert least_step(plan, links) == pytest.approx(step)
    # One ring over the fastest link, and levels one after the other, both take longer.
    assert twice * 15 / 16 * size / 450e9 > step
    if not scattered:
        assert size * least_ring_s(16, links) > step


def test_experts_and_shares_have_levels_too() -> None:
    """Of sixteen devices eight groups of two hold an expert: 3/4 of it passes links inside, 1/8 those between."""
    where, size = two_machines(across=150e9), 1e10
    exchange = Exchange(
        forward_s=(0.0,), backward_s=(0.0,), reduce_bytes=(0.0,), gather_bytes=(0.0,), reduce_wait_s=(0.0,),
        gather_wait_s=(0.0,), scattered=True, overlap=False,
        experts=Exchanged(
            reduce_bytes=(size,), gather_bytes=(0.0,), reduce_wait_s=(0.0,), gather_wait_s=(0.0,), width=2
        ),
    )  # fmt: skip
    nothing, links = StageWork(), fast_links(where.bandwidth_bytes_per_s, where.machine_of)
    layout = (tuple((device,) for device in range(16)),)

    def steps(exchange: Exchange) -> tuple[float, float]:
        stage = PipelineStage(replicas=(("",),) * 16, forward=nothing, backward=nothing, exchange=exchange)
        plan = Pipeline(name="one stage", unit="s", stages=(stage,), microbatches=16)
        step = placed_step(plan, layout, where.bandwidth_bytes_per_s, machine_of=where.machine_of).time
        return step, least_step(plan, links)

    step, least = steps(exchange)
    assert step == pytest.approx(3 / 4 * size / 450e9)
    assert step * (1 - 1e-6) <= least <= step
    # Eight devices of a machine share the sum out, and the two that have a share sum it up.
    shares = replace(exchange, experts=None, reduce_bytes=(size,), copies=2, sum_bytes=(size / 8,), sum_wait_s=(0.0,))
    step, least = steps(shares)
    assert step == pytest.approx(7 / 8 * size / 450e9 + size / 8 / 150e9)
    assert least <= step
    # Four of the eight may be in either machine, and then the two are in one.
    assert least == pytest.approx(3 / 4 * size / 450e9 + size / 8 / 450e9)


def test_where_replicas_may_be() -> None:
    """By hand: in one machine, unevenly over several, or as many in each."""
    links = FastLinks(inside=8.0, across=1.0, machines=(4, 4, 2))
    assert least_collective_s("all-gather", 1, links) == 0
    assert least_collective_s("all-gather", 4, links) == pytest.approx(3 / 4 / 8)
    # Three in each of two machines.
    assert least_collective_s("all-gather", 6, links) == pytest.approx(max(2 / 3 / 8, 1 / 2 / 3))
    assert least_ring_s(6, links) == pytest.approx(2 * (2 / 3 / 8 + 1 / 2 / 3))
    # Of five no two machines have as many, and no machine has ten.
    assert least_collective_s("all-gather", 5, links) == pytest.approx(4 / 5)
    assert least_collective_s("all-gather", 10, links) == pytest.approx(9 / 10)
    assert fast_links(np.ones((1, 1)), (0,)).fastest == 1.0


def test_a_split_that_ended_by_its_clock_is_not_known() -> None:
    """It may well fit: nothing is said but that there was no time."""
    problem, _ = instance(next(s for s in range(50) if len(instance(s)[0].operators) == 8))
    found = module._split(replicas_of(problem).shapes(problem)[0], seed=0, threads=1, time_limit_s=0.0)
    assert found.late
    assert found.plan is not None or found.outcome == "no time"


@pytest.mark.parametrize(
    ("infeasible", "lossless", "time_limit_s", "outcome"),
    [
        (False, True, 0.0, "no time"),
        (False, True, 20.0, "no plan found"),
        (True, True, 0.0, "does not fit"),
        (True, False, 0.0, "no time"),
        (True, False, 20.0, "no plan found"),
    ],
)
def test_only_a_lossless_proof_says_that_a_shape_does_not_fit(
    monkeypatch: pytest.MonkeyPatch, infeasible: bool, lossless: bool, time_limit_s: float, outcome: str
) -> None:
    problem, _ = instance(FIRST)
    shape = replicas_of(problem).shapes(problem)[0]
    nothing = SimpleNamespace(plan=None, infeasible=infeasible, lossless=lossless)
    monkeypatch.setattr(module, "replicas_of", lambda _: SimpleNamespace(split=lambda *_: nothing))
    assert module._split(shape, seed=0, threads=1, time_limit_s=time_limit_s).outcome == outcome


def test_splits_without_time_make_no_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, where = instance(next(s for s in range(50) if len(instance(s)[0].operators) == 8))
    monkeypatch.setattr(module, "_split", lambda shape, **settings: module._Split(None, "no time", late=True))
    with pytest.raises(pt.InputError, match=r"no plan was found for small \(\d+ no time\)"):
        search_stages(problem, where, time_limit_s=None)
    plan = next(splits(problem, 1))
    known = [("by hand", problem, plan)]
    found = search_stages(problem, where, known=known, time_limit_s=None)
    assert not found.finished
    assert {one.outcome for one in found.explored[1:]} <= {"no time", "cannot be better"}
    assert any(one.outcome == "no time" for one in found.explored)


def test_what_does_not_fit_has_no_plan() -> None:
    """Little memory, so that some shapes fit and others do not."""
    outcomes = []
    for seed in range(FIRST, LAST):
        problem, where = instance(seed)
        facet = replicas_of(problem)
        whole_model = sum(p.weight_bytes + p.gradient_bytes + p.optimizer_bytes for p in problem.parameters)
        whole_model += sum(op.memory_bytes for op in problem.operators)
        small = problem.replace(memory_bytes=0.4 * whole_model + 1.0)
        for shape in facet.shapes(small):
            if shape.devices > where.device_count:
                continue
            found = module._split(shape, seed=0, threads=1, time_limit_s=20.0)
            outcomes.append("fits" if found.plan is not None else found.outcome)
            if outcomes[-1] != "does not fit":
                continue
            for stages in range(1, min(shape.stages, len(problem.operators) // 2) + 1):
                for plan in splits(small, stages, shape.replicas):
                    whole, spread = facet.spread(small, shape, plan)
                    assert not kind_of(whole).evaluate(whole, spread).feasible, (seed, shape.name, plan)
    assert outcomes.count("does not fit") > LAST - FIRST
    assert outcomes.count("fits") > LAST - FIRST


def test_a_bound_is_of_the_shape_and_another_one_of_its_split() -> None:
    """The split of a shape is the best one for the objective; its own bound says nothing of other splits."""
    problem, where = instance(next(s for s in range(50) if len(instance(s)[0].operators) == 8))
    found = search_stages(problem, where, time_limit_s=None)
    links = fast_links(where.bandwidth_bytes_per_s, where.machine_of)
    splitted = [one for one in found.explored if one.split_bound is not None]
    assert splitted
    for one in found.explored:
        assert one.shape is not None
        assert one.bound == shape_bound(one.shape, links)
    assert any(one.split_bound > one.bound for one in splitted if one.bound is not None and one.split_bound is not None)
