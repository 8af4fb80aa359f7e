"""Layouts of runtimes: their counts by hand, and the chain of layers they divide."""

from __future__ import annotations

import pytest

from partita.engines.search.monitor import Monitor
from partita.problems.throughput.baselines.layers import find_blocks
from partita.problems.throughput.baselines.paths import LayerCuts
from partita.problems.throughput.baselines.rules import (
    DeepSpeedParameters,
    DeepSpeedUniform,
    GreedyTopological,
    MegatronLayout,
    TorchTitanLayout,
    Unsplit,
    VllmLayout,
    partition_balanced,
    partition_uniform,
)
from partita.problems.throughput.problem import (
    DeviceKind,
    MovedTensor,
    StoredParameter,
    ThroughputProblem,
    TimedOperator,
)
from partita.problems.throughput.protocol import Solver, ThroughputOptions


def transformer(blocks: int, devices: int) -> ThroughputProblem:
    """Embedding (id 0), blocks of two operators (1, 2), (3, 4), …, norm and head, in a row.

    Parameters: 50 bytes in the embedding, 10 in every block, 50 in the head.
    """
    modules = ["wte"]
    for block in range(blocks):
        modules += [f"h.{block}.attn", f"h.{block}.mlp"]
    modules += ["ln_f", "lm_head"]
    last = len(modules) - 1
    parameters = [StoredParameter(name="wte", users=(0,), weight_bytes=50.0)]
    parameters += [
        StoredParameter(name=f"h.{b}", users=(1 + 2 * b, 2 + 2 * b), weight_bytes=10.0) for b in range(blocks)
    ]
    parameters += [StoredParameter(name="lm_head", users=(last,), weight_bytes=50.0)]
    return ThroughputProblem(
        name="transformer",
        kinds=(DeviceKind(name="gpu", count=devices),),
        operators=tuple(TimedOperator(id=i, times=(1.0,), module=module) for i, module in enumerate(modules)),
        tensors=tuple(MovedTensor(producer=i, consumers=(i + 1,), size=0.0) for i in range(last)),
        parameters=tuple(parameters),
    )


def sizes(solver: Solver, problem: ThroughputProblem) -> list[int]:
    """Operators of every device of its plan."""
    assert solver.supports(problem, ThroughputOptions()) is None
    plan = solver.solve(problem, ThroughputOptions(), Monitor()).plan
    assert plan is not None
    return [len(stage.operators) for stage in plan.stages]


def test_blocks_have_what_comes_before_and_after_them() -> None:
    """Embedding, four blocks, norm and head together."""
    row = find_blocks(transformer(4, 2))
    assert (row.before, row.blocks, row.after) == (1, 4, 1)
    assert row.layer_of.tolist() == [0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]


def test_megatron_divides_evenly_or_refuses() -> None:
    """4 blocks on 2 devices: embedding + 2·2 = 5 operators, 2·2 + norm + head = 6; 4 on 3 is refused."""
    assert sizes(MegatronLayout(), transformer(4, 2)) == [5, 6]
    assert "multiple of the 3 devices" in str(MegatronLayout().supports(transformer(4, 3), ThroughputOptions()))


@pytest.mark.parametrize(
    ("blocks", "devices", "expected"),
    [
        # 8 + 2 = 10 over 4: 3, 3, 2, 2, less one at either end.
        (8, 4, [2, 3, 2, 1]),
        # 3 + 2 = 5 over 2: 3, 2.
        (3, 2, [2, 1]),
        # 2 + 2 = 4 over 4: 1 each, and both ends hold no block.
        (2, 4, [0, 1, 1, 0]),
        (5, 1, [5]),
    ],
)
def test_torchtitan_counts_embedding_and_head(blocks: int, devices: int, expected: list[int]) -> None:
    """Effective layers divided, the remainder to the first stages."""
    assert TorchTitanLayout().refusal(blocks, devices) is None
    assert TorchTitanLayout().counts(blocks, devices) == expected


def test_torchtitan_refuses_empty_stages() -> None:
    """1 + 2 = 3 effective layers on 4 devices."""
    assert "too few" in str(TorchTitanLayout().refusal(1, 4))


