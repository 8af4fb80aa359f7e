"""Models on clusters as makespan problems: every number against one worked out by hand, and what plans of them say."""

from __future__ import annotations

import io

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import partita as pt
from instances.strategies import examples
from partita.api.planning import plan, price
from partita.conductor.documents import answer_document
from partita.conductor.plan import choose_problem
from partita.costs.roofline import Roofline
from partita.costs.table import CostRow, CostTable
from partita.engines.search.monitor import Monitor
from partita.engines.search.result import Status
from partita.ground.errors import InputError, UnsupportedError
from partita.nouns.cluster import Cluster
from partita.nouns.graph import Graph, Operator, Parameter, Tensor, Workload
from partita.problems import kind_of
from partita.problems.makespan.evaluate import evaluate
from partita.problems.makespan.problem import MakespanProblem

MB = 1_000_000


def operator(name: str, module: str = "", **fields: object) -> Operator:
    """A float32 operator of 4 MB traffic unless stated."""
    return Operator(
        name=name, target="aten.x", module=module, **{"bytes_read": 2 * MB, "bytes_written": 2 * MB, **fields}
    )


#: a → slice → c, a → b, and c, b → d: the slice is free, and b and d share a weight in two modules.
GRAPH = Graph(
    name="tiny",
    operators=(
        operator("a", "first", flops=10**9),
        operator("slice", "first", free=True, bytes_read=0, bytes_written=0),
        operator("b", "second"),
        operator("c", "third"),
        operator("d", "last"),
    ),
    tensors=(
        Tensor(name="x", producer=None, consumers=(0,), bytes=MB),
        Tensor(name="a", producer=0, consumers=(1, 2), bytes=4 * MB),
        Tensor(name="part", producer=1, consumers=(3,), bytes=MB),
        Tensor(name="b", producer=2, consumers=(4,), bytes=2 * MB),
        Tensor(name="c", producer=3, consumers=(4,), bytes=0),
        Tensor(name="d", producer=4, bytes=3 * MB),
    ),
    parameters=(
        Parameter(name="w", bytes=10 * MB, users=(2, 4)),
        Parameter(name="v", bytes=7 * MB, users=(0,)),
    ),
)
CLUSTER = Cluster.from_spec("(1xT4+1xCPU)+1xL4:ethernet-1g")


def priced(graph: Graph = GRAPH, cluster: Cluster = CLUSTER, **settings: object) -> MakespanProblem:
    return price(graph, cluster, objective="latency", **settings)


def test_operators_cost_what_the_devices_say() -> None:
    problem = priced()
    assert [device.name for device in problem.devices] == ["T4", "CPU", "L4"]
    assert [(op.id, op.name, op.module) for op in problem.operators] == [
        (0, "a", "first"),
        (2, "b", "second"),
        (3, "c", "third"),
        (4, "d", "last"),
    ]
    # 1 GFLOP at half of 8.1 TFLOP/s, or 4 MB at three quarters of 320 GB/s: longer than to issue it. CPUs add that.
    assert problem.operators[0].times[0] == pytest.approx(1e9 / (0.5 * 8.1e12))
    assert problem.operators[1].times[0] == pytest.approx(4e6 / (0.75 * 320e9))
    assert problem.operators[1].times[1] == pytest.approx(4e6 / (0.70 * 204.8e9) + 2e-6)


def test_every_pair_of_devices_has_its_transfer_time() -> None:
    flows = {(flow.source, flow.target): flow for flow in priced().flows}
    # The slice is part of a: only its bytes go to c. What has no bytes is an order.
    assert set(flows) == {(0, 2), (0, 3), (2, 4)}
    assert priced().precedence == ((3, 4),)
    pcie, network = 0.8 * 15.754e9, 0.9 * 0.125e9
    assert flows[0, 3].times[0][1] == flows[0, 3].times[1][0] == pytest.approx(15e-6 + 1e6 / pcie)
    assert flows[0, 2].times[0][2] == pytest.approx(100e-6 + 4e6 / network)
    assert flows[0, 2].times[1][2] == flows[0, 2].times[0][2]
    assert [flows[0, 2].times[d][d] for d in range(3)] == [0.0, 0.0, 0.0]


def test_memory_is_weights_with_room_for_activations() -> None:
    problem = priced()
    # The weight of two modules counts for both.
    assert [op.memory for op in problem.operators] == [7 * MB, 10 * MB, 0, 10 * MB]
    # The most is there while b and c run: the slice and b, and what a made for each of these two, who read it last.
    assert CLUSTER.devices["T4"].usable_bytes - problem.devices[0].memory == (1 + 2 + 2 * 4) * MB


def test_tied_weights_can_share_a_device() -> None:
    together = priced(tied="together")
    assert [op.colocation for op in together.operators] == [None, 2, None, 2]
    assert [op.memory for op in together.operators] == [7 * MB, 10 * MB, 0, 0]


