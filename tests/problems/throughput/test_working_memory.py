"""Peak working memory: orders against all orders, bounds of parts, and splits against all splits in all orders."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from functools import lru_cache

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import partita as pt
from partita.engines.kernels.throughput.search_state import FOUND, REFUTED
from partita.engines.search.monitor import Monitor
from partita.engines.search.result import Status
from partita.ground.errors import InputError
from partita.nouns.pipeline import Plan, Stage
from partita.problems.throughput.bounds.streaming import streams
from partita.problems.throughput.components import HIERARCHY, STREAMING
from partita.problems.throughput.evaluate import evaluate
from partita.problems.throughput.problem import (
    DeviceKind,
    LinkedGroup,
    MicrobatchSchedule,
    MovedTensor,
    StoredParameter,
    ThroughputProblem,
    TimedOperator,
)
from partita.problems.throughput.protocol import ThroughputOptions
from partita.problems.throughput.solvers.exact import Exact, Slicing
from partita.problems.throughput.solvers.race import Target
from partita.problems.throughput.solvers.remaining_capacity import lower_bounds
from partita.problems.throughput.solvers.variant import VariantSearcher, variant_view
from partita.problems.throughput.working_memory import best_order, order_violation, ordered_plan, peak_of_order


def make_problem(seed: int, most: int = 5, **changes: object) -> ThroughputProblem:
    """A random problem whose memory is a peak; all numbers are multiples of one half."""
    rng = random.Random(seed)
    n = rng.randint(1, most)
    ids = rng.sample(range(20), n)
    place = list(range(n))
    rng.shuffle(place)  # the order of the graph is not that of the list
    tensors = []
    for u in range(n):
        for _ in range(rng.choice((0, 1, 1, 1, 2))):
            readers = tuple(ids[v] for v in range(n) if place[v] > place[u] and rng.random() < 0.5)
            tensors.append(MovedTensor(producer=ids[u], consumers=readers, size=rng.randint(0, 8) / 2))
    kinds = tuple(
        DeviceKind(
            name=f"kind{k}",
            count=rng.randint(1, 2),
            memory_bytes=rng.choice((None, rng.randint(0, 20) / 2, rng.randint(0, 20) / 2)),
            transfer_time_per_unit=rng.choice((0.0, 0.5, 1.0)),
            reload_time_per_byte=rng.choice((0.0, 0.5, 2.0)),
            sync_time_per_byte=0.5,
        )
        for k in range(rng.choice((1, 1, 2)))
    )
    colour = rng.choice((None, None, 7))
    operators = tuple(
        TimedOperator(
            id=i,
            times=tuple(rng.randint(0, 8) / 2 for _ in kinds),
            memory_bytes=rng.randint(0, 4) / 2,
            workspace_bytes=rng.choice((0.0, 0.0, 1.5)),
            colocation=colour if rng.random() < 0.5 else None,
        )
        for i in ids
    )
    parameters = (StoredParameter(name="w", users=tuple(ids[:2]), weight_bytes=rng.randint(0, 4)),)
    problem = ThroughputProblem(
        name=f"random {seed}",
        kinds=kinds,
        operators=operators,
        tensors=tuple(tensors),
        parameters=parameters,
        streaming=True,
        working_memory="peak",
    )
    return problem.replace(**changes)


def all_peaks(problem: ThroughputProblem, operators: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], float]]:
    """Every possible order of a set with its peak, worked out operator by operator."""
    work = {op.id: op.workspace_bytes for op in problem.operators}
    inside = set(operators)
    for order in itertools.permutations(operators):
        at = {v: number for number, v in enumerate(order)}
        if any(
            at[t.producer] > at[v] for t in problem.tensors if t.producer in inside for v in inside & {*t.consumers}
        ):
            continue
        peak = 0.0
        for number, v in enumerate(order):
            held = work[v]
            for tensor in problem.tensors:
                pins = inside & {tensor.producer, *tensor.consumers}
                if any(at[p] <= number for p in pins) and any(at[p] >= number for p in pins):
                    held += tensor.size
            peak = max(peak, held)
        yield order, peak


@given(seed=st.integers(0, 10**6))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_best_orders(seed: int) -> None:
    problem = make_problem(seed, 6)
    ids = [op.id for op in problem.operators]
    chosen = tuple(random.Random(seed).sample(ids, random.Random(seed + 1).randint(1, len(ids))))
    peaks = dict(all_peaks(problem, chosen))
    for order, peak in itertools.islice(peaks.items(), 20):
        assert peak_of_order(problem, order) == peak
        assert order_violation(problem, order) is None
    found = best_order(problem, chosen)
    assert peaks[found.operators] == found.peak == min(peaks.values())
    assert found.lower == found.peak, "small sets are proven"
    hasty = best_order(problem, chosen, nodes=1)
    assert hasty.lower <= min(peaks.values()) <= hasty.peak
    for v in chosen:
        rest = tuple(u for u in chosen if u != v)
        if rest:
            assert best_order(problem, rest).peak <= found.peak, "monotone"


def test_larger_sets_are_ordered_and_bounded() -> None:
    problem = pt.regal_problem(0, nodes=80, family="watts-strogatz", memory_bytes=100)
    ids = [op.id for op in problem.operators]
    found = best_order(problem, ids)
    assert sorted(found.operators) == ids
    assert order_violation(problem, found.operators) is None
    assert peak_of_order(problem, found.operators) == found.peak < peak_of_order(problem, ids)
    assert 0 < found.lower <= found.peak
    assert found == best_order(problem, ids)
    with pytest.raises(InputError, match="no operator 999"):
        best_order(problem, [999])


def best_value(problem: ThroughputProblem) -> float:
    """The least objective over all splits into stages in a row, all devices for them, and all orders in them."""
    members: dict[object, list[int]] = {}
    for op in problem.operators:
        members.setdefault(("alone", op.id) if op.colocation is None else op.colocation, []).append(op.id)
    classes = list(members.values())
    class_of = {v: number for number, row in enumerate(classes) for v in row}
    arrows = {
        (class_of[t.producer], class_of[v])
        for t in problem.tensors
        for v in t.consumers
        if class_of[t.producer] != class_of[v]
    }
    kind_of = dict(problem.device_names())
    names = list(kind_of)

    @lru_cache(None)
    def stage(mask: int, device: str) -> tuple[int, ...]:
        """The block's operators in the best order."""
        ids = tuple(v for number, row in enumerate(classes) if mask >> number & 1 for v in row)
        return min(all_peaks(problem, ids), key=lambda pair: pair[1])[0]

    best = np.inf

    def extend(done: int, used: tuple[str, ...], stages: tuple[Stage, ...]) -> None:
        nonlocal best
        if done == (1 << len(classes)) - 1:
            evaluation = evaluate(problem, Plan(stages=stages))
            # Groups whose stages do not follow each other are no plan.
            best = min(best, evaluation.objective) if evaluation.feasible else best
            return
        left = ((1 << len(classes)) - 1) & ~done
        mask = left
        while mask:
            if all(not (mask >> b & 1) or ((mask | done) >> a & 1) for a, b in arrows):
                for device in names:
                    # Of the devices of a kind (in a group) the first free one stands for all.
                    twins = [d for d in names if kind_of[d] == kind_of[device] and same_group(problem, d, device)]
                    if device in used or next(d for d in twins if d not in used) != device:
                        continue
                    kind = problem.kinds[kind_of[device]].name
                    for extra in range(problem.max_replicas):
                        free = tuple(d for d in twins if d not in used and d != device)[:extra]
                        if len(free) == extra:
                            entry = Stage(
                                devices=(device, *free),
                                kind=kind,
                                operators=stage(mask, ""),
                                data_parallel=1 + len(free),
                            )
                            extend(done | mask, (*used, device, *free), (*stages, entry))
            mask = (mask - 1) & left

    extend(0, (), ())
    return best


