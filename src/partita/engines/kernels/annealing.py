"""Simulated annealing, once: temperatures, acceptance and the loop; what a move is, every problem says by steps.

A kernel is a ``compiled`` function in the file of its steps that calls ``anneal_by`` with them. Loop and steps are
compiled into it, so that a move stays in registers, and so that an edit of any of them makes its machine code again.

Source: Kirkpatrick, Gelatt, Vecchi, "Optimization by simulated annealing" (Science 220, 1983).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy.typing as npt

from partita.engines.kernels.arrays import Floats, Longs, Words
from partita.engines.kernels.compiled import inlined
from partita.engines.kernels.random import share

#: Trials at one temperature, and between two looks at the stop button.
BLOCK = 64
#: A rise of so many temperatures is never accepted; one in 10¹³ would be.
HOPELESS = 30.0


class Cooling(NamedTuple):
    """So many trials, at temperatures that fall geometrically from ``start`` to ``end``, in units of the energy."""

    start: float
    end: float
    trials: int

    def times(self, factor: float) -> Cooling:
        """The same at temperatures times a factor."""
        return Cooling(self.start * factor, self.end * factor, self.trials)

    def parts(self, most: int) -> Iterator[Cooling]:
        """The same in parts of at most so many trials each, all about as long."""
        count = -(-self.trials // most)
        fall = (self.end / self.start) ** (1 / max(1, count))
        for part in range(count):
            trials = self.trials * (part + 1) // count - self.trials * part // count
            yield Cooling(self.start * fall**part, self.start * fall ** (part + 1), trials)


class Steps(NamedTuple):
    """What tells one annealing from another; the first parameter is the state ``c``, whatever the kernel made it."""

    #: (c, random, trial, temperature) a move, a tuple whose first field is the rise of the energy, infinite for none.
    #: It may have been made, or not yet.
    propose: Callable[..., Any]
    keep: Callable[..., None]  #: (c, move) it is accepted: make it for good, and note the best state.
    undo: Callable[..., None]  #: (c, move) it is not: take back what ``propose`` did.


@inlined
def anneal_by(c: Any, steps: Steps, cooling: Cooling, random: Words, stop: Longs) -> int:
    """Anneal until the cooling is through or ``stop`` is raised; how many moves were accepted."""
    temperature, cool, accepted = cooling.start, 1.0, 0
    if cooling.start > 0.0:
        cool = (cooling.end / cooling.start) ** (BLOCK / max(1, cooling.trials))
    for trial in range(cooling.trials):
        if trial % BLOCK == BLOCK - 1:
            temperature *= cool
            if stop[0] != 0:
                break
        move = steps.propose(c, random, trial, temperature)
        rise = move[0]
        if rise <= 0.0 or (rise < HOPELESS * temperature and share(random) < math.exp(-rise / temperature)):
            accepted += 1
            steps.keep(c, move)
        else:
            steps.undo(c, move)
    return accepted


@inlined
def accepted_rise(random: Words, temperature: float) -> float:
    """The most that the energy may rise by, for steps that can end early above it: the same chances, drawn before."""
    return -temperature * math.log(1.0 - share(random))


@inlined
def power(x: float, exponent: int) -> float:
    """x to a positive whole power: energies that see little but the largest of many loads."""
    result, square = 1.0, x
    while exponent > 1:
        if exponent & 1:
            result *= square
        square *= square
        exponent >>= 1
    return result * square


@inlined
def largest(values: Floats) -> float:
    """The largest of some numbers, at least 0."""
    found = 0.0
    for i in range(values.shape[0]):
        found = max(found, values[i])
    return found


@inlined
def copy_into(target: npt.NDArray[Any], source: npt.NDArray[Any]) -> None:
    """Overwrite an array by another of its shape."""
    for i in range(source.shape[0]):
        target[i] = source[i]
