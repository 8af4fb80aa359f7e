"""Prices of a graph worked by hand, down to the evaluation of a plan."""

from __future__ import annotations

import msgspec
import pytest

from instances.cost_graphs import make_cluster, make_graph
from partita.ground.errors import InputError
from partita.nouns.cluster import Cluster
from partita.nouns.graph import Graph, Operator, Parameter, Tensor
from partita.nouns.pipeline import Plan, Stage
from partita.problems.throughput.evaluate import evaluate
from partita.problems.throughput.options import ThroughputPricing
from partita.problems.throughput.pricing import price
from partita.problems.throughput.problem import SavedTensor

SPLIT = Plan(
    stages=(
        Stage(devices=("toy:0",), kind="toy", operators=(0, 5)),
        Stage(devices=("toy:1",), kind="toy", operators=(1, 2, 3, 4)),
    )
)


def forward_part(graph: Graph) -> Graph:
    """The graph without its backward operators."""
    return graph.replace(
        operators=graph.operators[:3],
        tensors=tuple(
            msgspec.structs.replace(t, consumers=tuple(v for v in t.consumers if v < 3))
            for t in graph.tensors
            if t.producer is None or t.producer < 3
        ),
        parameters=tuple(
            msgspec.structs.replace(p, users=tuple(v for v in p.users if v < 3)) for p in graph.parameters
        ),
        training=False,
    )


def test_operators() -> None:
    problem = price(make_graph(), make_cluster(), ThroughputPricing())
    # max(flops/100, bytes/10): 30/10, max(1000/100, 30/10), 10/10, 20/10, max(2000/100, 10/10), 30/10
    assert [op.times for op in problem.operators] == [(3.0,), (10.0,), (1.0,), (2.0,), (20.0,), (3.0,)]
    assert [op.id for op in problem.operators] == [0, 1, 2, 3, 4, 5]
    assert [op.backward for op in problem.operators] == [False, False, False, True, True, True]
    assert [op.colocation for op in problem.operators] == [0, 1, 2, 2, 1, 0]


def test_kinds() -> None:
    (kind,) = price(make_graph(), make_cluster(3), ThroughputPricing()).kinds
    assert (kind.name, kind.count, kind.memory_bytes, kind.accelerator) == ("toy", 3, 900.0, True)
    assert (kind.transfer_time_per_unit, kind.transfer_latency) == (0.2, 2.0)


def test_tensors_are_those_between_operators() -> None:
    problem = price(make_graph(), make_cluster(), ThroughputPricing())
    # Inputs x and labels are free to load; the loss and the parameter gradients have no reader.
    assert [(t.name, t.producer, t.consumers, t.size) for t in problem.tensors] == [
        ("h", 0, (1, 4), 10.0),
        ("y", 1, (2, 3), 12.0),
        ("dy", 3, (4,), 12.0),
        ("dh", 4, (5,), 10.0),
    ]


def test_saved_tensors_are_those_the_backward_part_reads() -> None:
    assert price(make_graph(), make_cluster(), ThroughputPricing()).saved == (
        SavedTensor(name="x", users=(5,), bytes=4.0),
        SavedTensor(name="h", users=(4,), bytes=10.0),
        SavedTensor(name="y", users=(3,), bytes=12.0),
    )


@pytest.mark.parametrize(
    ("microbatches", "expected"),
    [
        # 0: h, which its own backward operator does not read.   1: y for the same reason, and 5 of scratch.
        # 2: labels and loss.   3: dy.   4: dy and dh.   5: dh.
        (1, [10, 12 + 5, 3 + 1, 12, 12 + 10, 10]),
        # Gradients of one microbatch beside the sum: grad:w at 4, grad:e at 5.
        (2, [10, 17, 4, 12, 22 + 40, 10 + 80]),
    ],
)
def test_workspace(microbatches: int, expected: list[int]) -> None:
    problem = price(make_graph(), make_cluster(), ThroughputPricing(microbatches=microbatches))
    assert [op.workspace_bytes for op in problem.operators] == expected


def test_parameters() -> None:
    problem = price(make_graph(), make_cluster(), ThroughputPricing())
    # Adam for float32: two moments of four bytes. The buffer has weight only; nobody reads `idle`.
    assert [(p.name, p.weight_bytes, p.gradient_bytes, p.optimizer_bytes) for p in problem.parameters] == [
        ("e", 80, 80, 160),
        ("w", 40, 40, 80),
        ("mask", 7, 0, 0),
    ]
    # The trace has a note on it already.
    assert not any("idle" in note for note in problem.notes)


