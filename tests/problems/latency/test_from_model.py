"""Models on one machine as latency problems: numbers against those worked out by hand, and what plans of them say."""

from __future__ import annotations

import itertools

import pytest

import partita as pt
from partita.api.planning import price
from partita.conductor.split import split_of
from partita.costs.roofline import Roofline
from partita.engines.search.result import Status
from partita.ground.errors import InputError, UnsupportedError
from partita.nouns.cluster import Cluster
from partita.nouns.graph import Graph, Operator, Parameter, Tensor
from partita.problems.latency.evaluate import evaluate
from partita.problems.latency.plan import LatencyPlan
from partita.problems.latency.problem import LatencyProblem

MB = 1_000_000
CLUSTER = Cluster.from_spec("(2xT4+1xCPU)")


def operator(name: str, **fields: object) -> Operator:
    return Operator(name=name, target="aten.x", **{"bytes_read": 2 * MB, "bytes_written": 2 * MB, **fields})


def parted(**fields: object) -> Graph:
    """a → b and a → c, b and c → d: b and d read one weight, and c writes a buffer in place besides what it makes."""
    return Graph(
        name="parted",
        operators=(operator("a", flops=10**9), operator("b"), operator("c"), operator("d", workspace_bytes=MB)),
        tensors=(
            Tensor(name="x", producer=None, consumers=(0, 2), bytes=MB),
            Tensor(name="a", producer=0, consumers=(1, 2), bytes=4 * MB),
            Tensor(name="b", producer=1, consumers=(3,), bytes=2 * MB),
            Tensor(name="c", producer=2, consumers=(3,), bytes=0),
            Tensor(name="kept", producer=2, bytes=8 * MB, stored="cache"),
            Tensor(name="d", producer=3, bytes=3 * MB),
        ),
        parameters=(
            Parameter(name="w", bytes=10 * MB, users=(1, 3)),
            Parameter(name="cache", bytes=8 * MB, users=(2,), buffer=True),
        ),
        **fields,
    )


def priced(graph: Graph | None = None, cluster: Cluster = CLUSTER, **settings: object) -> LatencyProblem:
    return price(graph or parted(), cluster, objective="host-memory", **settings)


def test_operators_cost_what_the_devices_and_the_way_between_them_say() -> None:
    graph, problem = parted(), priced()
    times = [Roofline().operator_times(graph, group.spec) for group in CLUSTER.groups()]
    on_t4, on_cpu = times if CLUSTER.groups()[0].spec.accelerator else reversed(times)
    model = problem.operators[: len(graph.operators)]
    assert [op.accelerator_time for op in model] == list(on_t4)
    assert [op.cpu_time for op in model] == list(on_cpu)
    path = CLUSTER.path(0, 2)
    ways = [path.latency_s + size * MB / path.bandwidth_bytes_per_s for size in (4, 2, 3)]
    # c hands nothing on but what it wrote in place, which stays.
    assert [op.transfer_time for op in model] == pytest.approx([ways[0], ways[1], 0.0, ways[2]])
    assert [op.memory_bytes for op in model] == [0.0, 10 * MB, 8 * MB, 0.0]
    assert [op.colocation for op in model] == [None, 1, None, 1]
    assert (problem.accelerators, problem.pieces, problem.unit) == (2, 1, "s")


def test_inputs_and_results_are_in_host_memory() -> None:
    problem = priced()
    results, given = problem.operators[4:]
    assert (results.name, given.name) == ("results", "input x")
    assert results.accelerator_time is None is given.accelerator_time
    assert (results.cpu_time, given.cpu_time, results.transfer_time) == (0.0, 0.0, 0.0)
    path = CLUSTER.path(0, 2)
    assert given.transfer_time == pytest.approx(path.latency_s + MB / path.bandwidth_bytes_per_s)
    assert set(problem.edges) == {(0, 1), (0, 2), (1, 3), (2, 3), (3, 4), (5, 0), (5, 2)}
    # Everything on one accelerator pays for one input and one result.
    whole = evaluate(problem, LatencyPlan(accelerators=(((0, 1, 2, 3),),)))
    work = sum(op.accelerator_time for op in problem.operators[:4])
    assert whole.objective == pytest.approx(given.transfer_time + work + problem.operators[3].transfer_time)


def test_memory_is_what_activations_leave() -> None:
    # At most x, a and b are alive besides c's and d's results and the scratch memory of d.
    room = priced().memory_bytes
    assert room is not None
    usable = CLUSTER.devices["T4"].usable_bytes
    assert 7 * MB + MB <= usable - room <= 12 * MB + MB
    assert priced(memory=5e6).memory_bytes == 5e6
    assert (priced(devices=5).accelerators, priced(pieces=3).pieces) == (5, 3)


def test_a_plan_says_what_is_where() -> None:
    answer = pt.plan(parted(), CLUSTER, objective="host-memory", memory=9e6, time_limit_s=60.0)
    assert answer.result.status is Status.OPTIMAL
    # What reads w does not fit on an accelerator.
    placed = {v for pieces in answer.result.plan.accelerators for v in itertools.chain(*pieces)}
    assert not placed & {1, 3}
    split = split_of(answer)
    assert sorted(v for stage in split.stages for v in stage.operators) == [0, 1, 2, 3]
    assert {stage.kind for stage in split.stages} <= {"T4", "CPU"}


@pytest.mark.parametrize(
    ("cluster", "message"),
    [
        ("2xT4", "has T4; exchange through host memory is planned for accelerators of one kind and the CPU"),
        ("(1xT4+1xL4+1xCPU)", "has T4, L4, CPU"),
        ("(1xCPU)", "has CPU"),
        ("2x(1xT4+1xCPU):ethernet-1g", "has 2 machines"),
    ],
)
def test_other_clusters_are_refused(cluster: str, message: str) -> None:
    with pytest.raises(UnsupportedError) as refused:
        pt.plan(parted(), cluster, objective="host-memory")
    assert message in str(refused.value)
    assert "use another objective: throughput or latency" in str(refused.value)


def test_what_does_not_fit_or_run_is_refused() -> None:
    large = parted().replace(parameters=(Parameter(name="w", bytes=10**12, users=(0,)),))
    with pytest.raises(InputError, match=r"needs .* on CPU, which has"):
        priced(large)
    held = parted().replace(tensors=(Tensor(name="a", producer=0, consumers=(1,), bytes=10**11),))
    with pytest.raises(InputError, match=r"needs .* on T4, which has"):
        priced(held)
    with pytest.raises(InputError, match="leave --runtime out"):
        priced(runtime="accelerate")
    with pytest.raises(InputError, match="objective host-memory is not for training"):
        pt.plan(parted(training=True), CLUSTER, objective="host-memory")
