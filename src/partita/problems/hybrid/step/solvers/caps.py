"""Boxes of caps: which pipelines a branch and bound over steps still has to look at."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Self

from partita.ground.rounding import SUMMED

#: A cap this much below a value excludes it.
_BELOW = 10 * SUMMED


@dataclass(frozen=True, kw_only=True)
class Box:
    """Pipelines with bounds on the largest κ, that of forward parts where they come first, and the single cost."""

    lows: tuple[float, ...] = (0.0, 0.0, 0.0)
    highs: tuple[float, ...] = (math.inf, math.inf, math.inf)

    @property
    def least(self) -> float:
        """What the bounds add to the passing times at least."""
        return sum(self.lows)

    @property
    def widths(self) -> list[float]:
        """How far the bounds are apart."""
        return [high - low for low, high in zip(self.lows, self.highs, strict=True)]

    def cut(self, place: int, *, low: float | None = None, high: float | None = None) -> Self:
        """What is left of it with other bounds in one place."""
        lows, highs = list(self.lows), list(self.highs)
        lows[place] = lows[place] if low is None else max(low, lows[place])
        highs[place] = highs[place] if high is None else min(high, highs[place])
        return replace(self, lows=tuple(lows), highs=tuple(highs))

    def beside(self, costs: tuple[float, ...]) -> tuple[list[Self], Self]:
        """What is left beside that with the least sum of passing times: boxes with a smaller cost and the rest.

        Pipelines of the rest take no less than that, but for the share by which caps are below values.
        """
        parts: list[Self] = []
        rest = self
        for place, cost in enumerate(costs):
            below = cost * (1 - _BELOW)
            if rest.lows[place] >= below:
                continue
            part = rest.cut(place, high=below)
            middle = (part.lows[place] + part.highs[place]) / 2
            if place == 0 and part.lows[0] < middle < part.highs[0]:
                parts += [part.cut(0, high=middle), part.cut(0, low=middle)]
            else:
                parts.append(part)
            rest = rest.cut(place, low=below)
        return parts, rest
