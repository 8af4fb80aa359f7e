"""Random numbers of the compiled loops: xorshift64*, whose state is an array of one word.

Source: Vigna, "An experimental exploration of Marsaglia's xorshift generators, scrambled" (ACM TOMS 42, 2016).
"""

from __future__ import annotations

import numpy as np

from partita.engines.kernels.arrays import Words
from partita.engines.kernels.compiled import inlined


def generator(seed: int) -> Words:
    """(1,) the state of a generator; the same seed draws the same numbers."""
    mixed = (seed * 0x9E3779B97F4A7C15 + 0xD1B54A32D192ED03) % 2**64
    return np.array([mixed or 1], np.uint64)


@inlined
def draw(random: Words) -> np.uint64:
    """The next 64 random bits."""
    x = random[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    random[0] = x
    return np.uint64(x * np.uint64(0x2545F4914F6CDD1D))


@inlined
def upper(word: np.uint64, count: int) -> int:
    """A number from 0 to below ``count`` (less than 2³²) by the upper half of a word."""
    return int(np.int64(((word >> np.uint64(32)) * np.uint64(count)) >> np.uint64(32)))


@inlined
def lower(word: np.uint64, count: int) -> int:
    """The same by its lower half, for loops where a second word would be too slow."""
    return int(np.int64(((word & np.uint64(0xFFFFFFFF)) * np.uint64(count)) >> np.uint64(32)))


@inlined
def below(random: Words, count: int) -> int:
    """A number from 0 to below ``count``."""
    return upper(draw(random), count)


@inlined
def share(random: Words) -> float:
    """A number from 0 to below 1."""
    return float(np.float64(draw(random) >> np.uint64(11)) * (1.0 / 9007199254740992.0))
