"""Time lines of schedules whose times are known."""

from __future__ import annotations

import pytest

from partita.ground.errors import InputError
from partita.simulator.critical import critical_path, critical_summary
from partita.simulator.fixed import Span, fixed_timeline
from partita.simulator.timeline import OPERATOR, TRANSFER, Lane

LANES = (Lane(0, "a", "compute"), Lane(0, "a", "out"), Lane(1, "b", "compute"))
SPANS = (
    Span(0, OPERATOR, 0.0, 2.0, "first"),
    Span(1, TRANSFER, 2.0, 3.0, "over", (0,), (0,)),
    Span(2, OPERATOR, 0.0, 1.0, "early"),
    Span(2, OPERATOR, 3.5, 5.0, "last", (1, 2), (1,)),
)


def test_causes_and_flows() -> None:
    """What ended last before a slice caused it; the rest is waiting."""
    timeline = fixed_timeline("four", "s", ("a", "b"), LANES, SPANS)
    assert timeline.finish == 5.0
    assert timeline.cause.tolist() == [-1, 0, -1, 1]
    assert timeline.flows.tolist() == [[0, 1], [1, 3]]
    path = critical_path(timeline)
    assert [timeline.label(place) for place in path] == ["first", "over", "last"]
    spent = critical_summary(timeline, path)
    assert (spent.by_sort, spent.waiting) == ({"operator": 3.5, "transfer": 1.0}, 0.5)


def test_of_equal_ends_the_longest_is_the_cause() -> None:
    spans = (
        Span(0, OPERATOR, 1.0, 2.0, "short"),
        Span(1, TRANSFER, 0.0, 2.0, "long"),
        Span(2, OPERATOR, 2.0, 3.0, "last", (0, 1)),
    )
    assert fixed_timeline("three", "s", ("a", "b"), LANES, spans).cause.tolist() == [-1, -1, 1]


def test_nothing() -> None:
    timeline = fixed_timeline("none", "s", ("a",), LANES[:1], ())
    assert (timeline.count, timeline.finish, critical_path(timeline)) == (0, 0.0, [])


@pytest.mark.parametrize("before", [(3,), (9,), (-1,)])
def test_what_waits_for_nobody_is_refused(before: tuple[int, ...]) -> None:
    spans = (*SPANS[:3], SPANS[3]._replace(before=before))
    with pytest.raises(InputError, match="four: slice 'last' waits for slice"):
        fixed_timeline("four", "s", ("a", "b"), LANES, spans)
