"""build_instance against evaluate and the brute force: contraction loses nothing, and the arrays mean what they say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from instances.strategies import examples, plans, throughput_problems
from partita.engines.kernels.graph_arrays import lists
from partita.nouns.pipeline import Plan
from partita.problems.throughput.contiguity import colocation_classes
from partita.problems.throughput.contraction.instance import Instance, build_instance
from partita.problems.throughput.evaluate import evaluate
from partita.problems.throughput.problem import ThroughputProblem
from second_opinions import brute_force
from second_opinions.instance_reference import best_over_items, instance_load, instance_memory


def _items_of_stages(problem: ThroughputProblem, instance: Instance, plan: Plan) -> list[list[int]]:
    item_of = {op.id: int(item) for op, item in zip(problem.operators, instance.group, strict=True)}
    return [sorted({item_of[identity] for identity in stage.operators}) for stage in plan.stages]


def _check_stages(problem: ThroughputProblem, instance: Instance, plan: Plan) -> None:
    evaluation = evaluate(problem, plan)
    kinds = {kind.name: number for number, kind in enumerate(problem.kinds)}
    stages = _items_of_stages(problem, instance, plan)
    assert sum(map(len, stages)) == instance.items, "an acyclic plan splits an item"
    for stage, items in zip(evaluation.stages, stages, strict=True):
        load, backward = instance_load(instance, items, kinds[stage.kind])
        supported = np.isfinite(load)
        assert supported == all(
            op.times[kinds[stage.kind]] is not None
            for op, item in zip(problem.operators, instance.group, strict=True)
            if item in items
        )
        if supported:
            assert load == stage.load
            assert stage.compute_backward <= backward <= load
        assert instance_memory(instance, items, stage.in_flight) == stage.memory.total
        if not instance.positional:
            assert instance_memory(instance, items, 1 + stage.in_flight) >= stage.memory.total


@examples(200)
@given(throughput_problems(max_operators=6, max_devices=4))
def test_loads_and_memories_of_acyclic_plans(problem: ThroughputProblem) -> None:
    """Every stage of acyclic plans costs the same by the arrays as by evaluate."""
    instance = build_instance(problem)
    for _, plan in zip(range(60), brute_force.all_plans(problem, "acyclic"), strict=False):
        _check_stages(problem, instance, plan)


@examples(200)
@given(
    throughput_problems(max_operators=7).flatmap(
        lambda p: st.tuples(st.just(p), plans(p, keep_classes=True, contiguity="free"))
    )
)
def test_loads_and_memories_of_free_plans(case: tuple[ThroughputProblem, Plan]) -> None:
    """A free instance describes every plan that keeps classes, cyclic ones too."""
    problem, plan = case
    _check_stages(problem, build_instance(problem, free=True), plan)


@examples(200)
@given(throughput_problems() | throughput_problems(training=True, memory=True, recompute=True, unsupported=False))
def test_contraction_is_lossless(problem: ThroughputProblem) -> None:
    """The best split of the items is the best split of the operators (for the plain objective)."""
    assume(not problem.gpipe)
    assert best_over_items(build_instance(problem)) == brute_force.best_acyclic(problem)


@given(throughput_problems(memory=True, schedules=("1f1b",), training=True))
def test_memory_depends_on_the_position_only_where_it_says_so(problem: ThroughputProblem) -> None:
    """Where ``positional`` is false, every number of microbatches that a stage may hold needs the same memory."""
    instance = build_instance(problem)
    if instance.positional:
        assert len(set(instance.in_flight[1:].tolist())) > 1 or problem.device_count == 1
        return
    held = sorted(set(instance.in_flight[1:].tolist()))
    for item in range(instance.items):
        assert len({instance_memory(instance, [item], number) for number in held}) == 1


@pytest.mark.parametrize("free", [False, True])
@given(problem=throughput_problems())
def test_shape_of_the_arrays(problem: ThroughputProblem, free: bool) -> None:
    """Transposed arrays agree, pins ascend, items are numbered in pipeline order, and classes are kept whole."""
    instance = build_instance(problem, free=free)
    n = instance.items
    assert sorted(set(instance.group.tolist())) == list(range(n))
    for pointer, members, back_pointer, back in (
        (instance.net.ptr, instance.net.pins, instance.net.item_ptr, instance.net.of_item),
        (instance.cover.ptr, instance.cover.pins, instance.cover.item_ptr, instance.cover.of_item),
        (instance.graph.succ_ptr, instance.graph.succ, instance.graph.pred_ptr, instance.graph.pred),
    ):
        forward = {(i, j) for i, row in enumerate(lists(pointer, members)) for j in row}
        assert forward == {(i, j) for j, row in enumerate(lists(back_pointer, back)) for i in row}
        assert len(forward) == len(members) == len(back)
    for pins in lists(instance.net.ptr, instance.net.pins) + lists(instance.cover.ptr, instance.cover.pins):
        assert pins == sorted(pins)
        assert len(pins) >= 2
    for net, pins in enumerate(lists(instance.net.ptr, instance.net.pins)):
        assert instance.net_source[net] in [-1, *pins]
    if not free:
        assert all(
            item < later
            for item, row in enumerate(lists(instance.graph.succ_ptr, instance.graph.succ))
            for later in row
        )
    classes = colocation_classes(problem)
    assert len({(int(c), int(g)) for c, g in zip(classes, instance.group, strict=True)}) == len(set(classes.tolist()))


@given(throughput_problems())
def test_turning_the_order_round_twice_changes_nothing(problem: ThroughputProblem) -> None:
    """reverse swaps successors and predecessors and nothing else."""
    instance = build_instance(problem)
    turned = instance.reverse()
    assert lists(turned.graph.succ_ptr, turned.graph.succ) == lists(instance.graph.pred_ptr, instance.graph.pred)
    assert turned.net_cost is instance.net_cost
    again = turned.reverse()
    assert lists(again.graph.succ_ptr, again.graph.succ) == lists(instance.graph.succ_ptr, instance.graph.succ)


@given(throughput_problems())
def test_items_do_not_depend_on_hashing(problem: ThroughputProblem) -> None:
    """Building twice gives the same arrays."""
    first, second = build_instance(problem), build_instance(problem)
    for name, value in vars(first).items():
        pair = [x if isinstance(x, tuple) else (x,) for x in (value, getattr(second, name))]
        for one, other in zip(*pair, strict=True):
            np.testing.assert_array_equal(one, other, err_msg=name)