def test_a_plan_evaluates_as_by_hand() -> None:
    evaluation = evaluate(price(make_graph(), make_cluster(), ThroughputPricing(microbatches=2)), SPLIT)
    first, second = evaluation.stages
    # h leaves the first stage and dh enters it: 2 s + 10/5 s each.
    assert (first.compute_forward, first.compute_backward) == (3, 3)
    assert (first.communication_in, first.communication_out) == (4, 4)
    assert (second.compute_forward, second.compute_backward) == (10 + 1, 2 + 20)
    assert evaluation.objective == 33 + 8
    # One of two stages holds x for two microbatches, the last stage h and y for one.
    memory = first.memory
    assert (memory.weights, memory.gradients, memory.optimizer) == (80, 80, 160)
    assert (memory.activations, memory.workspace, memory.total) == (2 * 4, 90, 80 + 80 + 160 + 8 + 90)
    memory = second.memory
    assert (memory.weights, memory.gradients, memory.optimizer) == (47, 40, 80)
    assert (memory.activations, memory.workspace, memory.total) == (10 + 12, 62, 47 + 40 + 80 + 22 + 62)
    assert evaluation.feasible


def test_recomputation_keeps_what_enters() -> None:
    evaluation = evaluate(price(make_graph(), make_cluster(), ThroughputPricing(microbatches=2, recompute=True)), SPLIT)
    first, second = evaluation.stages
    assert second.memory.activations == 10
    assert second.memory.workspace == 62 + 10 + 12
    assert (first.compute_backward, second.compute_backward) == (3 + 3, 22 + 11)


def test_gpipe_holds_every_microbatch() -> None:
    problem = price(make_graph(), make_cluster(), ThroughputPricing(microbatches=5, schedule="gpipe"))
    assert [stage.memory.activations for stage in evaluate(problem, SPLIT).stages] == [5 * 4, 5 * 22]


def test_inference_needs_weights_and_workspace_only() -> None:
    problem = price(forward_part(make_graph()), make_cluster(), ThroughputPricing())
    assert not problem.training
    assert problem.schedule.name == "inference"
    assert problem.saved == ()
    assert [(p.weight_bytes, p.gradient_bytes, p.optimizer_bytes) for p in problem.parameters] == [
        (80, 0, 0),
        (40, 0, 0),
        (7, 0, 0),
    ]
    # 0: x and h.   1: h, y and scratch.   2: y, labels and loss.
    assert [op.workspace_bytes for op in problem.operators] == [4 + 10, 10 + 12 + 5, 12 + 3 + 1]
    assert [op.colocation for op in problem.operators] == [None, None, None]


@pytest.mark.parametrize(
    ("options", "half", "single"),
    [
        # bytes of state per parameter for float16 and float32 weights
        ({"optimizer": "adam"}, 12, 8),
        ({"optimizer": "adamw"}, 12, 8),
        ({"optimizer": "adam", "master_weights": False}, 8, 8),
        ({"optimizer": "adam", "master_weights": True}, 12, 12),
        ({"optimizer": "adam", "optimizer_dtype": "parameter"}, 4, 8),
        ({"optimizer": "adam", "optimizer_dtype": "bfloat16"}, 4, 4),
        ({"optimizer": "sgd"}, 4, 0),
        ({"optimizer": "sgd-momentum"}, 8, 4),
        ({"optimizer": "none"}, 0, 0),
        # A 4 by 5 matrix has 4 + 5 sums of 4 bytes; 20 master weights of 4 bytes for half precision.
        ({"optimizer": "adafactor"}, (9 + 20) * 4 / 20, 9 * 4 / 20),
    ],
)
def test_optimizer_state(options: dict[str, object], half: float, single: float) -> None:
    graph = make_graph()
    narrow = msgspec.structs.replace(graph.parameters[0], bytes=40, dtype="float16")
    for parameter, expected in ((narrow, half), (graph.parameters[0], single)):
        problem = price(graph.replace(parameters=(parameter,)), make_cluster(), ThroughputPricing(**options))  # type: ignore[arg-type]
        assert problem.parameters[0].optimizer_bytes == 20 * expected


def tied_graph() -> Graph:
    """A weight read first and last; its gradient is the sum of two parts."""
    return Graph(
        name="tied",
        operators=(
            Operator(name="embed", target="aten.embedding.default"),
            Operator(name="middle", target="aten.relu.default"),
            Operator(name="head", target="aten.mm.default"),
            Operator(name="head_w", target="aten.mm.default", phase="backward", colocation=2),
            Operator(name="embed_w", target="aten.embedding_dense_backward.default", phase="backward", colocation=0),
            Operator(name="sum", target="aten.add.Tensor", phase="backward", colocation=0),
        ),
        tensors=(
            Tensor(name="a", producer=0, consumers=(1,), bytes=1),
            Tensor(name="b", producer=1, consumers=(2,), bytes=1),
            Tensor(name="c", producer=3, consumers=(4,), bytes=1),
            Tensor(name="part1", producer=3, consumers=(5,), shape=(20,), bytes=80),
            Tensor(name="part2", producer=4, consumers=(5,), shape=(20,), bytes=80),
            Tensor(name="grad:w", producer=5, shape=(20,), bytes=80),
        ),
        parameters=(Parameter(name="w", aliases=("head.w",), shape=(20,), bytes=80, users=(0, 2)),),
        training=True,
    )


