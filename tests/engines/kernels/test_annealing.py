"""The loop of all annealings on a problem with a known answer: numbers 0 to 9, whose energy is their value."""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np
import pytest

from partita.engines.kernels.annealing import BLOCK, Cooling, Steps, accepted_rise, anneal_by, power
from partita.engines.kernels.arrays import Words
from partita.engines.kernels.compiled import compiled, inlined
from partita.engines.kernels.random import below, draw, generator, lower, share, upper

STATES = 10


class State(NamedTuple):
    """The number (0), the best one (1), and how often each was there."""

    at: np.ndarray
    visits: np.ndarray


class Move(NamedTuple):
    rise: float
    old: int


@inlined
def propose(c: State, random: Words, trial: int, temperature: float) -> Move:
    """Make the move, to test that it is taken back."""
    old = c.at[0]
    new = below(random, STATES)
    c.visits[old] += 1
    c.at[0] = new
    return Move(np.inf if new == old else float(new - old), old)


@inlined
def keep(c: State, move: Move) -> None:
    c.at[1] = min(c.at[1], c.at[0])


@inlined
def undo(c: State, move: Move) -> None:
    c.at[0] = move.old


STEPS = Steps(propose, keep, undo)


@compiled
def anneal(c: State, cooling: Cooling, random: Words, stop: np.ndarray) -> int:
    return anneal_by(c, STEPS, cooling, random, stop)


@compiled
def drawn(random: Words, count: int, numbers: np.ndarray) -> None:
    """Numbers below a count, by upper and lower halves, and from 0 to 1; rises that would be accepted."""
    for i in range(numbers.shape[1]):
        word = draw(random)
        numbers[0, i], numbers[1, i] = upper(word, count), lower(word, count)
        numbers[2, i], numbers[3, i] = share(random), accepted_rise(random, 2.0)


@compiled
def powered(x: float, exponent: int) -> float:
    return power(x, exponent)


def run(cooling: Cooling, seed: int = 0, stop: int = 0) -> tuple[State, int]:
    state = State(np.full(2, STATES - 1), np.zeros(STATES, np.int64))
    return state, anneal(state, cooling, generator(seed), np.full(1, stop))


@pytest.mark.parametrize("temperature", [1.0, 5.0])
def test_states_are_as_frequent_as_their_energy_says(temperature: float) -> None:
    """At one temperature the chain has Boltzmann's distribution."""
    state, _ = run(Cooling(temperature, temperature, 400_000))
    expected = np.exp(-np.arange(STATES) / temperature)
    assert state.visits / state.visits.sum() == pytest.approx(expected / expected.sum(), abs=0.01)


def test_cooling_ends_at_the_least() -> None:
    state, accepted = run(Cooling(10.0, 1e-3, 5_000))
    assert state.at.tolist() == [0, 0]
    assert 0 < accepted < 5_000
    assert run(Cooling(10.0, 1e-3, 5_000))[0].visits.tolist() == state.visits.tolist()
    assert run(Cooling(10.0, 1e-3, 5_000), seed=1)[0].visits.tolist() != state.visits.tolist()


def test_nothing_that_rises_is_accepted_at_no_temperature() -> None:
    state, _ = run(Cooling(0.0, 0.0, 1_000))
    assert state.at.tolist() == [0, 0]


def test_a_raised_flag_ends_it_within_a_block() -> None:
    state, _ = run(Cooling(1.0, 1.0, 100_000), stop=1)
    assert state.visits.sum() == BLOCK - 1


@pytest.mark.parametrize(("trials", "most"), [(10, 10), (10, 3), (1, 5), (0, 5), (1_000_001, 1_000_000)])
def test_parts_are_the_whole(trials: int, most: int) -> None:
    parts = list(Cooling(8.0, 0.5, trials).parts(most))
    assert sum(part.trials for part in parts) == trials
    assert all(0 < part.trials <= most for part in parts)
    if parts:
        assert parts[0].start == 8.0
        assert parts[-1].end == pytest.approx(0.5)
        assert all(a.end == pytest.approx(b.start) for a, b in itertools.pairwise(parts))
    assert Cooling(8.0, 0.5, trials).times(0.25) == Cooling(2.0, 0.125, trials)


def test_draws_are_even() -> None:
    numbers = np.empty((4, 200_000))
    drawn(generator(3), 7, numbers)
    for row in numbers[:2]:
        assert np.bincount(row.astype(int), minlength=7) / row.size == pytest.approx(np.full(7, 1 / 7), abs=0.005)
    assert 0.0 <= numbers[2].min() <= numbers[2].max() < 1.0
    assert np.histogram(numbers[2], 10)[0] / 200_000 == pytest.approx(np.full(10, 0.1), abs=0.005)
    # As many rises are accepted as the chance of each says.
    for rise in (0.5, 2.0, 6.0):
        assert (numbers[3] >= rise).mean() == pytest.approx(math.exp(-rise / 2.0), abs=0.005)
    assert abs(np.corrcoef(numbers[:3])[np.triu_indices(3, 1)]).max() < 0.01


@pytest.mark.parametrize("exponent", [1, 2, 3, 4, 12, 30, 64])
def test_powers(exponent: int) -> None:
    assert powered(1.07, exponent) == pytest.approx(1.07**exponent, rel=1e-12)
