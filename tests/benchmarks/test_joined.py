"""Two tables of a benchmark, joined: which rows belong together, what is worse, and what is said of it."""

from __future__ import annotations

import csv
import io

import pytest

from benchmarks import _joined


def table(text: str) -> list[_joined.Row]:
    return list(csv.DictReader(io.StringIO(text.replace(" ", "").lstrip("\n"))))


BEFORE = """
file,k,objective,bound,gap,seconds,status
a,2,10.0,9.0,0.1,0.2,feasible
a,4,8.0,8.0,0.0,2.0,optimal
b,2,7.5,7.0,0.067,4.0,feasible
"""
#: Better, the same with another status, and worse in all; in another order, and with a column more.
NOW = """
file,k,kind,objective,bound,gap,seconds,status
b,2,x,7.6,6.9,0.09,5.0,feasible
a,2,x,9.5,9.5,0.0,0.4,optimal
a,4,x,8.0,8.0,0.0,2.1,optimal
"""


def test_rows_are_joined_by_what_tells_them_apart_and_judged_by_figures() -> None:
    found = _joined.join(table(BEFORE), table(NOW))
    assert found.keys == ("file", "k")
    assert found.figures == ("objective", "bound", "gap", "seconds")
    assert [(pair.key, pair.worse, pair.slower) for pair in found.pairs] == [
        (("b", "2"), ("objective", "bound"), ("seconds",)),
        (("a", "2"), (), ()),
        (("a", "4"), (), ()),
    ]
    assert found.worse
    assert found.others == {"status": 1}


def test_what_is_said_has_both_figures_marks_and_sums() -> None:
    head, worse, *rest = _joined.lines(_joined.join(table(BEFORE), table(NOW)))
    assert head.split() == ["file", "k", "objective", "bound", "gap", "seconds"]
    assert worse.split(maxsplit=2)[:2] == ["b", "2"]
    assert "7.5 | 7.6" in worse
    assert worse.endswith("WORSE: objective, bound; slower: seconds")
    assert "WORSE" not in "".join(rest)
    assert rest[2:] == ["sum of seconds: 6.2 before, 7.5 now (+21%)", "status differs in 1 of 3 rows"]


def test_what_is_written_has_figures_before_and_now_in_columns() -> None:
    first = _joined.as_rows(_joined.join(table(BEFORE), table(NOW)))[0]
    assert first["file"] == "b"
    assert (first["objective before"], first["objective now"]) == ("7.5", "7.6")
    assert first["verdict"].startswith("WORSE")


@pytest.mark.parametrize(
    ("column", "before", "now", "worse"),
    [
        ("objective", "10.0", "10.000001", False),
        ("objective", "10.0", "10.0001", True),
        ("objective", "10.0", "9.0", False),
        ("objective", "10.0", "", True),
        ("objective", "", "10.0", False),
        ("objective", "10.0", "nan", True),
        ("objective", "inf", "10.0", False),
        ("objective", "10.0", "inf", True),
        ("bound", "10.0", "9.999999", False),
        ("bound", "10.0", "9.9999", True),
        ("bound", "10.0", "11.0", False),
        ("bound", "", "1.0", False),
        ("bound", "-inf", "1.0", False),
        ("gap", "0.1", "0.9", False),
        ("peak_mb", "100", "900", False),
        ("tokens_per_s", "10.0", "9.0", True),
        ("tokens_per_s", "10.0", "11.0", False),
    ],
)
def test_a_figure_is_worse_beyond_rounding(column: str, before: str, now: str, worse: bool) -> None:
    found = _joined.join([{"file": "a", column: before}], [{"file": "a", column: now}])
    assert found.worse is worse


def test_bounds_of_what_plans_bring_are_from_above() -> None:
    before = [{"instance": "a", "tokens_per_s": "10.0", "bound": "12.0"}]
    assert _joined.join(before, [{"instance": "a", "tokens_per_s": "10.0", "bound": "12.5"}]).worse
    assert not _joined.join(before, [{"instance": "a", "tokens_per_s": "10.0", "bound": "11.0"}]).worse


@pytest.mark.parametrize(
    ("before", "now", "slower"),
    [("0.1", "0.4", False), ("0.4", "0.6", True), ("2.0", "2.15", False), ("2.0", "2.3", True), ("2.0", "1.0", False)],
)
def test_times_are_slower_beyond_a_tenth_where_they_are_not_short(before: str, now: str, slower: bool) -> None:
    found = _joined.join([{"file": "a", "seconds": before}], [{"file": "a", "seconds": now}])
    assert bool(found.pairs[0].slower) is slower
    assert not found.worse


def test_a_row_that_is_gone_is_worse_and_a_new_one_is_not() -> None:
    one, two = [{"file": "a", "objective": "1.0"}], [{"file": name, "objective": "1.0"} for name in "ab"]
    assert _joined.join(two, one).worse
    assert _joined.join(two, []).worse
    gained = _joined.join(one, two)
    assert not gained.worse
    assert [_joined.verdict(pair) for pair in gained.pairs] == ["", "new"]


def test_rows_of_another_script_may_be_rounded_and_others() -> None:
    before = [{"file": name, "step": "0.3312"} for name in "ab"]
    assert not _joined.join(before, [{"file": "a", "step": "0.33124"}], other_script=True).worse
    assert _joined.join(before, [{"file": "a", "step": "0.33134"}], other_script=True).worse
    assert _joined.join(before[:1], [{"file": "a", "step": "0.33124"}]).worse


def test_rows_that_nothing_tells_apart_are_joined_in_order() -> None:
    before = [{"file": "a", "objective": value, "status": "feasible"} for value in ("1.0", "2.0")]
    now = [{"file": "a", "objective": value, "status": "optimal"} for value in ("1.0", "3.0")]
    found = _joined.join(before, now)
    assert [pair.worse for pair in found.pairs] == [(), ("objective",)]
    assert found.others == {"status": 2}


def test_measurements_tell_no_rows_apart() -> None:
    before = [{"ratio": "0.5", "peak_mb": "5", "file": "a", "bound": "1.0"}]
    found = _joined.join(before, [before[0] | {"ratio": "0.25", "peak_mb": "6"}])
    assert found.keys == ("file",)
    assert found.figures == ("peak_mb", "bound")
    assert found.others == {"ratio": 1}