@pytest.mark.parametrize(
    ("blocks", "devices", "expected"),
    [
        (61, 2, [31, 30]),
        (61, 4, [15, 15, 16, 15]),
        (10, 4, [2, 3, 3, 2]),
        (11, 4, [3, 3, 3, 2]),
        (8, 4, [2, 2, 2, 2]),
    ],
)
def test_vllm_spares_the_last_device(blocks: int, devices: int, expected: list[int]) -> None:
    """The remainder goes to the devices before the last, from the back; 61 layers are vLLM's own example."""
    assert VllmLayout().counts(blocks, devices) == expected


def test_vllm_refuses_training_and_too_few_layers() -> None:
    """Each in a sentence."""
    assert "3 layers for 4 devices" in str(VllmLayout().refusal(3, 4))
    problem = transformer(4, 2)
    backward = TimedOperator(id=99, times=(1.0,), backward=True)
    training = problem.replace(operators=(*problem.operators, backward))
    assert "trains none" in str(VllmLayout().supports(training, ThroughputOptions()))


def test_deepspeed_uniform_has_the_remainder_first() -> None:
    """10 = 4 + 3 + 3; two items on three parts leave the last empty."""
    assert partition_uniform(10, 3) == [0, 4, 7, 10]
    assert partition_uniform(2, 3) == [0, 1, 2, 2]
    # Row of 6: embedding and two blocks, then two blocks and the head.
    assert sizes(DeepSpeedUniform(), transformer(4, 2)) == [5, 6]


def test_deepspeed_balances_the_spread() -> None:
    """1 1 1 9: the parts 3 and 9; 5 1 1 5 on three: 5, 2, 5 has spread 3, and 5, 1, 6 has 5."""
    assert partition_balanced([1.0, 1.0, 1.0, 9.0], 2) == [0, 3, 4]
    assert partition_balanced([5.0, 1.0, 1.0, 5.0], 3) == [0, 1, 3, 4]


def test_deepspeed_counts_parameters() -> None:
    """Row 50 10 10 10 10 50 in three: 50, 40, 50 has the smallest spread, so the embedding is alone."""
    assert sizes(DeepSpeedParameters(), transformer(4, 3)) == [1, 8, 2]


def test_greedy_fills_up_to_the_share() -> None:
    """Eleven operators of one on two devices: a share is 5.5, reached with the sixth."""
    assert sizes(GreedyTopological(), transformer(4, 2)) == [6, 5]


def test_single_device_takes_all() -> None:
    """One stage."""
    assert sizes(Unsplit(), transformer(4, 3)) == [11]


def test_layer_cuts_are_the_best_between_layers() -> None:
    """Against every way to cut the chain of layers, with transfers that make some layers' ends dear."""
    from itertools import combinations, pairwise

    from partita.nouns.pipeline import Plan, Stage
    from partita.problems.throughput.evaluate import evaluate

    problem = transformer(5, 3)
    sizes_of = [3.0, 0.2, 2.5, 0.1, 0.4, 0.3, 2.0, 0.2, 0.1, 1.0, 0.5, 0.6, 0.7]
    tensors = tuple(MovedTensor(producer=i, consumers=(i + 1,), size=size) for i, size in enumerate(sizes_of[:12]))
    problem = problem.replace(tensors=tensors)
    # The embedding and the ends behind the last block are parts of the row, too.
    starts = [1, 3, 5, 7, 9, 11]
    loads = {}
    for count in range(3):
        for cuts in combinations(starts, count):
            edges = [0, *cuts, 13]
            stages = tuple(
                Stage(devices=(f"gpu:{i}",), kind="gpu", operators=tuple(range(a, b)))
                for i, (a, b) in enumerate(pairwise(edges))
            )
            loads[cuts] = evaluate(problem, Plan(stages=stages)).objective
    plan = LayerCuts().solve(problem, ThroughputOptions(), Monitor()).plan
    assert plan is not None
    assert evaluate(problem, plan).objective == pytest.approx(min(loads.values()))
    assert min(loads.values()) < max(loads.values())