def test_readers_of_one_weight_in_a_module_share_a_device() -> None:
    operators = tuple(
        msgspec.structs.replace(op, module="second" if op.name == "d" else op.module) for op in GRAPH.operators
    )
    problem = priced(GRAPH.replace(operators=operators))
    assert [op.colocation for op in problem.operators] == [None, 2, None, 2]
    assert sum(op.memory for op in problem.operators) == 17 * MB


def test_what_depends_on_weights_alone_is_where_it_is_read() -> None:
    graph = Graph(
        name="weights",
        operators=(operator("cast"), operator("scale"), operator("use"), operator("other")),
        tensors=(
            Tensor(name="cast", producer=0, consumers=(1,), bytes=MB),
            Tensor(name="scale", producer=1, consumers=(2,), bytes=MB),
            Tensor(name="x", producer=None, consumers=(2,), bytes=MB),
            Tensor(name="use", producer=2, consumers=(3,), bytes=MB),
        ),
        parameters=(Parameter(name="w", bytes=MB, users=(0,)),),
    )
    assert [op.colocation for op in priced(graph).operators] == [0, 0, 0, None]


def fan(readers: int) -> Graph:
    """One operator whose 1 MB several others read, which run for long."""
    return Graph(
        name="fan",
        operators=(
            operator("make"),
            *(operator(f"read{k}", bytes_read=400 * MB) for k in range(readers)),
        ),
        tensors=(Tensor(name="made", producer=0, consumers=tuple(range(1, readers + 1)), bytes=MB),),
    )


def test_a_tensor_goes_to_a_device_once() -> None:
    """Two readers on another device wait for one transfer."""
    rows = (("L4", "read0"), ("L4", "read1"), ("T4", "make"))
    forced = CostTable(tuple(CostRow(device=device, name=name, runs=False) for device, name in rows))
    cluster = Cluster.from_spec("1xT4+1xL4:ethernet-1g")
    problem = priced(fan(2), cluster, costs=forced)
    assert [op.name for op in problem.operators] == ["make", "read0", "read1", "copy of made"]
    result = pt.solve(problem, time_limit_s=20)
    assert result.status == Status.OPTIMAL
    assert len(result.plan.flows) == 1
    times = [op.times for op in problem.operators]
    assert result.objective == pytest.approx(times[0][1] + problem.flows[0].times[1][0] + times[1][0] + times[2][0])


def test_relays_lose_no_plan() -> None:
    """With all relays at the producer each reader gets a transfer of its own, as in the published model."""
    problem = priced(fan(4))
    relays = [op.id for op in problem.operators if op.name.startswith("copy")]
    assert relays == [5, 6, 7]
    assert {(f.source, f.target) for f in problem.flows} == {
        (0, 5), (5, 1), (5, 6), (6, 2), (6, 7), (7, 3), (7, 4),
    }  # fmt: skip
    assert all(problem.operators[v].times == (0.0, 0.0, 0.0) for v in relays)
    assert all(problem.operators[v].memory == 0 for v in relays)


def test_arrays_written_in_place_stay() -> None:
    """A cache costs memory and no transfer, and its readers are where it is."""
    cached = Graph(
        name="step",
        operators=(operator("project"), operator("write"), operator("attend", colocation=1), operator("out")),
        tensors=(
            Tensor(name="new", producer=0, consumers=(1,), bytes=MB),
            Tensor(name="cache", producer=1, consumers=(2,), bytes=500 * MB, stored="attn.keys"),
            Tensor(name="attend", producer=2, consumers=(3,), bytes=MB),
        ),
        parameters=(Parameter(name="attn.keys", bytes=500 * MB, users=(1,), buffer=True),),
    )
    problem = priced(cached)
    assert [op.colocation for op in problem.operators] == [None, 1, 1, None]
    assert problem.operators[1].memory == 500 * MB
    # What is projected has ended when attention begins; the cache is no activation.
    assert CLUSTER.devices["T4"].usable_bytes - problem.devices[0].memory == MB
    # Moved it would take more than four seconds over the network; so would a plan that has it in two places.
    cache = next(flow for flow in problem.flows if (flow.source, flow.target) == (1, 2))
    assert cache.times[0][2] > 4
    found = plan(cached, CLUSTER, objective="latency", time_limit_s=0.2, solver="annealing").result
    assert found.plan.operators[1].device == found.plan.operators[2].device
    away = {v: msgspec.structs.replace(placed, device=0) for v, placed in found.plan.operators.items()}
    away[2] = msgspec.structs.replace(away[2], device=1)
    broken = msgspec.structs.replace(found.plan, operators=away)
    assert any("colocation class 1" in text for text in evaluate(problem, broken).violations)


