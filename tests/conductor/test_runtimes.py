"""Plans within the limits of runtimes: none is better, their exporters take them, and what the limits cost is said."""

from __future__ import annotations

import itertools
import math
import random

import pytest

import partita as pt
from models.runtime_models import UNIT, accepts, better_split, random_model
from partita.conductor.split import split_of
from partita.engines.search.result import Status
from partita.exporters import find_exporter
from partita.ground.errors import InputError, UnsupportedError

#: Runtimes with what they are for.
RUNTIMES = {"torchtitan": True, "megatron": True, "deepspeed": True, "vllm": False, "accelerate": False, "torch": False}


def check(runtime: str, seed: int) -> str:
    """The plan is proven, taken by the exporter, and no split that this takes is better; what came out."""
    graph = random_model(seed, training=RUNTIMES[runtime])
    draw = random.Random(seed)
    memory = draw.choice((math.inf, math.inf, draw.randint(30, 300) * float(UNIT)))
    # As many microbatches as stages, which 1F1B of torch takes, and an optimizer that the runtime has.
    optimizer = "adam" if runtime == "torchtitan" else "sgd"
    settings = {"microbatches": 4, "optimizer": optimizer} if graph.training else {}
    cluster = pt.Cluster.from_spec(f"{draw.randint(2, 3)}xA100-80GB")
    try:
        answer = pt.plan(
            graph, cluster, objective="throughput", runtime=runtime, memory=memory, baselines=False, **settings
        )
    except UnsupportedError:
        assert not any(op.module.startswith("layers.") for op in graph.operators)
        return "refused"
    assert answer.priced.free is not None
    free, result = answer.priced.free, answer.result
    if result.plan is None:
        assert result.status is Status.INFEASIBLE
        assert better_split(runtime, graph, free, math.inf) is None
        return "infeasible"
    assert result.status is Status.OPTIMAL
    assert accepts(runtime, graph, result.problem, result.plan)
    assert better_split(runtime, graph, free, result.objective) is None
    return f"{len(result.plan.stages)} stages"


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_no_split_that_a_runtime_takes_is_better(runtime: str) -> None:
    # Free splits are proven by programs in processes of their own.
    found = {check(runtime, seed) for seed in range(8 if runtime == "accelerate" else 16)}
    assert "2 stages" in found
    assert found & {"infeasible", "1 stages"}


@pytest.mark.slow
@pytest.mark.parametrize("runtime", RUNTIMES)
def test_no_split_that_a_runtime_takes_is_better_on_200_models(runtime: str) -> None:
    for seed in range(25, 225):
        check(runtime, seed)


@pytest.mark.parametrize("runtime", ["accelerate", "onnxruntime", "openvino"])
def test_what_runs_in_turn_is_planned_by_its_latency(runtime: str) -> None:
    graph = random_model(1, training=False)
    answer = pt.plan(
        graph, pt.Cluster.from_spec("2xA100-80GB"), runtime=runtime, baselines=False, time_limit_s=4, memory=8e8
    )
    problem, plan = answer.problem, answer.result.plan
    assert problem.kind == "makespan"
    assert plan is not None
    split = split_of(answer)
    assert split is not None
    assert not find_exporter(runtime).supports(split)
    spans = sorted((plan.operators[v].start, plan.operators[v].end) for v in range(len(graph.operators)))
    assert all(before[1] <= after[0] + 1e-12 for before, after in itertools.pairwise(spans))
    used = {placed.device for placed in plan.operators.values()}
    assert len(used) == 1 or runtime != "onnxruntime"


def test_half_a_pair_of_kinds_is_not_chosen() -> None:
    graph = random_model(1, training=False)
    with pytest.raises(InputError, match="several kinds"):
        pt.plan(graph, pt.Cluster.from_spec("1xA100-80GB+1xT4"), runtime="onnxruntime", objective="throughput")
