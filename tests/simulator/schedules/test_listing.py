"""The list of schedules: all there are, each complete and possible."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections import Counter

import pytest

from partita.ground.errors import InputError
from partita.simulator import schedules
from partita.simulator.schedules import DEFAULT_SCHEDULES, find_schedule
from partita.simulator.schedules.check import check_orders
from partita.simulator.schedules.csv import UserSchedule
from partita.simulator.schedules.protocol import InTurns, Schedule
from second_opinions import order_times

GRID = [
    (ranks, chunks, microbatches)
    for ranks in (1, 2, 3, 4, 5, 8)
    for chunks in (1, 2, 3)
    for microbatches in (1, 2, 3, 4, 6, 7, 8, 10, 16, 24)
]

#: How many of these numbers a schedule runs with, and whether it trains, flushes and splits the backward.
RUN = {
    "forward": (60, False, True, False),
    "gpipe": (60, True, True, False),
    "1f1b": (60, True, True, False),
    "interleaved": (165, True, True, False),
    "looped-bfs": (180, True, True, False),
    "zero-bubble": (60, True, True, True),
    "interleaved-zero-bubble": (165, True, True, True),
    "zero-bubble-v": (60, True, True, True),
    "dualpipe-v": (31, True, True, True),
    "pipedream": (60, True, False, False),
    "2bw": (44, True, False, False),
}

each = pytest.mark.parametrize("schedule", DEFAULT_SCHEDULES, ids=lambda schedule: schedule.name)


def test_names() -> None:
    """Each once, in this order; each is found by its name, and has a line about it."""
    assert [schedule.name for schedule in DEFAULT_SCHEDULES] == list(RUN)
    for schedule in DEFAULT_SCHEDULES:
        assert find_schedule(schedule.name) is schedule
        assert schedule.summary
        assert "\n" not in schedule.summary


def test_an_unknown_name_is_refused() -> None:
    """With the names that there are."""
    with pytest.raises(InputError, match=r"no schedule '1b1f'; use forward, gpipe, 1f1b, .*2bw, or a file .* \.csv"):
        find_schedule("1b1f")


def test_every_schedule_of_the_folder_is_listed() -> None:
    """Whatever has a name of its own, but for schedules from files."""
    found = set()
    for module in pkgutil.iter_modules(schedules.__path__):
        for value in vars(importlib.import_module(f"{schedules.__name__}.{module.name}")).values():
            if inspect.isclass(value) and issubclass(value, Schedule) and hasattr(value, "name"):
                found.add(value)
    assert found == {type(schedule) for schedule in DEFAULT_SCHEDULES}
    assert UserSchedule not in found


@each
def test_orders_are_complete_and_possible(schedule: Schedule) -> None:
    """Each rank runs what its stages have to run, once, and nothing waits for itself."""
    runs, *kind = RUN[schedule.name]
    assert [schedule.training, schedule.flush, schedule.splits_backward] == kind
    count = 0
    for ranks, chunks, microbatches in GRID:
        if refusal := schedule.refusal(ranks, chunks, microbatches):
            assert schedule.name in refusal
            assert any(word in refusal for word in ("; use", "; leave", "; set"))
            continue
        orders = schedule.orders(ranks, chunks, microbatches)
        rank_of = schedule.rank_of(ranks, chunks)
        assert Counter(rank_of) == dict.fromkeys(range(ranks), chunks)
        check_orders(
            orders,
            rank_of,
            training=schedule.training,
            splits_backward=schedule.splits_backward,
            microbatches=microbatches,
        )
        letters = Counter(action.letter for order in orders for action in order)
        whole = ranks * chunks * microbatches
        assert letters["F"] == whole
        assert letters["B"] + letters["I"] == (whole if schedule.training else 0)
        assert letters["W"] == letters["I"]
        assert bool(letters["I"]) == schedule.splits_backward
        count += 1
    assert count == runs


@each
def test_defaults_run(schedule: Schedule) -> None:
    """With the number of stages that a schedule has by itself, on four ranks."""
    assert schedule.refusal(4, schedule.default_chunks, 8) is None


@each
def test_what_ranks_hold(schedule: Schedule) -> None:
    """Formulas say the most that orders hold on the way."""
    count = 0
    for ranks, chunks, microbatches in GRID:
        if not schedule.refusal(ranks, chunks, microbatches):
            held = [order_times.most_held(order) for order in schedule.orders(ranks, chunks, microbatches)]
            assert held == [schedule.in_flight(rank, ranks, chunks, microbatches) for rank in range(ranks)]
            count += 1
    assert count == RUN[schedule.name][0]


@pytest.mark.parametrize("name", ["forward", "gpipe", "1f1b", "pipedream", "2bw"])
def test_turns_follow_the_window(name: str) -> None:
    """Replicas run their own microbatches, whichever; those of 1F1B hold as many as they may."""
    schedule = find_schedule(name)
    assert isinstance(schedule, InTurns)
    for own in (range(7), [1, 4, 7], [5]):
        for window in (1, 2, 3, 8):
            order = schedule.own_order(3, own, window)
            for letter in "FB" if schedule.training else "F":
                assert [action.microbatch for action in order if action.letter == letter] == list(own)
            assert {action.stage for action in order} == {3}
            if isinstance(schedule, type(find_schedule("1f1b"))):
                assert order_times.most_held(order) == min(window, len(own))


def test_weight_versions() -> None:
    """One for each microbatch in flight, two, or one."""
    versions = {s.name: [s.weight_versions(held) for held in (1, 2, 5)] for s in DEFAULT_SCHEDULES}
    assert versions.pop("pipedream") == [1, 2, 5]
    assert versions.pop("2bw") == [1, 2, 2]
    assert versions == {name: [1, 1, 1] for name in versions}


def test_refusals() -> None:
    """What does not run, and what would."""
    told = {
        ("1f1b", 4, 2, 8): "schedule 1f1b has one stage on each rank; leave chunks at 1",
        ("2bw", 4, 1, 3): "use 4 or more microbatches",
        ("gpipe", 4, 2, 8): "schedule gpipe has one stage on each rank; leave chunks at 1",
        ("pipedream", 4, 2, 8): "leave chunks at 1",
        ("interleaved", 4, 2, 11): "11 microbatches on 4 ranks make 2 unequal ones; use 10 or 12 microbatches",
        ("interleaved-zero-bubble", 2, 2, 5): "use 4 or 6 microbatches, or a multiple of the ranks",
        ("zero-bubble", 4, 2, 8): "leave chunks at 1",
        ("zero-bubble-v", 4, 1, 8): "two stages on each rank; set chunks to 2",
        ("dualpipe-v", 4, 2, 7): "7 microbatches and 8 stages; use 8 or more microbatches",
        ("dualpipe-v", 4, 1, 8): "set chunks to 2",
    }
    for (name, *numbers), text in told.items():
        assert text in str(find_schedule(name).refusal(*numbers))
