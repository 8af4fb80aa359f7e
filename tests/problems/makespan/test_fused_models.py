"""Models whose operators are fused before they are priced."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

import partita as pt
from partita.fusion.fuse import fuse
from partita.ground.errors import InputError
from partita.nouns.graph import Graph, Operator, Parameter, Tensor
from partita.problems.makespan.evaluate import evaluate
from partita.problems.makespan.fusion import lift

LAYER = ("aten.convolution.default", "aten.native_batch_norm.default", "aten.relu.default")
CLUSTER = pt.Cluster.from_spec("1xA100-40GB+1xL4")


def network(layers: int = 4) -> Graph:
    """Layers of three operators, of which every second result is read twice; a slice at the end."""
    count = 3 * layers
    size = 2**20
    operators = [
        Operator(
            name=f"op{v}",
            target=LAYER[v % 3],
            module=f"layers.{v // 3}.{v % 3}",
            flops=10**9 if v % 3 == 0 else 0,
            bytes_read=size + (1000 if v % 3 < 2 else 0),
            bytes_written=size,
        )
        for v in range(count)
    ]
    tensors = [Tensor(name="x", producer=None, consumers=(0,), bytes=size)]
    for v in range(count):
        further = (v + 3,) if v % 6 == 2 and v + 3 < count else ()
        tensors.append(Tensor(name=f"t{v}", producer=v, consumers=(v + 1, *further), bytes=size))
    operators.append(Operator(name="slice", target="partita.slice.default", free=True))
    tensors.append(Tensor(name="out", producer=count, bytes=4))
    weights = (Parameter(name=f"w{v}", users=(v,), bytes=1000) for v in range(count) if v % 3 < 2)
    return Graph(name="net", operators=tuple(operators), tensors=tuple(tensors), parameters=tuple(weights))


def test_a_fused_model_is_one_kernel_for_each_group() -> None:
    graph = network()
    plain = pt.price(graph, CLUSTER, objective="latency")
    problem = pt.price(graph, CLUSTER, objective="latency", fuse=True)
    named = {op.id: op for op in problem.operators}
    fused = fuse(graph)
    assert [op.members for op in problem.operators if op.members] == [g for g in fused.groups if len(g) > 1]
    assert [op.type for op in problem.operators[:4]] == ["conv+bn+relu"] * 4
    assert [op.type for op in plain.operators[:3]] == ["conv", "bn", "relu"]
    time = {op.id: op.times for op in plain.operators}
    for op in named.values():
        for d in range(2):
            together = sum(time[v][d] or 0.0 for v in op.members)
            fixed = [device.launch_overhead_s for device in CLUSTER.devices.values()]
            # All fixed times but one are saved, and traffic.
            assert not op.members or (op.times[d] or 0.0) <= together - (len(op.members) - 1) * min(fixed)
    assert sum(op.memory for op in problem.operators) == sum(op.memory for op in plain.operators)
    assert any("4 × conv∘bn∘relu" in note for note in problem.notes)
    assert pt.price(graph, CLUSTER, objective="latency", fusion_rules="moirai").operators == problem.operators
    with pytest.raises(InputError, match="no fusion rules 'none'"):
        pt.price(graph, CLUSTER, objective="latency", fusion_rules="none")


def test_a_plan_of_fused_operators_is_one_of_all_operators() -> None:
    """Devices and order of the fused plan, on the times of the operators one by one."""
    graph = network()
    problem = pt.price(graph, CLUSTER, objective="latency")
    coarse = pt.price(graph, CLUSTER, objective="latency", fuse=True)
    result = pt.solve(coarse, solver="annealing", time_limit_s=2)
    assert result.plan is not None
    groups = dict(enumerate(fuse(graph).groups))
    made = lift(problem, groups, msgspec.structs.replace(result.plan, flows={}))
    assert evaluate(problem, made).feasible
    for identity, members in groups.items():
        if identity in result.plan.operators:
            homes = {made.operators[v].device for v in members if v in made.operators}
            assert homes == {result.plan.operators[identity].device}


def test_the_command_line(partita: Any, tmp_path: Path) -> None:
    pt.write_graph(tmp_path / "net.json", network())
    common = ("plan", tmp_path / "net.json", "--cluster", "1xA100-40GB+1xL4", "--objective", "latency", "--json")
    run = partita(*common, "--time-limit", "10", "--fuse")
    assert run.code == 0
    assert sorted(map(len, run.document["fused"].values())) == [3, 3, 3, 3]
    rules = tmp_path / "rules.toml"
    rules.write_text('rules = [["conv", "bn"]]\n')
    run = partita(*common, "--time-limit", "10", "--fusion-rules", rules)
    assert sorted(map(len, run.document["fused"].values())) == [2, 2, 2, 2]
    run = partita(*common, "--fusion-rules", tmp_path / "absent.toml")
    assert run.code == 2
    assert "absent.toml" in run.err
