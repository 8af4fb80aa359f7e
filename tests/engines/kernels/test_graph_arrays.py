"""Graphs, sets and rows of bits, against lists and sets of Python."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from instances.kernel_arrays import dags, paths_between, row_of, values
from partita.engines.kernels.arrays import Floats, Ints, Longs, Words, as_arrays, bit_rows, row_masks, zeros
from partita.engines.kernels.bits import add, has, listed
from partita.engines.kernels.closures import SPANS, closure_bits, closure_sums, span_sums
from partita.engines.kernels.compiled import compiled
from partita.engines.kernels.graph_arrays import (
    chosen_rows,
    csr,
    graph_of,
    lists,
    partition_of,
    pointer_of,
    rows_of,
    sets_of,
)

ROWS = st.lists(st.lists(st.integers(0, 9), unique=True), max_size=5)


class Struct(NamedTuple):
    numbers: Floats
    places: Ints
    many: int
    on: bool
    other: Any


def test_a_named_tuple_of_arrays_from_a_mapping() -> None:
    made = as_arrays(Struct, {"numbers": [1, 2], "places": [3.0], "many": np.int64(4), "on": 1, "other": "x"})
    assert made.numbers.dtype == np.float64
    assert made.places.dtype == np.int32
    assert made.places.tolist() == [3]
    assert (made.many, made.on, made.other) == (4, True, "x")
    assert type(made.many) is int
    turned = as_arrays(Struct, {**made._asdict(), "numbers": np.ones((3, 2)).T})
    assert turned.numbers.flags.c_contiguous


def test_a_named_tuple_of_zeros() -> None:
    made = zeros(Struct, ("numbers", (2, 3)), ("places", 4), many=5, on=True, other="x")
    assert made.numbers.tolist() == [[0.0] * 3] * 2
    assert made.places.tolist() == [0] * 4
    assert (made.numbers.dtype, made.places.dtype) == (np.float64, np.int32)
    assert made[2:] == (5, True, "x")


@given(st.integers(1, 150).flatmap(lambda n: st.tuples(st.just(n), st.lists(st.sets(st.integers(0, n - 1))))))
def test_rows_of_bits_are_sets(made: tuple[int, list[set[int]]]) -> None:
    n, rows = made
    mask = np.array([[v in row for v in range(n)] for row in rows], bool).reshape(len(rows), n)
    words = bit_rows(mask)
    assert words.shape == (len(rows), (n + 63) // 64)
    assert all(word.tolist() == row_of(row, n).tolist() for word, row in zip(words, rows, strict=True))
    assert row_masks(words, n).tolist() == mask.tolist()


@compiled
def put_in(row: Words, items: Longs, members: Ints, found: Ints) -> int:
    """Put items into a set, list it, and say of every item whether it is in it."""
    for v in items:
        add(row, v)
    for v in range(found.shape[0]):
        found[v] = has(row, v)
    return listed(row, members)


@given(st.integers(1, 150).flatmap(lambda n: st.tuples(st.just(n), st.lists(st.integers(0, n - 1)))))
def test_items_are_put_in_and_listed(made: tuple[int, list[int]]) -> None:
    n, items = made
    row, members, found = np.zeros((n + 63) // 64, np.uint64), np.full(n, -1, np.int32), np.zeros(n, np.int32)
    count = put_in(row, np.array(items, np.int64), members, found)
    assert members.tolist() == sorted(set(items)) + [-1] * (n - len(set(items)))
    assert count == len(set(items))
    assert found.tolist() == [v in items for v in range(n)]


@given(dags(most=8).flatmap(lambda dag: st.tuples(st.just(dag), st.permutations(range(dag[0])))))
def test_a_graph_and_its_relatives(made: tuple[tuple[int, list[tuple[int, int]]], list[int]]) -> None:
    (n, edges), order = made
    given_order = edges[::-1]
    graph = graph_of(iter(given_order), n)
    for v in range(n):
        assert graph.after(v).tolist() == [w for u, w in given_order if u == v]
        assert graph.before(v).tolist() == [u for u, w in given_order if w == v]
        assert graph.turned().after(v).tolist() == graph.before(v).tolist()
        assert graph.turned().before(v).tolist() == graph.after(v).tolist()
    assert sorted(map(tuple, graph.edges.tolist())) == edges
    assert graph_of(np.array(edges, np.int64).reshape(-1, 2), n).edges.tolist() == [list(edge) for edge in edges]
    number = {v: place for place, v in enumerate(order)}
    other = graph.numbered(np.array(order, np.int64))
    assert sorted(map(tuple, other.edges.tolist())) == sorted((number[u], number[v]) for u, v in edges)
    for v in range(n):
        assert other.after(number[v]).tolist() == sorted(number[w] for u, w in edges if u == v)
        assert other.before(number[v]).tolist() == sorted(number[u] for u, w in edges if w == v)


@given(ROWS, st.data())
def test_sets_both_ways(rows: list[list[int]], data: st.DataObject) -> None:
    sets = sets_of(rows, 10)
    assert [sets.members(row).tolist() for row in range(len(rows))] == rows
    assert [sets.holding(v).tolist() for v in range(10)] == [
        [r for r, row in enumerate(rows) if v in row] for v in range(10)
    ]
    chosen = data.draw(st.lists(st.integers(0, len(rows) - 1), unique=True)) if rows else []
    some = sets.chosen(np.array(chosen, np.int64))
    assert [some.members(row).tolist() for row in range(len(chosen))] == [rows[row] for row in chosen]
    assert len(some.item_ptr) == 11
    assert some.holding(3).tolist() == [place for place, row in enumerate(chosen) if 3 in rows[row]]
    names = np.arange(10, dtype=np.int32)[::-1].copy()
    assert chosen_rows(sets.ptr, sets.pins, np.array(chosen, np.int64), names.astype(np.int64))[1].dtype == np.int32
    renamed = sets.chosen(np.array(chosen, np.int64), names)
    assert [renamed.members(row).tolist() for row in range(len(chosen))] == [
        sorted(9 - v for v in rows[r]) for r in chosen
    ]


@given(ROWS)
def test_pairs_of_pointers_and_members(rows: list[list[int]]) -> None:
    pointer, members = csr(rows)
    assert pointer.dtype == members.dtype == np.int32
    assert lists(pointer, members) == rows
    assert pointer_of([len(row) for row in rows]).tolist() == pointer.tolist()
    backwards = chosen_rows(pointer, members, np.arange(len(rows))[::-1])
    assert lists(*backwards) == rows[::-1]
    flat = [(row, v) for row, members in enumerate(rows) for v in members][::-1]
    again = rows_of(np.array([r for r, _ in flat], np.int64), np.array([v for _, v in flat], np.int64), len(rows) + 1)
    assert lists(*again) == [*(row[::-1] for row in rows), []]


@given(st.lists(st.integers(0, 3)))
def test_every_item_is_in_one_group(of: list[int]) -> None:
    groups = partition_of(of, 4)
    assert groups.of.tolist() == of
    assert groups.members.dtype == np.int32
    assert lists(groups.ptr, groups.members) == [[v for v, g in enumerate(of) if g == group] for group in range(4)]


@given(st.data(), dags(most=8))
def test_closures_and_what_they_sum_to(data: st.DataObject, dag: tuple[int, list[tuple[int, int]]]) -> None:
    n, edges = dag
    graph, weights = graph_of(edges, n), np.stack([data.draw(values(n)), data.draw(values(n))])
    later = paths_between(n, edges)
    earlier = [{u for u in range(n) if v in later[u]} for v in range(n)]
    for first_to_last, closed in ((True, earlier), (False, later)):
        rows = closure_bits(graph, first_to_last)
        assert rows.tolist() == [row_of(row, n).tolist() for row in closed]
        sums = np.ones((2, n))
        closure_sums(graph, weights, first_to_last, sums)
        assert sums.tolist() == [[1 + sum(row[u] for u in closed[v]) for v in range(n)] for row in weights]
        spans = np.zeros((2, n))
        span_sums(graph, weights, first_to_last, spans)
        assert (spans + 1).tolist() == pytest.approx(sums), "so few items have few intervals"


@pytest.mark.parametrize("first_to_last", [True, False])
def test_sums_over_too_many_intervals_are_less(first_to_last: bool) -> None:
    """Items beside long chains: never more than all that comes before, and close to it."""
    rng = np.random.default_rng(4)
    less = equal = 0
    for width in (2, 5, 9):
        # A ladder of so many chains that are joined now and then, numbered across.
        rungs = 60
        edges = [(v, v + width) for v in range(width * (rungs - 1))]
        edges += [(v, v + width + 1) for v in range(width * (rungs - 1) - 1) if rng.random() < 0.05]
        n = width * rungs
        graph, weights = graph_of(edges, n), rng.integers(1, 9, (1, n)).astype(np.float64)
        whole, spans = np.zeros((2, 1, n))
        closure_sums(graph, weights, first_to_last, whole)
        span_sums(graph, weights, first_to_last, spans)
        assert (spans <= whole).all()
        assert (spans >= weights).all()
        less += int((spans < whole).sum())
        equal += int((spans == whole).sum())
        weights[0, rng.integers(n, size=3)] = np.inf
        whole, spans = np.zeros((2, 1, n))
        closure_sums(graph, weights, first_to_last, whole)
        span_sums(graph, weights, first_to_last, spans)
        assert (np.isinf(spans) == np.isinf(whole)).all()
        assert (spans <= whole).all()
    assert less > 100 > SPANS
    assert equal > 100


#: Around whole words.
SIZES = (1, 63, 64, 65, 127, 128, 130)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("first_to_last", [True, False])
def test_closures_of_whole_words(first_to_last: bool, n: int) -> None:
    """A row of items: everything is before the last one."""
    rows = closure_bits(graph_of([(v, v + 1) for v in range(n - 1)], n), first_to_last)
    wanted = [set(range(v + 1)) if first_to_last else set(range(v, n)) for v in range(n)]
    assert rows.tolist() == [row_of(row, n).tolist() for row in wanted]


@pytest.mark.parametrize("n", SIZES)
def test_masks_of_whole_words(n: int) -> None:
    mask = np.ones((2, n), bool)
    mask[1, ::2] = False
    words = bit_rows(mask)
    assert words.tolist() == [row_of(set(range(n)), n).tolist(), row_of(set(range(1, n, 2)), n).tolist()]
    assert row_masks(words, n).tolist() == mask.tolist()
    assert row_masks(words[1], n).tolist() == mask[1].tolist()
    assert row_masks(words[None], n).shape == (1, 2, n)
