"""A bound on tokens served: requests under way are no more than caches have room for, and many are in steps.

A machine that passes X tokens per second in steps of s + n t seconds with n tokens each, and prompts of p seconds, has
time for few steps, so that they are large: of O tokens of a request the decodes, x = X (O − 1)/O, have on average

    x s · (1 + x t/(1 − x t − X p/O)),

requests in a step (steps are at most T (1 − x t − X p/O)/s in a run of T seconds, and the sum over steps of n² is least
where all are as large), and prompts X p/O more. A machine with k of L layers that has room for B requests holds at most
k B of the L parts of caches that every request under way holds. So Σ (requests in steps) ≤ Σ k B/L, while Σ k X is L
times the flow f: for every λ > 0

    λ L f ≤ Σ over machines of the most, over k and X, of λ k X + k B/L − (requests in its steps),

which is concave in X. No machine passes more than f. Source: own; Lagrangean relaxation, with Little's law.
"""

from __future__ import annotations

import math

import numpy as np

from partita.engines.kernels.arrays import Floats
from partita.engines.search.monitor import Monitor
from partita.engines.search.result import Bound
from partita.ground.rounding import SUMMED
from partita.problems.kind import BoundMethod
from partita.problems.layer_placement.bounds.area import most_by_area, seconds_per_token
from partita.problems.layer_placement.instance import LayerInstance
from partita.problems.layer_placement.pace import pace_with
from partita.problems.layer_placement.problem import LayerPlacementProblem

#: Values of λ that are tried at first, in requests for each layer of a token per second, and how often nearer ones are.
_FIRST, _ROUNDS = np.geomspace(1e-6, 1e4, 41), 5
#: How often the flow of the bound limits machines anew.
_AGAIN = 20


class CacheRoom(BoundMethod[LayerPlacementProblem]):
    """See the module."""

    name = "caches"
    summary = "requests that caches have room for, and how many of them steps hold; ignores links, of tokens served"
    argument = "more tokens per second would need more requests in steps than all caches have room for"

    def supports(self, problem: LayerPlacementProblem) -> str | None:
        return "it bounds tokens served, and the flow counts here; use area" if problem.worth == "flow" else None

    def bound(self, problem: LayerPlacementProblem, monitor: Monitor) -> Bound:
        instance = LayerInstance(problem)
        flow = most_by_caches(instance) if most_by_area(instance) > 0 else 0.0
        return Bound(seconds_per_token(flow), self.name, self.scope, monitor.elapsed_s)


def most_by_caches(instance: LayerInstance) -> float:
    """The most tokens per second that caches have room for, or the area lets pass."""
    machines = _Choices(instance)
    flow = most_by_area(instance)
    for _ in range(_AGAIN):
        found = min(flow, machines.most(flow))
        if found >= flow * (1 - SUMMED):
            return found
        flow = found
    return flow


class _Choices:
    """Numbers of layers that machines may hold: arrays of one entry for each, by machine and table."""

    def __init__(self, instance: LayerInstance) -> None:
        problem, self.layers, self.count = instance.problem, instance.layers, instance.count
        output = problem.output_tokens
        assert output is not None
        rows = []
        for place, machine in enumerate(problem.machines):
            for tables in machine.tables():
                for k, rate in tables.tokens_per_s.items():
                    most = float(instance.rate[place, k]) if k < instance.rate.shape[1] else 0.0
                    if rate > 0 and most > 0:
                        pace = pace_with(problem, rate, tables, k)
                        # Where prompts are tokens like others, all tokens are decodes.
                        share = 1.0 if pace.prompt_s is None else (output - 1) / output
                        times = pace.step_s * share, pace.token_s * share, (pace.prompt_s or 0.0) / output
                        rows.append((place, k, most, pace.requests, *times))
        columns = np.array(rows, dtype=np.float64).reshape(-1, 7).T
        self.place = columns[0].astype(np.int64)
        self.held, self.rate, self.room, self.step, self.token, self.prompt = columns[1:]

    def most(self, flow: float) -> float:
        """The bound where no machine passes more than a flow: the least of all λ that are looked at."""
        tried, best = _FIRST, math.inf
        for _ in range(_ROUNDS):
            found = [self._at(float(price), flow) for price in tried]
            at = int(np.argmin(found))
            best = min(best, found[at])
            tried = np.geomspace(tried[max(0, at - 1)], tried[min(len(tried) - 1, at + 1)], 9)
        return best * (1 + SUMMED)

    def _at(self, price: float, flow: float) -> float:
        gain = price * self.held - self.step - self.prompt
        top = np.minimum(self.rate, flow)
        # Of gain · x − a x²/(1 − c x), a = s t and c = t + p, the largest for 0 <= x <= top.
        a, c = self.step * self.token, self.token + self.prompt
        with np.errstate(divide="ignore", invalid="ignore"):
            inner = np.where(a > 0, (1 - np.sqrt(a / (a + np.maximum(gain, 0.0) * c))) / c, top)
        x = np.where(gain > 0, np.minimum(inner, top), 0.0)
        left = 1 - c * x
        crowd = np.where(a * x > 0, a * x * x / np.maximum(left, 1e-300), 0.0)
        worth = gain * x - crowd + self.held * self.room / self.layers
        each: Floats = np.zeros(self.count)
        np.maximum.at(each, self.place, worth)
        return float(each.sum()) / (price * self.layers)
