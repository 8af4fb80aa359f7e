"""Which operator of a trace is which of a run."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from partita.frontends.fused import ATTENTION
from partita.frontends.records import DispatchedCall
from partita.profiler.alignment import align, besides


def event(name: str, *sides: int) -> DispatchedCall:
    return DispatchedCall(name, tuple(((side,), "float32") for side in sides))


def test_equal_rows_match_one_by_one() -> None:
    row = [event("a", 1), event("b", 1), event("a", 2)]
    assert align(row, row) == [0, 1, 2]


def test_what_only_one_of_them_has_is_left_out() -> None:
    traced = [event("a"), event("only"), event("b"), event("c")]
    ran = [event("a"), event("x"), event("y"), event("b"), event("c")]
    assert align(traced, ran) == [0, None, 3, 4]


def test_other_shapes_are_another_operator() -> None:
    assert align([event("a", 1), event("b", 1)], [event("a", 2), event("b", 1)]) == [None, 1]


def test_attention_is_itself_whatever_its_kernels_read() -> None:
    assert align([event(ATTENTION, 1, 2)], [event("detach"), event(ATTENTION, 1)]) == [1]


def lcs(a: list[DispatchedCall], b: list[DispatchedCall]) -> int:
    """Length of the longest common subsequence, by the table that defines it."""
    table = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            table[i + 1][j + 1] = table[i][j] + 1 if x == y else max(table[i][j + 1], table[i + 1][j])
    return table[-1][-1]


ROWS = st.lists(st.sampled_from("abc").map(event), max_size=12)


@given(ROWS, ROWS)
def test_as_many_events_as_possible_are_matched_in_order(
    traced: list[DispatchedCall], ran: list[DispatchedCall]
) -> None:
    found = align(traced, ran)
    places = [place for place in found if place is not None]
    assert places == sorted(set(places))
    assert all(ran[place] == a for a, place in zip(traced, found, strict=True) if place is not None)
    assert len(places) == lcs(traced, ran)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=40))
def test_insertions_are_skipped(entries: list[tuple[str, bool]]) -> None:
    """Operators that only the run has, each between two others, do not disturb the rest."""
    traced, ran, expected = [], [], []
    for number, (name, extra) in enumerate(entries):
        traced.append(event(name, number))
        if extra:
            ran.append(event("extra"))
        expected.append(len(ran))
        ran.append(event(name, number))
    assert align(traced, ran) == expected


def test_what_runs_besides_goes_with_the_operator_before_it() -> None:
    ran = [event("first"), event("mm"), event("t"), event("add_"), event("add_"), event("mm"), event("copy_")]
    assert besides({1, 5}, ran, {"t"}) == {1: [3, 4], 5: [6]}