def same_group(problem: ThroughputProblem, one: str, other: str) -> bool:
    """Whether two devices are behind the same link."""
    group_of = problem.group_of()
    return group_of.get(one, 0) == group_of.get(other, 0)


CASES: dict[str, dict[str, object]] = {
    "sum": {},
    "duplex": {"communication": "duplex"},
    "overlap": {"communication": "overlap"},
    "replicas": {"max_replicas": 2},
}


def check(problem: ThroughputProblem) -> None:
    """The optimum with its proof, and each direction of the search by itself."""
    best = best_value(problem)
    outcome = Exact().solve(problem, ThroughputOptions(), Monitor())
    assert outcome.plan is not None
    evaluation = evaluate(problem, outcome.plan)
    assert evaluation.feasible, evaluation.violations
    assert evaluation.objective == pytest.approx(best, rel=1e-8, abs=1e-9)
    assert outcome.bound == pytest.approx(best, rel=1e-8, abs=1e-9)
    stop = np.zeros(1, dtype=np.int64)
    for backwards in (False, True):
        view = variant_view(problem, backwards=backwards)
        searchers = [[VariantSearcher(view, 2 * best + 1)]]
        low = lower_bounds(view)
        assert low.both <= best * (1 + 1e-9)
        target = Target(searchers, best * (1 + 1e-9), low, None, stop)
        assert target.run(1 << 60) == FOUND
        assert target.found is not None
        split = target.found.split
        value = view.value(split)[0]
        assert value == pytest.approx(best, rel=1e-8, abs=1e-9)
        assert evaluate(problem, view.plan(split)).objective == pytest.approx(value, rel=1e-12)
        if best > 0:
            assert Target(searchers, best * (1 - 1e-6), low, None, stop).run(1 << 60) == REFUTED


@pytest.mark.parametrize("case", list(CASES))
@given(seed=st.integers(0, 10**6))
@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_splits_against_all_splits(case: str, seed: int) -> None:
    check(make_problem(seed, **CASES[case]))


