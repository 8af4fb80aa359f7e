"""Units that stages may not cut through."""

from __future__ import annotations

import pytest

from instances.cost_graphs import make_cluster
from partita.costs.units import cut_units, weights_alone
from partita.engines.search.monitor import Monitor
from partita.engines.search.result import Status
from partita.nouns.cluster import Cluster
from partita.nouns.graph import Graph, Operator, Parameter, Tensor
from partita.problems.throughput.baselines.paths import LayerCuts
from partita.problems.throughput.evaluate import evaluate
from partita.problems.throughput.options import ThroughputOptions, ThroughputPricing
from partita.problems.throughput.pricing import price

MODULES = [
    "wte",
    *(
        f"h.{i}{part}"
        for i in range(3)
        for part in (".ln", ".attn.q", ".attn.k", ".attn", "", ".mlp.up", ".mlp.down", "")
    ),
    "ln_f",
    "head",
]


def row(modules: list[str] = MODULES) -> Graph:
    """Operators in a row, each reading the one before; a residual runs from each block's source to its additions."""
    operators = tuple(
        Operator(
            name=f"op{v}", target="t", module=module, dtype="float16", flops=10**9, bytes_read=10, bytes_written=10
        )
        for v, module in enumerate(modules)
    )
    tensors = tuple(
        Tensor(name=f"t{v}", producer=v, consumers=(v + 1,), shape=(5,), dtype="float16", bytes=10)
        for v in range(len(modules) - 1)
    )
    return Graph(name="row", operators=operators, tensors=tensors)


def test_layers() -> None:
    units = cut_units(row(), "layer")
    assert units[0] == 0
    assert [units[1 + 8 * block : 9 + 8 * block] for block in range(3)] == [[1 + 8 * block] * 8 for block in range(3)]
    assert units[25:] == [25, 25]


def test_modules_of_layers() -> None:
    units = cut_units(row(), "module")
    for block in range(3):
        first = 1 + 8 * block
        # Norm; attention with what it calls; its addition alone; the products of the MLP; the other addition.
        assert units[first : first + 8] == [
            first,
            first + 1,
            first + 1,
            first + 1,
            first + 4,
            first + 5,
            first + 5,
            first + 7,
        ]
    assert units[0] == 0
    assert units[25:] == [25, 26]


def test_operators_are_units_of_their_own() -> None:
    assert cut_units(row(), "operator") == list(range(27))


def test_freedom_never_costs() -> None:
    import partita as pt

    cluster = Cluster.from_spec("4xL4")
    found = {}
    for cuts in ("operator", "module", "layer"):
        result = pt.solve(price(row(), cluster, ThroughputPricing(cuts=cuts)), solver="exact", time_limit_s=60)
        assert result.status is Status.OPTIMAL
        found[cuts] = result.objective
    assert found["operator"] <= found["module"] <= found["layer"]
    assert found["operator"] < found["layer"]
    # The row that says what cutting between layers only costs says the same.
    problem = price(row(), cluster, ThroughputPricing())
    plan = LayerCuts().solve(problem, ThroughputOptions(), Monitor()).plan
    assert plan is not None
    assert evaluate(problem, plan).objective == pytest.approx(found["layer"])


def _gated(inputs: bool = True) -> Graph:
    """A product, the exponential of a weight in two steps, what reads both, and another reader of the exponential."""
    names = ("product", "cast", "exp", "scale", "again")
    edges = [("h", 0, (3,)), ("c", 1, (2,)), ("e", 2, (3, 4)), ("s", 3, (4,))]
    tensors = [Tensor(name=n, producer=p, consumers=r, shape=(4,), bytes=16) for n, p, r in edges]
    if inputs:
        tensors.insert(0, Tensor(name="x", producer=None, consumers=(0,), shape=(4,), bytes=16))
    weights = [("w", (0,)), ("log", (1,))]
    return Graph(
        name="gated",
        operators=tuple(Operator(name=name, target=f"aten.{name}", bytes_read=16, bytes_written=16) for name in names),
        tensors=tuple(tensors),
        parameters=tuple(Parameter(name=n, users=u, shape=(4,), bytes=16) for n, u in weights),
    )


def test_what_depends_on_weights_alone() -> None:
    assert weights_alone(_gated()) == {1: [2], 2: [3, 4]}
    assert weights_alone(_gated(inputs=False)) == {}


def test_what_depends_on_weights_alone_is_where_it_is_first_read() -> None:
    places = [op.colocation for op in price(_gated(), make_cluster(), ThroughputPricing()).operators]
    assert places == [None, 1, 1, 1, None]
