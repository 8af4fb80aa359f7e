"""Which operators are fused: the paper's figures, everything there is on small graphs, and the walk as printed."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

import rustworkx
from hypothesis import given
from hypothesis import strategies as st

from fusion.walk import walk
from partita.fusion.coarsening import coarsen
from partita.fusion.patterns import PatternAutomaton
from partita.fusion.rules import FUSION_RULES
from partita.fusion.types import CATEGORIES

MOIRAI = FUSION_RULES["moirai"].rules
Edges = Sequence[tuple[int, int]]


def groups(types: str, edges: Edges, rules: Sequence[Sequence[str]] = MOIRAI, **more: object) -> list[tuple[int, ...]]:
    """Groups of operators whose types stand in a text."""
    return coarsen(types.split(), edges, PatternAutomaton(rules, CATEGORIES), **more)  # type: ignore[arg-type]


def row(count: int) -> list[tuple[int, int]]:
    return [(v, v + 1) for v in range(count - 1)]


# The figure of the paper: an addition that is read twice, pairs of add and relu above, two convolutions below.
FIGURE = "add relu add relu conv bn conv bn add relu"
FIGURE_EDGES = [(0, 1), (1, 2), (2, 3), (3, 8), (0, 4), (4, 5), (5, 6), (6, 7), (7, 8), (8, 9)]


def test_the_figure_of_the_paper() -> None:
    """Both convolutions are fused, the second with what joins the branches; pairs above are released."""
    assert groups(FIGURE, FIGURE_EDGES) == [(4, 5), (6, 7, 8, 9)]
    assert [g for g in walk(FIGURE.split(), FIGURE_EDGES, MOIRAI) if len(g) > 1] == [(4, 5), (6, 7, 8, 9)]


def test_a_result_with_several_readers_ends_a_group() -> None:
    assert groups("conv bn relu", row(3)) == [(0, 1, 2)]
    assert groups("conv bn relu relu", [*row(3), (1, 3)]) == [(0, 1)]
    assert groups("conv bn bn", [(0, 1), (0, 2)]) == []
    assert groups("conv bn relu", row(3), kept={1}) == [(0, 1)]
    assert groups("conv bn relu", [*row(3), (0, 1)]) == [(0, 1, 2)]


def test_one_of_several_producers_is_fused() -> None:
    """Two convolutions end in one addition: one keeps it, the other is fused by itself."""
    found = groups("conv bn conv bn add relu", [(0, 1), (1, 4), (2, 3), (3, 4), (4, 5)])
    assert sorted(map(len, found)) == [2, 4]


def test_parts_of_rules_are_released() -> None:
    assert groups("add relu", row(2)) == []
    assert groups("conv bn add gelu", row(4)) == [(0, 1)]
    assert groups("bn relu conv", row(3)) == []


def test_what_is_released_may_be_fused_otherwise() -> None:
    """The walk has bound b to a when it meets c and d; it releases what could have been a rule."""
    rules = (("a", "b"), ("b", "c", "d"))
    assert groups("a b c d", row(4), rules) == [(1, 2, 3)]
    assert [g for g in walk(list("abcd"), row(4), rules) if len(g) > 1] == [(0, 1)]


def test_a_rule_is_ordered_along_the_data() -> None:
    """The result of the batch norm goes to the relu, not to the addition before it."""
    assert groups("add conv bn relu", [(0, 3), (1, 2), (2, 3)], (("conv", "bn", "add", "relu"),)) == []


def test_suffixes_and_categories() -> None:
    chain = (("elementwise", "elementwise+"),)
    assert groups("mul add gelu tanh", row(4), chain) == [(0, 1, 2, 3)]
    assert groups("matmul add", row(2), chain) == []
    optional = (("conv", "bn?", "activation*"),)
    assert groups("conv relu", row(2), optional) == [(0, 1)]
    assert groups("conv bn", row(2), optional) == [(0, 1)]
    assert groups("conv bn bn", row(3), optional) == [(0, 1)]
    assert groups("conv bn silu relu", row(4), optional) == [(0, 1, 2, 3)]
    assert groups("conv add", row(2), optional) == []
    assert groups("a b", row(2), (("a?", "b"),)) == [(0, 1)]


def test_free_operators_are_passed_through() -> None:
    """One between two members is in the group; one before or after it is not."""
    types = ["free", "conv", "free", "free", "bn", "free"]
    patterns = PatternAutomaton(MOIRAI, CATEGORIES)
    assert coarsen(types, row(6), patterns, free={0, 2, 3, 5}) == [(1, 2, 3, 4)]
    assert coarsen(types, [*row(6), (2, 5)], patterns, free={0, 2, 3, 5}) == []


def test_edges_kept_apart_stay_apart() -> None:
    assert groups("conv bn relu", row(3), apart={(1, 2)}) == [(0, 1)]


def test_of_equal_choices_the_larger_gain_is_taken() -> None:
    edges = [(0, 2), (1, 2)]
    for best in (0, 1):
        gains = [5, 5, 0]
        gains[best] = 9
        assert groups("mul add add", edges, (("elementwise", "add"),), gains=gains) == [(best, 2)]
    # What passes through a free operator is saved twice.
    found = groups("mul free mul add", [(0, 1), (1, 3), (2, 3)], (("mul", "add"),), gains=[3, 3, 5, 0], free={1})
    assert found == [(0, 1, 3)]


def test_fewer_operators_come_before_gains() -> None:
    assert groups("a b c d", row(4), (("a", "b"), ("b", "c", "d")), gains=[30, 1, 1, 0]) == [(1, 2, 3)]


TYPES = ("conv", "bn", "add", "relu")


@st.composite
def typed_graphs(draw: st.DrawFn) -> tuple[list[str], list[tuple[int, int]]]:
    """Mostly trees: operators with one reader not far behind them, some with a second one."""
    count = draw(st.integers(1, 9))
    types = draw(st.lists(st.sampled_from(TYPES), min_size=count, max_size=count))
    edges = set()
    for v in range(count - 1):
        edges.add((v, draw(st.integers(v + 1, min(v + 3, count - 1)))))
        if draw(st.integers(0, 7)) == 0:
            edges.add((v, draw(st.integers(v + 1, count - 1))))
    return types, sorted(edges)


rule_sets = st.one_of(
    st.just(MOIRAI),
    st.lists(st.lists(st.sampled_from(TYPES), min_size=2, max_size=4).map(tuple), min_size=1, max_size=4).map(tuple),
)


def most(types: Sequence[str], edges: Edges, rules: Sequence[tuple[str, ...]], gains: Sequence[int]) -> tuple[int, int]:
    """The most connections inside groups, and with these the largest gain, by trying every set of them."""
    readers = {u: {v for w, v in edges if w == u} for u in range(len(types))}
    links = [(u, next(iter(found))) for u, found in readers.items() if len(found) == 1]
    best = (0, 0)
    for size in range(len(links), -1, -1):
        for chosen in itertools.combinations(links, size):
            after = dict(chosen)
            if len(set(after.values())) < size or not all(r in rules for r in rows(types, after)):
                continue
            best = max(best, (size, sum(gains[u] for u in after)))
        if best[0]:
            return best
    return best


def rows(types: Sequence[str], after: dict[int, int]) -> list[tuple[str, ...]]:
    found = []
    for start in set(after) - set(after.values()):
        path = [start]
        while path[-1] in after:
            path.append(after[path[-1]])
        found.append(tuple(types[v] for v in path))
    return found


@given(typed_graphs(), rule_sets, st.randoms(use_true_random=False))
def test_as_many_as_possible_are_fused(
    graph: tuple[list[str], Edges], rules: Sequence[tuple[str, ...]], rng: random.Random
) -> None:
    """Groups are rules, and no choice has more connections or a larger gain; the numbering does not matter."""
    types, edges = graph
    gains = [rng.choice((0, 1, 2, 30)) for _ in types]
    found = coarsen(types, edges, PatternAutomaton(rules, {}), gains=gains)
    assert all(tuple(types[v] for v in group) in rules for group in found)
    assert len({v for group in found for v in group}) == sum(map(len, found))
    worth = sum(len(g) - 1 for g in found), sum(gains[v] for g in found for v in g[:-1])
    assert worth == most(types, edges, rules, gains)
    name = list(range(len(types)))
    rng.shuffle(name)
    old = sorted(range(len(types)), key=lambda v: name[v])
    other = coarsen(
        [types[v] for v in old],
        [(name[u], name[v]) for u, v in edges],
        PatternAutomaton(rules, {}),
        gains=[gains[v] for v in old],
    )
    assert worth == (sum(len(g) - 1 for g in other), sum(gains[old[v]] for g in other for v in g[:-1]))


@given(typed_graphs(), rule_sets)
def test_no_fewer_are_fused_than_by_the_walk(graph: tuple[list[str], Edges], rules: Sequence[tuple[str, ...]]) -> None:
    types, edges = graph
    found = coarsen(types, edges, PatternAutomaton(rules, {}))
    assert len(types) - sum(len(g) - 1 for g in found) <= len(walk(types, edges, rules))


@given(typed_graphs())
def test_what_is_left_is_acyclic(graph: tuple[list[str], Edges]) -> None:
    """By the last operator of each group, which is in an order of the operators; and by search."""
    types, edges = graph
    found = coarsen(types, edges, FUSION_RULES["common"].patterns)
    last = list(range(len(types)))
    for group in found:
        for v in group:
            last[v] = group[-1]
    crossing = [(last[u], last[v]) for u, v in edges if last[u] != last[v]]
    assert all(u < v for u, v in crossing)
    contracted: rustworkx.PyDiGraph[int, None] = rustworkx.PyDiGraph()
    contracted.add_nodes_from(range(len(types)))
    contracted.add_edges_from_no_data(crossing)
    assert rustworkx.is_directed_acyclic_graph(contracted)
    for group in found:
        for u, v in itertools.pairwise(group):
            assert {b for a, b in edges if a == u} == {v}
