"""Values of requests that bound what fleets do: of a prompt, and of decodes by whether they keep the TPOT target.

Each row of values is a proof by itself, whichever is tried: prices of units are good values, split between prompts and
decodes in several ways.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from partita.engines.kernels.arrays import Bools, Floats, Longs
from partita.problems.serving.capacities import RequestKinds, RequestPrices
from partita.problems.serving.evaluate import may_miss
from partita.problems.serving.mixes import ROOM
from partita.problems.serving.problem import Role, ServingProblem, ServingUnit

#: Parts of a request's value that its prompt may have.
_PARTS = np.linspace(0.05, 0.95, 19)
#: Units of each role whose prices are tried as values.
_REFERENCES = 2


@dataclass(frozen=True)
class Item:
    """A form in a role."""

    number: int
    role: Role
    form: ServingUnit
    prices: list[RequestPrices]
    first_s: float  #: Seconds from the arrival of a request to its first token at least.
    late: bool  #: Whether no request keeps the TTFT target here, even alone.
    gap_s: float  #: Seconds between two tokens of a request at least.


@dataclass(frozen=True)
class RequestValues:
    """V rows of values of requests by kind, K of them."""

    #: (V, K) Of a prompt, of decodes that keep the target, and of others.
    prompt: Floats
    keeping: Floats
    other: Floats
    prompt_late: Bools  #: (V,) Whether requests that miss the TTFT target have a value, too.
    total: Floats  #: (V,) Of all requests together, at least.

    def capacities(self, items: Sequence[Item]) -> Floats:
        """(V, items) The most value that a unit makes in a second."""
        found = np.zeros((len(self.total), len(items)))
        for place, item in enumerate(items):
            before, after = item.role != "decode", item.role != "prefill"
            keeping = before * self.prompt + after * self.keeping
            other = before * self.prompt + after * self.other
            rates = [np.maximum(_most(keeping, one.keeping), _most(other, one.other)) for one in item.prices]
            found[:, place] = np.min(rates, axis=0) * item.form.apart * (1 + ROOM)
            if item.late and before:
                found[~self.prompt_late, place] = 0.0
        return found


def _most(value: Floats, time: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        found: Floats = np.where(value > 0, value / time, 0.0).max(-1)
    return found


def values_of(problem: ServingProblem, kinds: RequestKinds, items: Sequence[Item]) -> RequestValues:
    """Rows of values that are tried."""
    rows = [row for one in _valued(problem, items) for row in _lacking(problem, kinds, items, *one)]
    rows = [row for row in rows if row[-1] > 0]
    number = len(kinds.count)
    shape = len(rows), number
    columns = [np.array([row[place] for row in rows]).reshape(shape) for place in range(3)]
    late = np.array([row[3] for row in rows], np.bool_)
    return RequestValues(columns[0], columns[1], columns[2], late, np.array([row[4] for row in rows]))


def _valued(problem: ServingProblem, items: Sequence[Item]) -> Iterator[tuple[Floats, Floats, Floats]]:
    base: dict[Role, list[RequestPrices]] = {}
    for role in ("both", "prefill", "decode"):
        own = [item for item in items if item.role == role]
        own.sort(key=lambda item: float(item.prices[0].keeping.sum()) * item.form.devices / item.form.apart)
        # Of every size those that are best.
        sizes = dict.fromkeys(item.form.devices for item in own)
        best = [item for size in sizes for item in [i for i in own if i.form.devices == size][:_REFERENCES]]
        base[role] = [one for item in best for one in item.prices]
    for one in base["both"]:
        none = np.zeros_like(one.keeping)
        yield none, one.keeping, one.other
        yield none, one.keeping, none
        for part in _PARTS if problem.roles != "both" else ():
            prompt = part * np.minimum(one.keeping, one.other)
            yield prompt, one.keeping - prompt, one.other - prompt
            yield prompt, one.keeping - prompt, -prompt
    for asked in base["prefill"][:_REFERENCES]:
        none = np.zeros_like(asked.keeping)
        yield asked.keeping, none, none
        yield asked.keeping, none, -asked.keeping
        for one in base["decode"]:
            for part in _PARTS if one.keeping.sum() > 0 else ():
                scale = (1 - part) / part * asked.keeping.sum() / one.keeping.sum()
                yield asked.keeping, scale * one.keeping, scale * one.other
                # Whoever misses the target has no value, not even of its prompt.
                yield asked.keeping, scale * one.keeping, -asked.keeping
    for one in base["decode"]:
        none = np.zeros_like(one.keeping)
        yield none, one.keeping, one.other
        yield none, one.keeping, none


def _lacking(
    problem: ServingProblem, kinds: RequestKinds, items: Sequence[Item], prompt: Floats, keeping: Floats, other: Floats
) -> Iterator[tuple[Floats, Floats, Floats, bool, float]]:
    """A row of values with their total, and the same of requests alone that keep the TTFT target."""
    targets, counts = problem.targets, kinds.count
    keeping = np.maximum(keeping, other)
    whole = float((counts * (prompt + keeping)).sum())
    several = kinds.output > 1
    lacking = 0.0
    if targets.tpot_s is not None:
        lacking = _largest((keeping - other)[several], counts[several], targets.percentile)
    yield prompt, keeping, other, True, (whole - lacking) * (1 - ROOM)
    if targets.ttft_s is not None and any(item.late for item in items):
        missed = _largest(prompt + keeping, counts, targets.percentile)
        yield prompt, keeping, other, False, (whole - lacking) * (1 - ROOM) - missed * (1 + ROOM)


def _largest(values: Floats, counts: Longs, percentile: float) -> float:
    """The sum of the largest values of those requests that may miss a target: above the quantile's lower neighbour."""
    many = int(counts.sum())
    left, found = may_miss(many, percentile), 0.0
    for place in np.argsort(-values):
        taken = min(left, int(counts[place]))
        found += taken * max(0.0, float(values[place]))
        left -= taken
    return found
