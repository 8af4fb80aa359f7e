"""Fused graphs: what a fused operator reads and writes, and what is found in traced models."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partita.costs.roofline import Roofline
from partita.fusion.fuse import FusedGraph, fuse
from partita.fusion.rules import FusionRules
from partita.nouns.catalogue.specs import DeviceSpec
from partita.nouns.graph import Graph, Operator, Parameter, Tensor


def kinds(fused: FusedGraph) -> Counter[str]:
    """How often each group was found."""
    return Counter(op.target.removeprefix("fused.") for op in fused.graph.operators if op.target.startswith("fused."))


def traffic(graph: Graph) -> int:
    return sum(op.bytes_read + op.bytes_written for op in graph.operators)


def check(graph: Graph, fused: FusedGraph) -> None:
    """What every fused graph keeps."""
    assert sorted(v for group in fused.groups for v in group) == list(range(len(graph.operators)))
    assert len(fused.groups) == len(fused.graph.operators)
    assert fused.graph.flops == graph.flops
    assert fused.graph.parameter_bytes == graph.parameter_bytes
    for op, group in zip(fused.graph.operators, fused.groups, strict=True):
        members = [graph.operators[v] for v in group]
        assert op.flops == sum(m.flops for m in members)
        assert 0 <= op.bytes_read <= sum(m.bytes_read for m in members)
        assert 0 <= op.bytes_written <= sum(m.bytes_written for m in members)
        assert op.workspace_bytes == max(m.workspace_bytes for m in members)
        assert {m.phase for m in members} == {op.phase}
    home = {v: number for number, group in enumerate(fused.groups) for v in group}
    moved = {t.name: (t.producer, t.consumers) for t in fused.graph.tensors}
    for t in graph.tensors:
        maker = None if t.producer is None else home[t.producer]
        readers = tuple(sorted({home[v] for v in t.consumers} - {maker}))
        assert moved.get(t.name, (maker, ())) == (maker, readers)


def residual(**last: Any) -> Graph:
    """A product with a residual: x is read by the product and by the addition, the weight by the product."""
    return Graph(
        name="residual",
        operators=(
            Operator(name="mm", target="aten.mm.default", module="net.a", flops=100, bytes_read=28, bytes_written=8),
            Operator(name="add", target="aten.add.Tensor", module="net.b", bytes_read=16, bytes_written=8),
            Operator(name="act", target="aten.relu_.default", module="net.b.c", bytes_read=8, bytes_written=8, **last),
        ),
        tensors=(
            Tensor(name="x", producer=None, consumers=(0, 1), bytes=8),
            Tensor(name="mm", producer=0, consumers=(1,), bytes=8),
            Tensor(name="add", producer=1, consumers=(2,), bytes=8),
            Tensor(name="act", producer=2, bytes=8),
        ),
        parameters=(Parameter(name="w", users=(0,), bytes=20),),
    )


def test_only_what_enters_and_leaves_is_traffic() -> None:
    fused = fuse(residual())
    (op,) = fused.graph.operators
    assert (op.name, op.target, op.module) == ("mm+add+relu", "fused.matmul+add+relu", "net")
    # x once and the weight; the result of the last.
    assert (op.flops, op.bytes_read, op.bytes_written) == (100, 28, 8)
    assert [t.name for t in fused.graph.tensors] == ["x", "act"]
    assert fused.graph.parameters[0].users == (0,)
    assert fused.groups == ((0, 1, 2),)
    assert fused.graph.notes[-1:] == fused.notes
    check(residual(), fused)


def test_one_kernel_has_one_fixed_time() -> None:
    spec = DeviceSpec(
        name="X",
        peak_flops={"float32": 100.0},
        memory_bandwidth_bytes_per_s=8.0,
        memory_bytes=2**31,
        link="pcie4",
        compute_efficiency=0.5,
        memory_efficiency=0.5,
        launch_overhead_s=0.25,
    )
    # 36 bytes at 4 per second, against 100 / 50 of arithmetic; it takes longer than to issue it.
    assert Roofline().operator_times(fuse(residual()).graph, spec) == [9.0]
    assert Roofline().operator_times(residual(), spec) == [9.0, 6.0, 4.0]


def test_arithmetic_has_one_format() -> None:
    rules = FusionRules("mine", (("matmul", "add", "relu"),))
    assert len(fuse(residual(dtype="float16"), rules).graph.operators) == 1
    assert len(fuse(residual(dtype="float16", flops=1), rules).graph.operators) == 3


def test_colocation_and_phase_keep_operators_apart() -> None:
    assert fuse(residual(phase="backward", colocation=0)).groups == ((0, 1), (2,))
    found = fuse(residual(colocation=0))
    assert found.groups == ((0, 1), (2,))
    assert found.graph.operators[1].colocation == 0


def test_a_partner_is_never_behind() -> None:
    """The addition shares the device of the product, which would be one with what comes after the addition."""
    graph = Graph(
        name="tied",
        operators=(
            Operator(name="a", target="aten.mm.default"),
            Operator(name="b", target="aten.sort.default", colocation=0),
            Operator(name="c", target="aten.add.Tensor"),
        ),
        tensors=(Tensor(name="t", producer=0, consumers=(2,)),),
    )
    assert fuse(graph).groups == ((0,), (1,), (2,))


def test_a_free_slice_is_passed_through() -> None:
    graph = Graph(
        name="slice",
        operators=(
            Operator(name="mm", target="aten.mm.default", bytes_written=8),
            Operator(name="slice", target="partita.slice.default", free=True),
            Operator(name="add", target="aten.add.Tensor", bytes_read=4),
        ),
        tensors=(
            Tensor(name="mm", producer=0, consumers=(1,), bytes=8),
            Tensor(name="slice", producer=1, consumers=(2,), bytes=4),
        ),
    )
    (op,) = fuse(graph).graph.operators
    assert (op.target, op.bytes_read, op.bytes_written) == ("fused.matmul+add", 0, 0)


@st.composite
def graphs(draw: st.DrawFn, *, plain: bool) -> Graph:
    """Operators that read some of what was made before; plain ones read all of it and write what they make."""
    targets = ("aten.mm.default", "aten.add.Tensor", "aten.relu.default", "aten._softmax.default", "aten.sort.default")
    size = st.integers(0, 9)
    count = draw(st.integers(1, 8))
    tensors = []
    for v in range(count):
        readers = {v + 1} - {count}
        if readers and draw(st.integers(0, 3)) == 0:
            readers = draw(st.sets(st.integers(v + 1, count - 1), max_size=2))
        tensors.append(Tensor(name=f"t{v}", producer=v, consumers=tuple(sorted(readers)), bytes=draw(size)))
    inputs = draw(st.sets(st.integers(0, count - 1), max_size=3))
    tensors.append(Tensor(name="x", producer=None, consumers=tuple(sorted(inputs)), bytes=draw(size)))
    operators = []
    for v in range(count):
        home = draw(st.integers(0, v - 1)) if v and draw(st.integers(0, 4)) == 0 else None
        operators.append(
            Operator(
                name=f"o{v}",
                target=draw(st.sampled_from(targets)),
                flops=draw(size),
                bytes_read=draw(st.integers(0, 30)),
                bytes_written=draw(size),
                workspace_bytes=draw(size),
                colocation=home,
                free=draw(st.integers(0, 5)) == 0,
            )
        )
    users = draw(st.sets(st.integers(0, count - 1), max_size=3))
    weights = (Parameter(name="w", users=tuple(sorted(users)), bytes=draw(size)),)
    graph = Graph(name="random", operators=tuple(operators), tensors=tuple(tensors), parameters=weights)
    if not plain:
        return graph
    changed = [
        msgspec.structs.replace(op, bytes_read=entering(graph, {v}), bytes_written=leaving(graph, {v}))
        for v, op in enumerate(operators)
    ]
    return graph.replace(operators=tuple(changed))


def entering(graph: Graph, members: set[int]) -> int:
    """Bytes of what a group reads and does not make."""
    made = [t.bytes for t in graph.tensors if t.producer not in members and members & set(t.consumers)]
    return sum(made) + sum(p.bytes for p in graph.parameters if members & set(p.users))


def leaving(graph: Graph, members: set[int]) -> int:
    """Bytes of what a group makes and others read, or nobody: the result."""
    return sum(t.bytes for t in graph.tensors if t.producer in members and not (set(t.consumers) or {-1}) <= members)


@given(graphs(plain=False))
def test_what_every_fused_graph_keeps(graph: Graph) -> None:
    check(graph, fuse(graph))


@given(graphs(plain=True))
def test_traffic_is_what_enters_and_leaves(graph: Graph) -> None:
    fused = fuse(graph)
    check(graph, fused)
    for op, group in zip(fused.graph.operators, fused.groups, strict=True):
        assert op.bytes_read == entering(graph, set(group))
        assert op.bytes_written == leaving(graph, set(group))


def test_blocks_of_traced_models() -> None:
    """A residual block, attention without a fused call, an MLP, a norm by hand."""
    torch = pytest.importorskip("torch")
    import partita as pt

    nn = torch.nn

    class Residual(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Conv2d(8, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
            self.norms = nn.ModuleList([nn.BatchNorm2d(8), nn.BatchNorm2d(8)])

        def forward(self, x: Any) -> Any:
            inner = torch.relu(self.norms[0](self.first(x)))
            return torch.relu(self.norms[1](self.second(inner)) + x)

    class Block(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.qkv, self.out = nn.Linear(32, 96, bias=False), nn.Linear(32, 32)
            self.up, self.down = nn.Linear(32, 64), nn.Linear(64, 32)
            self.weight = nn.Parameter(torch.ones(32))

        def norm(self, x: Any) -> Any:
            return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight

        def forward(self, x: Any) -> Any:
            q, k, v = self.qkv(self.norm(x)).chunk(3, dim=-1)
            scores = (q @ k.transpose(-1, -2)) / 8.0 + 1.0
            x = x + self.out(torch.softmax(scores, dim=-1) @ v)
            return x + self.down(nn.functional.gelu(self.up(self.norm(x))))

    with torch.device("meta"):
        modules = Residual().eval(), Block().eval()
    graph = pt.trace(modules[0], (torch.empty(1, 8, 14, 14, device="meta"),))
    for table in ("common", "moirai"):
        fused = fuse(graph, table)
        check(graph, fused)
        assert kinds(fused) == {"conv+bn+relu": 1, "conv+bn+add+relu": 1}
        assert (len(graph.operators), len(fused.graph.operators)) == (7, 2)
    assert 2 * traffic(fused.graph) < traffic(graph)

    graph = pt.trace(modules[1], (torch.empty(1, 128, 32, device="meta"),))
    fused = fuse(graph)
    check(graph, fused)
    assert kinds(fused) == {
        "pow+reduce+add+rsqrt+mul+mul": 2,
        "matmul+div+add+softmax+matmul": 1,
        "matmul+add": 2,
        "matmul+gelu": 1,
    }
    assert len(fused.graph.operators) == 7
    # The scores stay inside.
    assert all(t.bytes < 128 * 128 * 4 for t in fused.graph.tensors)
    assert len(fuse(graph, "moirai").graph.operators) == len(graph.operators)


def test_a_training_graph_keeps_its_phases() -> None:
    torch = pytest.importorskip("torch")
    import partita as pt

    net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU(), torch.nn.Linear(8, 8))
    graph = pt.trace(net, (torch.empty(4, 8),), training=True)
    fused = fuse(graph)
    check(graph, fused)
    assert fused.graph.training
