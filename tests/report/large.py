"""A pipeline as large as any that is planned: every stage on a device of its own, microbatch after microbatch."""

from __future__ import annotations

import json
import random
from itertools import pairwise
from typing import Any

from partita.conductor.documents import result_document
from partita.documents.document import json_bytes
from partita.documents.result_file import with_problem
from partita.engines.search.result import Result, Status, StopReason
from partita.nouns.pipeline import Plan, Stage
from partita.problems import kind_of
from partita.problems.throughput.problem import (
    DeviceKind,
    MicrobatchSchedule,
    MovedTensor,
    SavedTensor,
    StoredParameter,
    ThroughputProblem,
    TimedOperator,
)


def pipeline(devices: int, microbatches: int) -> tuple[ThroughputProblem, Plan]:
    """A training pipeline of unequal stages under 1F1B, and its plan."""
    draw = random.Random(0)
    operators = []
    for backward in (False, True):
        operators += [
            TimedOperator(
                id=number + backward * devices,
                times=((1 + backward) * draw.randint(1, 8) / 1000,),
                backward=backward,
                colocation=number,
                name=f"{'backward' if backward else 'forward'} {number}",
                module=f"block.{number}",
            )
            for number in range(devices)
        ]
    chain = [*range(devices), *reversed(range(devices, 2 * devices))]
    problem = ThroughputProblem(
        name=f"{devices} devices, {microbatches} microbatches",
        kinds=(DeviceKind(name="gpu", count=devices, memory_bytes=80e9),),
        operators=tuple(operators),
        tensors=tuple(MovedTensor(producer=a, consumers=(b,), size=0.0005) for a, b in pairwise(chain)),
        schedule=MicrobatchSchedule(name="1f1b", microbatches=microbatches),
        saved=tuple(SavedTensor(name=f"s{i}", users=(devices + i,), bytes=10**8) for i in range(devices)),
        parameters=tuple(
            StoredParameter(name=f"w{i}", users=(i, devices + i), weight_bytes=10**9) for i in range(devices)
        ),
    )
    stages = tuple(Stage(kind="gpu", devices=(f"gpu:{i}",), operators=(i, devices + i)) for i in range(devices))
    return problem, Plan(stages=stages)


def pipeline_result(devices: int, microbatches: int) -> dict[str, Any]:
    """The result document of such a plan."""
    problem, plan = pipeline(devices, microbatches)
    worth = kind_of(problem).evaluate(problem, plan)
    result = Result(problem, plan, worth, None, Status.FEASIBLE, StopReason.FINISHED, "given", 0, 0.0)
    document: dict[str, Any] = json.loads(json_bytes(with_problem(result_document(result), problem)))
    return document
