"""Throughput problems for the contract suite."""

from __future__ import annotations

from typing import Any

from contracts.samples import Family, Samples
from instances.strategies import random_problem, throughput_problems
from partita.nouns.pipeline import Plan
from partita.problems.throughput.options import ThroughputOptions
from partita.problems.throughput.problem import (
    DeviceKind,
    LinkedGroup,
    MicrobatchSchedule,
    MovedTensor,
    ThroughputProblem,
    TimedOperator,
    UnitChain,
)
from problems.throughput.every_chain import best_of_all, rows
from second_opinions import brute_force

__all__ = ["SAMPLES"]

#: Four equal operators on two devices: best is two and two, 2 + 0.5.
CHAIN = ThroughputProblem(
    name="chain",
    kinds=(DeviceKind(name="gpu", count=2, memory_bytes=8.0),),
    operators=tuple(TimedOperator(id=i, times=(1.0,), memory_bytes=1.0) for i in range(4)),
    tensors=tuple(MovedTensor(producer=i, consumers=(i + 1,), size=0.5) for i in range(3)),
)

#: Each operator with a backward one beside it.
TRAINING = CHAIN.replace(
    operators=(
        *(TimedOperator(id=i, times=(1.0,), colocation=i, memory_bytes=1.0) for i in range(4)),
        *(TimedOperator(id=10 + i, times=(2.0,), colocation=i, backward=True) for i in range(4)),
    ),
    tensors=(*CHAIN.tensors, *(MovedTensor(producer=11 + i, consumers=(10 + i,), size=0.5) for i in range(3))),
    schedule=MicrobatchSchedule(name="1f1b", microbatches=4),
)

#: Two kinds, of which one is a CPU.
MIXED = CHAIN.replace(
    kinds=(*CHAIN.kinds, DeviceKind(name="cpu", count=1, accelerator=False)),
    operators=tuple(TimedOperator(id=i, times=(1.0, 4.0), memory_bytes=1.0) for i in range(4)),
)

#: Two bytes of memory on each device, and the rest fetched.
STREAMED = CHAIN.replace(
    kinds=(DeviceKind(name="gpu", count=2, memory_bytes=1.0, reload_time_per_byte=0.25),), streaming=True
)

GROUPED = CHAIN.replace(
    kinds=(DeviceKind(name="gpu", count=4),),
    groups=tuple(LinkedGroup(name=name, counts=(2,), transfer_time_per_unit=2.0) for name in ("left", "right")),
)

#: Whose middle is one unit.
ROW = CHAIN.replace(row=UnitChain(units=((0,), (1, 2), (3,))))

#: Nothing but identical devices and what operators cost: every component knows such problems.
_PLAIN: dict[str, Any] = {
    "unsupported": False,
    "memory": False,
    "kinds": (1, 1),
    "cpus": False,
    "training": False,
    "colocation": False,
}

#: Variants have more plans to try.
_SMALL: dict[str, Any] = {"max_operators": 5, "max_devices": 4}


def optimum(problem: ThroughputProblem, options: ThroughputOptions) -> float | None:
    """By trying everything."""
    if problem.row is not None:
        return best_of_all(problem)
    return brute_force.best(problem, options.contiguity)


def check(problem: ThroughputProblem, plan: Plan, options: ThroughputOptions) -> None:
    """Every operator has its place, and devices left empty are not listed."""
    placed = [identity for stage in plan.stages for identity in stage.operators]
    assert sorted(placed) == sorted(op.id for op in problem.operators)
    assert all(stage.operators for stage in plan.stages)
    if options.contiguity == "acyclic":
        assert plan.contiguity == "acyclic"


def _infeasible() -> tuple[ThroughputProblem, ...]:
    """Too little memory for all, for one, and nowhere to run."""
    tight = (DeviceKind(name="gpu", count=2, memory_bytes=1.5),)
    nowhere = (*CHAIN.operators[:3], TimedOperator(id=3, times=(None,)))
    large = (*CHAIN.operators[:3], TimedOperator(id=3, times=(1.0,), memory_bytes=9.0))
    whole = UnitChain(units=((0, 1, 2, 3),))
    return (
        CHAIN.replace(kinds=tight),
        CHAIN.replace(operators=large),
        CHAIN.replace(operators=nowhere),
        CHAIN.replace(kinds=tight, row=whole),
    )


def _long_row() -> ThroughputProblem:
    """Two hundred units one after the other."""
    return ThroughputProblem(
        name="long row",
        kinds=(DeviceKind(name="gpu", count=12),),
        operators=tuple(TimedOperator(id=i, times=(1.0 + i * 7 % 11,)) for i in range(200)),
        tensors=tuple(MovedTensor(producer=i, consumers=(i + 1,), size=0.5) for i in range(199)),
        row=UnitChain(units=tuple((i,) for i in range(200))),
        max_replicas=3,
    )


SAMPLES = Samples(
    families=(
        Family("plain", throughput_problems(**_PLAIN), CHAIN),
        Family("anything", throughput_problems(max_operators=6), MIXED),
        Family("runs anywhere", throughput_problems(unsupported=False, max_devices=4), MIXED),
        Family("training", throughput_problems(training=True, max_operators=6, kinds=(1, 1)), TRAINING),
        Family("overlap", throughput_problems(variants=("overlap",), **_SMALL), CHAIN.replace(communication="overlap")),
        Family("replicas", throughput_problems(variants=("replicas",), **_SMALL), CHAIN.replace(max_replicas=2)),
        Family("streaming", throughput_problems(variants=("streaming",), memory=True, **_SMALL), STREAMED),
        Family("rows", rows(max_operators=5, variants=("replicas",)), ROW),
        Family("groups", throughput_problems(variants=("groups",), **_SMALL), GROUPED),
    ),
    optimum=optimum,
    check=check,
    infeasible=_infeasible(),
    # Operators that share nothing: the optimum is 8, and 11 / 3 is what anyone can prove.
    floors=(
        (
            ThroughputProblem(
                name="apart",
                kinds=(DeviceKind(name="gpu", count=3),),
                operators=tuple(TimedOperator(id=i, times=(time,)) for i, time in enumerate((1.0, 8.0, 2.0))),
            ),
            11 / 3,
        ),
    ),
    large=(
        random_problem(1),
        random_problem(2, training=True),
        random_problem(3, operators=40, devices=8),
        _long_row(),
    ),
)