@pytest.mark.slow
@pytest.mark.parametrize("case", list(CASES))
@given(seed=st.integers(0, 10**9))
@settings(max_examples=600, deadline=None, suppress_health_check=list(HealthCheck))
def test_splits_against_all_splits_thoroughly(case: str, seed: int) -> None:
    check(make_problem(seed, **CASES[case]))


@given(seed=st.integers(0, 10**6))
@settings(max_examples=20, deadline=None, derandomize=True)
def test_groups(seed: int) -> None:
    problem = make_problem(seed)
    ones = tuple(1 for _ in problem.kinds)
    rest = tuple(kind.count - 1 for kind in problem.kinds)
    groups = tuple(
        LinkedGroup(name=name, counts=counts, transfer_time_per_unit=1.5)
        for name, counts in (("left", ones), ("right", rest))
    )
    problem = problem.replace(groups=groups)
    best = best_value(problem)
    outcome = Exact().solve(problem, ThroughputOptions(), Monitor())
    assert outcome.plan is not None
    assert evaluate(problem, outcome.plan).objective == pytest.approx(best, rel=1e-8, abs=1e-9)
    assert outcome.bound == pytest.approx(best, rel=1e-8, abs=1e-9)


@given(seed=st.integers(0, 10**6), peaks=st.booleans())
@settings(max_examples=60, deadline=None, derandomize=True)
def test_the_bound_of_streaming_problems(seed: int, peaks: bool) -> None:
    problem = make_problem(seed)
    kind = problem.kinds[0]
    problem = problem.replace(
        kinds=(DeviceKind(name="kind0", count=2, memory_bytes=kind.memory_bytes or 2.0, reload_time_per_byte=1.5),),
        operators=tuple(msgspec.structs.replace(op, times=op.times[:1]) for op in problem.operators),
        working_memory="peak" if peaks else "largest",
    )
    best = best_value(problem)
    assert streams(problem)
    assert STREAMING.bound(problem, Monitor(10.0)).value <= best * (1 + 1e-9)
    assert pt.bound(problem, time_limit_s=10).value == pytest.approx(best, rel=1e-6, abs=1e-9)


def test_the_bound_of_streaming_problems_counts_parameters() -> None:
    problem = pt.regal_problem(0, nodes=12, devices=3, parameter_bytes=200, memory_bytes=100)
    assert streams(problem)
    plain = max(method.bound(problem, Monitor(2.0)).value for method in HIERARCHY)
    assert STREAMING.bound(problem, Monitor(5.0)).value > 1.2 * plain
    assert not streams(problem.replace(memory_bytes=float("inf")))
    assert not streams(problem.replace(streaming=False))


def test_slicing_values_are_true() -> None:
    problem = pt.regal_problem(2, nodes=60, parameter_bytes=30, memory_bytes=600, devices=4)
    problem = problem.replace(working_memory="peak")
    outcome = Slicing().solve(problem, ThroughputOptions(), Monitor(5.0))
    assert outcome.plan is not None
    evaluation = evaluate(problem, outcome.plan)
    assert evaluation.feasible
    assert outcome.bound is not None
    assert outcome.bound <= evaluation.objective
    result = pt.solve(problem.replace(working_memory="largest"), solver="slicing", time_limit_s=5)
    assert result.plan is not None
    assert evaluation.objective <= evaluate(problem, ordered_plan(problem, result.plan)).objective * 1.001


def test_orders_are_checked() -> None:
    problem = ThroughputProblem(
        name="pair",
        kinds=(DeviceKind(name="gpu", count=1, memory_bytes=3, reload_time_per_byte=0.5),),
        operators=tuple(TimedOperator(id=i, times=(1.0,)) for i in range(2)),
        tensors=(MovedTensor(producer=0, consumers=(1,), size=5.0), MovedTensor(producer=1, consumers=(), size=2.0)),
        streaming=True,
        working_memory="peak",
    )

    def judged(*order: int) -> pt.Evaluation:
        return evaluate(problem, Plan(stages=(Stage(devices=("gpu:0",), kind="gpu", operators=order),)))

    good = judged(0, 1)
    assert good.feasible
    assert good.stages[0].memory.workspace == 7
    assert good.objective == 2 + 0.5 * 4
    assert judged(1, 0).violations == ("stage 0 runs operator 1 before operator 0, whose tensor it reads",)
    result = pt.solve(problem)
    assert result.status is Status.OPTIMAL
    assert result.objective == 4


def test_what_peaks_do_not_combine_with() -> None:
    problem = make_problem(1)
    with pytest.raises(InputError, match="set streaming"):
        problem.replace(streaming=False)
    backward = tuple(TimedOperator(id=op.id, times=op.times, backward=True) for op in problem.operators)
    with pytest.raises(InputError, match="is for inference"):
        problem.replace(operators=backward, schedule=MicrobatchSchedule(recompute=True))
    with pytest.raises(pt.UnsupportedError, match="streaming"):
        pt.solve(problem, contiguity="free")