def test_copies_of_a_tied_parameter_do_not_exchange_gradients_for_every_microbatch() -> None:
    problem = price(tied_graph(), make_cluster(), ThroughputPricing())
    assert [t.name for t in problem.tensors] == ["a", "b", "c", "part2"]
    stages = (
        Stage(devices=("toy:0",), kind="toy", operators=(0, 1, 4, 5)),
        Stage(devices=("toy:1",), kind="toy", operators=(2, 3)),
    )
    for stage in evaluate(problem, Plan(stages=stages)).stages:
        assert (stage.memory.weights, stage.memory.gradients, stage.memory.optimizer) == (80, 80, 160)
    # 80 bytes over a link of 5 bytes/s
    assert any("w=head.w" in note and "16 s" in note for note in problem.notes)


def test_a_tied_parameter_can_be_kept_together() -> None:
    problem = price(tied_graph(), make_cluster(), ThroughputPricing(tied="together"))
    assert [op.colocation for op in problem.operators] == [0, None, 0, 0, 0, 0]
    assert [t.name for t in problem.tensors] == ["a", "b", "c", "part1", "part2"]


def test_chains_of_colocation_are_one_class() -> None:
    operators = (
        Operator(name="a", target="t"),
        Operator(name="b", target="t"),
        Operator(name="c", target="t", colocation=1),
        Operator(name="d", target="t", colocation=2),
        Operator(name="e", target="t", phase="backward", colocation=3),
        Operator(name="f", target="t", phase="backward"),
    )
    problem = price(Graph(name="chain", operators=operators, training=True), make_cluster(), ThroughputPricing())
    assert [op.colocation for op in problem.operators] == [None, 1, 1, 1, 1, None]


def test_each_kind_has_its_own_times_and_links() -> None:
    problem = price(make_graph(), Cluster.from_spec("(2xA100-80GB+1xCPU)"), ThroughputPricing())
    fast, cpu = problem.kinds
    assert (fast.name, fast.count, fast.accelerator) == ("A100-80GB", 2, True)
    assert (cpu.name, cpu.count, cpu.accelerator) == ("CPU", 1, False)
    # NVLink 3 at 80 % of 300 GB/s between the accelerators, PCIe 4 at 80 % of 31.508 GB/s for the CPU.
    assert fast.transfer_time_per_unit == pytest.approx(1 / 240e9)
    assert cpu.transfer_time_per_unit == pytest.approx(1 / (0.8 * 31.508e9))
    assert all(len(op.times) == 2 for op in problem.operators)
    assert any("NVLink" in note or "nvlink3" in note for note in problem.notes)


def test_machines_apart_transfer_over_the_network() -> None:
    kinds = price(make_graph(), Cluster.from_spec("2xA100-40GB+4xT4:ethernet-25g"), ThroughputPricing()).kinds
    # 25 Gbit/s are 3.125e9 bytes/s, of which 90 % are reached.
    assert [kind.transfer_time_per_unit for kind in kinds] == [pytest.approx(1 / 2.8125e9)] * 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"optimizer": "lion"}, "optimizer is 'lion'; it must be one of adam"),
        ({"optimizer_dtype": "int8"}, "optimizer_dtype is 'int8'"),
        ({"microbatches": 0}, "microbatches is 0"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError) as caught:
        price(make_graph(), make_cluster(), ThroughputPricing(**options))  # type: ignore[arg-type]
    assert message in str(caught.value)


def test_recomputation_needs_a_backward_part() -> None:
    with pytest.raises(InputError, match="recompute needs a graph with a backward part"):
        price(forward_part(make_graph()), make_cluster(), ThroughputPricing(recompute=True))


def test_names_and_notes() -> None:
    graph = make_graph().replace(notes=("From a test.",))
    problem = price(graph, make_cluster(), ThroughputPricing())
    assert problem.name == "hand on toys"
    assert problem.unit == "s"
    assert problem.notes[0] == "From a test."
    assert price(graph, make_cluster(), ThroughputPricing(name="mine")).name == "mine"
    assert price(graph, make_cluster(1), ThroughputPricing()).kinds[0].transfer_time_per_unit == 0.2
