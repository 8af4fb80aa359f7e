"""Prices of decodes from the steps that decide: see ``partita.problems.serving.capacities``."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from partita.engines.kernels.arrays import Floats

#: Relative room for rounding of sums of prices and values.
ROOM = 1e-9


@dataclass(frozen=True)
class StepMultipliers:
    """Arrays of one shape: the prices ν, μ, α and θ of the module."""

    prompt: Floats
    latency: Floats
    context: Floats
    cache: Floats


@dataclass(frozen=True)
class DecidingSteps:
    """Steps that decide: tokens of prompts, decodes, seconds but for attention, and seconds from end to end.

    Contexts are from ``least`` to ``most`` tokens, and a token of them adds ``reading`` to the latency.
    """

    prompts: Floats
    decodes: Floats
    time: Floats
    latency: Floats
    least: Floats
    most: Floats
    reading: float
    rare: Floats  #: The share of decodes that may be computed anew and find all that they held.

    def prices(self, at: StepMultipliers, anew: Anew, tpot_s: float | None, cache: float) -> tuple[Floats, Floats]:
        """κ and ω; with ``anew`` what decodes that are computed anew save, at most."""
        ask, delay, worth, room = (one[..., None] for one in (at.prompt, at.latency, at.context, at.cache))
        base = self.time - ask * self.prompts
        # Of latency times contexts the line at the least contexts.
        worth = worth - room * (self.latency + self.reading * self.least) / cache
        wide = StepMultipliers(ask, delay, worth, room)
        often, rare = (anew.least(wide, pair) for pair in (anew.often, anew.rare))
        others = (base - np.maximum(worth * self.least, worth * self.most)) / self.decodes
        others = others - anew.saves(wide, often, 0.0) - self.rare * anew.saves(wide, rare, 0.0)
        if tpot_s is None:
            least: Floats = others.min(-1)
            return least, least
        slope = worth / self.decodes - delay * self.reading
        kept = base / self.decodes + delay * (self.latency - tpot_s) - np.maximum(slope * self.least, slope * self.most)
        delays = delay * self.decodes
        kept = kept - anew.saves(wide, often, delays) - self.rare * anew.saves(wide, rare, delays)
        return kept.min(-1), others.min(-1)


@dataclass(frozen=True)
class Anew:
    """Decodes that are computed anew after their request was put back; nothing where none is.

    By the length of contexts, ``often`` has the tokens that are computed instead of one, and the seconds of attention
    more; of those that find again all that they held, ``rare`` has the same. The latency of the step is less by
    ``shorter_s`` at most.

    Who is put back makes room for somebody, who takes a page at least, so that its last page is lost; unless it is the
    last one that runs and asks for the room itself. That is one for each queue in a step, and one more for each stage,
    before a step comes about; or one for each cache that comes from elsewhere.
    """

    often: tuple[Floats, Floats]
    rare: tuple[Floats, Floats]
    shorter_s: float

    def least(self, at: StepMultipliers, pair: tuple[Floats, Floats]) -> Floats:
        """Seconds that computing anew takes more at least, by one of the pairs; infinite where none is."""
        more: Floats = (at.prompt[..., None] * (pair[0] - 1) + pair[1]).min(-1, initial=np.inf)
        return more

    def saves(self, at: StepMultipliers, more: Floats, latency: Floats | float) -> Floats:
        """Seconds that such a decode takes less at most, where the latency of its step has a price."""
        found: Floats = np.maximum(0.0, (latency + at.cache) * self.shorter_s - more)
        return found


#: Where nobody is put back.
_NONE = np.zeros(0)
NEVER = Anew((_NONE, _NONE), (_NONE, _NONE), 0.0)
