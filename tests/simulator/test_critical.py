"""The chain of slices that decides the finish time, and where its time goes."""

from __future__ import annotations

import pytest

from instances.timelines import Slice, timeline, two_devices
from partita.ground.errors import DisagreementError
from partita.simulator.critical import CriticalSummary, critical_path, critical_summary
from partita.simulator.timeline import BACKWARD, COPY_IN, FORWARD, TRANSFER, UPDATE, Lane

LANES = [Lane(0, "gpu0", "compute"), Lane(0, "gpu0", "copy"), Lane(1, "gpu1", "compute")]


def test_a_pipeline() -> None:
    """Forward 0, its transfer, all of the second stage, and what the first does last: nothing waits."""
    value = two_devices()
    path = critical_path(value)
    assert path == [0, 2, 4, 5, 7, 9, 10, 11, 12]
    assert critical_summary(value, path) == CriticalSummary(
        finish=10.5,
        by_sort={"forward": 3.0, "backward": 6.0, "update": 0.5, "transfer": 1.0},
        by_owner={"gpu0": 3.5, "gpu1": 6.0, "machine 0": 1.0},
        waiting=0.0,
    )


def test_of_equal_ends_the_first_place_decides() -> None:
    slices = [
        Slice(0, FORWARD, 0, 1),
        Slice(2, FORWARD, 0, 2),
        Slice(2, UPDATE, 2, 4, cause=1),
        Slice(0, BACKWARD, 1, 4, cause=0),
    ]
    assert critical_path(timeline(slices, LANES)) == [1, 2]
    slices[2], slices[3] = slices[3], slices[2]
    assert critical_path(timeline(slices, LANES)) == [0, 2]


def test_waiting_is_what_passes_before_and_between() -> None:
    """It starts at 1, and waits from 3 to 4.5; copies count to their device."""
    slices = [
        Slice(1, COPY_IN, 1, 3),
        Slice(0, FORWARD, 4.5, 5, cause=0),
        Slice(2, FORWARD, 5, 9, cause=1),
    ]
    value = timeline(slices, LANES)
    assert critical_path(value) == [0, 1, 2]
    assert critical_summary(value, [0, 1, 2]) == CriticalSummary(
        9.0, {"forward": 4.5, "copy in": 2.0}, {"gpu0": 2.5, "gpu1": 4.0}, 2.5
    )


def test_time_that_two_take_at_once_counts_once() -> None:
    slices = [Slice(0, FORWARD, 0, 3), Slice(2, TRANSFER, 2, 4, cause=0)]
    summary = critical_summary(timeline(slices, LANES), [0, 1])
    assert summary == CriticalSummary(4.0, {"forward": 3.0, "transfer": 1.0}, {"gpu0": 3.0, "gpu1": 1.0}, 0.0)


def test_nothing_runs() -> None:
    value = timeline([], LANES)
    assert critical_path(value) == []
    assert critical_summary(value, []) == CriticalSummary(0.0, {}, {}, 0.0)


def test_circles_are_a_defect() -> None:
    slices = [Slice(0, FORWARD, 0, 1, cause=1), Slice(2, FORWARD, 1, 2, cause=0)]
    with pytest.raises(DisagreementError, match="by hand: the causes of the slices go round in a circle"):
        critical_path(timeline(slices, LANES))
