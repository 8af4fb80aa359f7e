"""How long schedules take where all stages are equal and nothing is moved: what their papers say."""

from __future__ import annotations

import random

import pytest

from partita.simulator.schedules import find_schedule
from second_opinions import order_times

RANKS = (1, 2, 3, 4, 6, 8)


def step_time(name: str, ranks: int, chunks: int, microbatches: int, **times: int) -> float:
    """The time of a schedule's orders, with these times of an action of each letter."""
    schedule = find_schedule(name)
    assert schedule.refusal(ranks, chunks, microbatches) is None
    return order_times.step_time(schedule.orders(ranks, chunks, microbatches), ranks * chunks, times)


@pytest.mark.parametrize("name", ["gpipe", "1f1b", "pipedream", "2bw"])
def test_one_stage_on_each_rank(name: str) -> None:
    """(M + S − 1) · (f + b)."""
    for ranks in RANKS:
        for microbatches in (ranks, ranks + 1, 3 * ranks):
            for f, b in ((1, 1), (1, 2), (5, 3)):
                assert step_time(name, ranks, 1, microbatches, F=f, B=b) == (microbatches + ranks - 1) * (f + b)


def test_forward_only() -> None:
    """(M + S − 1) · f."""
    assert [step_time("forward", ranks, 1, 5, F=3) for ranks in RANKS] == [(5 + ranks - 1) * 3 for ranks in RANKS]


@pytest.mark.parametrize("name", ["interleaved", "looped-bfs"])
def test_interleaved(name: str) -> None:
    """(M · v + S − 1) · (f + b) / v with M a multiple of S (Narayanan et al., SC 2021; Lamy-Poirier, MLSys 2023)."""
    for ranks in RANKS:
        for chunks in (1, 2, 3, 4):
            for rounds in (1, 2, 4):
                for f, b in ((1, 1), (1, 2), (5, 3)):
                    microbatches = rounds * ranks
                    expected = (microbatches * chunks + ranks - 1) * (f + b)
                    assert step_time(name, ranks, chunks, microbatches, F=f, B=b) == expected


def test_zero_bubble() -> None:
    """M · (f + b + w) + (p − 1) · (f + b − w) with equal times (Qi et al., ICLR 2024, section 2.3)."""
    for ranks in RANKS:
        for microbatches in (ranks, ranks + 1, 2 * ranks, 3 * ranks + 1):
            for time in (1, 3):
                expected = 3 * time * microbatches + (ranks - 1) * time
                assert step_time("zero-bubble", ranks, 1, microbatches, F=time, I=time, W=time) == expected


def test_zero_bubble_with_unequal_times() -> None:
    """The same where w is at most f and b; where b < w <= f the last rank is never idle after its first forward."""
    rng = random.Random(1)
    for _ in range(400):
        ranks, more = rng.choice(RANKS), rng.randrange(12)
        f = rng.randint(1, 20)
        b, w = rng.randint(1, 20), rng.randint(1, f)
        expected = (ranks + more) * (f + b + w) + (ranks - 1) * (f + max(b - w, 0))
        assert step_time("zero-bubble", ranks, 1, ranks + more, F=f, I=b, W=w) == expected


def test_zero_bubble_is_never_slower_than_1f1b() -> None:
    """For all times: M · (f + b + w) + (p − 1) · (f + max(b, w)) bounds it."""
    rng = random.Random(2)
    for _ in range(600):
        ranks, microbatches = rng.choice(RANKS), rng.randint(1, 24)
        f, b, w = (rng.choice([1, rng.randint(1, 9), rng.randint(1, 90)]) for _ in range(3))
        time = step_time("zero-bubble", ranks, 1, microbatches, F=f, I=b, W=w)
        assert time <= microbatches * (f + b + w) + (ranks - 1) * (f + max(b, w))
        # PipeDream's order is 1F1B's, also for fewer microbatches than ranks.
        assert time <= step_time("pipedream", ranks, 1, microbatches, F=f, B=b + w)


def test_zero_bubble_v_is_never_idle() -> None:
    """With equal times no rank waits between its first action and its last (Qi et al., ICLR 2024, section 6)."""
    for ranks in RANKS:
        for microbatches in (2 * ranks, 3 * ranks + 1):
            orders = find_schedule("zero-bubble-v").orders(ranks, 2, microbatches)
            ran = order_times.spans(orders, 2 * ranks, {"F": 1, "I": 1, "W": 1})
            assert ran is not None
            assert [spent[-1][1] - spent[0][0] for spent in ran] == [6 * microbatches] * ranks


def test_memory_for_time() -> None:
    """On four ranks with eight microbatches: what each rank holds."""
    held = {
        name: [find_schedule(name).in_flight(rank, 4, chunks, 8) for rank in range(4)]
        for name, chunks in (("gpipe", 1), ("1f1b", 1), ("zero-bubble", 1), ("interleaved", 2), ("zero-bubble-v", 2))
    }
    assert held == {
        "gpipe": [8, 8, 8, 8],
        "1f1b": [4, 3, 2, 1],
        "zero-bubble": [4, 4, 4, 4],
        "interleaved": [11, 9, 7, 5],
        "zero-bubble-v": [8, 8, 8, 8],
    }
