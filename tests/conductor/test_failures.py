"""Intervals of checkpoints against their definition, and expected times against runs that fail at random."""

from __future__ import annotations

import math
import random

import pytest

from partita.conductor.training_run import best_interval_s, expected_s


def drawn_s(rng: random.Random, work: float, checkpoint: float, restart: float, between: float) -> float:
    """An interval that is tried until it ends, with restarts that may fail."""
    spent = 0.0
    while True:
        until = rng.expovariate(1 / between)
        if until >= work + checkpoint:
            return spent + work + checkpoint
        spent += until
        while (until := rng.expovariate(1 / between)) < restart:
            spent += until
        spent += restart


@pytest.mark.parametrize(("work", "checkpoint", "restart", "between"), [(10, 1, 2, 30), (5, 2, 0, 4), (20, 0, 5, 100)])
def test_the_expected_time_is_the_mean_of_runs_that_fail_at_random(
    work: float, checkpoint: float, restart: float, between: float
) -> None:
    rng = random.Random(0)
    count = 40_000
    mean = sum(drawn_s(rng, work, checkpoint, restart, between) for _ in range(count)) / count
    assert mean == pytest.approx(expected_s(work, checkpoint, restart, between), rel=0.02)


@pytest.mark.parametrize("checkpoint", [0.1, 1.0, 30.0, 1000.0])
def test_no_other_interval_loses_less(checkpoint: float) -> None:
    best = best_interval_s(checkpoint, 600.0)
    least = expected_s(best, checkpoint, 60.0, 600.0) / best
    for factor in (0.5, 0.9, 0.99, 1.01, 1.1, 2.0):
        other = best * factor
        assert expected_s(other, checkpoint, 60.0, 600.0) / other > least


def test_short_checkpoints_are_as_far_apart_as_the_first_order_says() -> None:
    assert best_interval_s(1.0, 1e8) == pytest.approx(math.sqrt(2 * 1.0 * 1e8), rel=1e-3)


def test_without_failures_nothing_is_lost_but_the_checkpoint() -> None:
    assert best_interval_s(10.0, math.inf) == math.inf
    assert expected_s(90.0, 10.0, 60.0, math.inf) == 100.0
    assert expected_s(1e9, 10.0, 60.0, 1.0) == math.inf