def test_devices_without_room_for_activations_are_left_out() -> None:
    large = fan(1).replace(tensors=(Tensor(name="made", producer=0, consumers=(1,), bytes=16_000 * MB),))
    problem = priced(large)
    assert problem.operators[0].times[0] is None
    assert any("No room for that is on T4" in note for note in problem.notes)
    huge = fan(1).replace(tensors=(Tensor(name="made", producer=0, consumers=(1,), bytes=10**12),))
    with pytest.raises(InputError, match=r"more than any device .* take a smaller batch"):
        priced(huge)


def test_what_is_refused() -> None:
    with pytest.raises(InputError, match="not for training; leave --training out"):
        choose_problem("latency", CLUSTER, Workload.TRAINING)
    with pytest.raises(InputError, match="trace it without training"):
        kind_of(priced()).model.price(GRAPH.replace(training=True), CLUSTER, kind_of(priced()).model.pricing())
    with pytest.raises(UnsupportedError, match="has 65 devices, and every transfer is scheduled for at most 64"):
        choose_problem("latency", Cluster.from_spec("65xT4"), Workload.INFERENCE)
    nowhere = CostTable((CostRow(name="b", runs=False),))
    with pytest.raises(InputError, match="operator 'b' of tiny runs on no device"):
        priced(costs=nowhere)
    with pytest.raises(InputError, match="only takes slices"):
        priced(
            Graph(
                name="views",
                operators=(operator("slice", free=True),),
                tensors=(Tensor(name="x", producer=None, consumers=(0,), bytes=MB),),
            )
        )


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Random graphs of a few operators, some of them free."""
    count = draw(st.integers(1, 7))
    tensors = []
    for v in range(count):
        readers = draw(st.sets(st.integers(v + 1, count - 1))) if v < count - 1 else set()
        tensors.append(
            Tensor(
                name=f"t{v}",
                producer=v,
                consumers=tuple(sorted(readers)),
                bytes=draw(st.sampled_from([0, 8, MB, 9 * MB])),
            )
        )
    operators = tuple(
        operator(f"op{v}", f"m{v // 2}", free=v > 0 and draw(st.booleans()) and draw(st.booleans()))
        for v in range(count)
    )
    users = draw(st.lists(st.sets(st.integers(0, count - 1), min_size=1), max_size=3))
    parameters = tuple(
        Parameter(name=f"w{k}", bytes=MB * (k + 1), users=tuple(sorted(row))) for k, row in enumerate(users)
    )
    return Graph(name="random", operators=operators, tensors=tuple(tensors), parameters=parameters)


@examples(25)
@given(graphs(), st.sampled_from(["copy", "together"]))
def test_plans_of_models_are_schedules(graph: Graph, tied: str) -> None:
    """The best plan is worth what the evaluator says, and at most what a single device takes: the sum of all times."""
    problem = priced(graph, tied=tied)
    answer = plan(graph, CLUSTER, objective="latency", time_limit_s=0.2, solver="annealing", tied=tied)
    result = answer.result
    assert evaluate(problem, result.plan).feasible
    assert evaluate(problem, result.plan).objective == result.objective
    # What so short a limit leaves for baselines may be nothing.
    kind = kind_of(problem)
    baseline = next(each for each in kind.baselines if each.name == "single device")
    single = evaluate(problem, baseline.solve(problem, kind.options(), Monitor()).plan)
    sums = [sum(op.times[d] for op in problem.operators) for d in range(3)]
    assert single.objective == pytest.approx(min(sums))
    alone = [
        sum(Roofline().time_s(op, CLUSTER.devices[name]) for op in graph.operators) for name in ("T4", "CPU", "L4")
    ]
    assert sums == pytest.approx(alone)
    assert result.objective <= single.objective * (1 + 1e-9)


def test_the_report_says_what_runs_where() -> None:
    answer = plan(GRAPH, CLUSTER, objective="latency", time_limit_s=10)
    report = kind_of(answer.problem).report
    document = answer_document(answer.model_plan)
    devices = document["plan"]["devices"]
    assert [device["name"] for device in devices] == ["T4", "CPU", "L4"]
    assert [device["kind"] for device in devices] == ["accelerator", "cpu", "accelerator"]
    assert sorted(v for device in devices for v in device["operators"]) == [0, 2, 3, 4]
    assert sorted(name for device in devices for name in device["modules"]) == ["first", "last", "second", "third"]
    parts = document["critical_path"]["parts"]
    assert parts[0]["start"] == 0
    assert parts[-1]["end"] == document["objective"]
    assert sum(part["end"] - part["start"] for part in parts) == pytest.approx(document["objective"])
    console = Console(width=140, record=True, file=io.StringIO())
    for table in report.answer_tables(answer):
        console.print(table)
    text = console.export_text()
    assert "tiny: 5 operators" in text
    assert "Critical path" in text
    assert "first" in text.split("Critical path")[1]
    assert "o operator" in text
