"""How a machine works through requests with the layers that it holds, and no more of them than any plan lets it.

Where a machine's tables say nothing of its steps, they are taken from its rates: weights of the most layers that it
holds are taken to fill half of its memory, as Helix lays them out, so that with k of K layers the caches of (2 K −
k)/k times as many requests have room as of one layer take the memory of its weights (``layer_requests``). A full step
then takes the seconds in which that many tokens pass at the rate; the part of it that grows with tokens is the time
that a token takes of a layer at the machine's best rate, and a prompt counts as one more token.

A run's bound. With room for B requests on a machine of rate O/(p + (O − 1) τ/B), τ being a full step, no step takes
less than τ/B for each token in it: machines pass no more than their rates, links no more than they carry, and what
requests take over each is a flow. Also, a request holds its cache at least for the R seconds in which it passes the
quickest path alone, so that a machine passes at most B · O/R tokens per second (Little, "A Proof for the Queuing
Formula L = λW", Operations Research 9, 1961).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from partita.problems.layer_placement.problem import (
    SINK,
    SOURCE,
    LayerMachine,
    LayerPlacementProblem,
    LayerSteps,
    MachineEnd,
)


class Pace(NamedTuple):
    """Of a machine with its layers: requests, seconds of a step without tokens, of each token, and of a prompt."""

    requests: int
    step_s: float
    token_s: float
    prompt_s: float | None  #: None where a prompt is a token like others.

    @property
    def alone_s(self) -> float:
        """Seconds of a step with one token."""
        return self.step_s + self.token_s


def pace_of(problem: LayerPlacementProblem, machine: LayerMachine, first: int, behind: int) -> Pace | None:
    """Of an interval of layers, by the table that lets the fewest tokens pass; None where it passes none.

    It has room for no more requests than any of its tables says.
    """
    held = behind - first
    tables: list[LayerMachine | MachineEnd] = [*machine.ends(first, behind, problem.layers), machine]
    rates = [one.tokens_per_s.get(held, 0.0) for one in tables]
    if min(rates) <= 0:
        return None
    paces = [pace_with(problem, rate, one, held) for rate, one in zip(rates, tables, strict=True)]
    return paces[rates.index(min(rates))]._replace(requests=min(pace.requests for pace in paces))


def pace_with(problem: LayerPlacementProblem, rate: float, tables: LayerMachine | MachineEnd, held: int) -> Pace:
    """By one of a machine's tables, in which a number of layers has a rate."""
    output = problem.output_tokens
    assert output is not None
    steps = tables.steps.get(held) or _assumed(problem, tables, held)
    if steps.prompt_s is None:
        full = steps.requests / rate
    else:
        # One token comes of the prompt.
        full = steps.requests * max(0.0, output / rate - steps.prompt_s) / max(1, output - 1)
    prompt = steps.prompt_s
    if prompt is not None and output == 1:
        # There is nothing else to take the time that the rate says.
        prompt = max(prompt, 1 / rate)
    return Pace(steps.requests, steps.step_s, max(0.0, full - steps.step_s) / steps.requests, prompt)


def _assumed(problem: LayerPlacementProblem, tables: LayerMachine | MachineEnd, held: int) -> LayerSteps:
    """See the module."""
    assert problem.layer_requests is not None
    most = max(tables.tokens_per_s)
    requests = max(1, problem.layer_requests * (2 * most - held) // held)
    best = max(rate * k for k, rate in tables.tokens_per_s.items())
    return LayerSteps(requests=requests, step_s=requests * max(0.0, 1 / tables.tokens_per_s[held] - held / best))


def request_s(problem: LayerPlacementProblem) -> float:
    """Seconds that a request holds its caches at least: its prompt and each token behind it, on the quickest path.

    Who is linked to whom is left out, and where in the model layers are: each only takes longer. Infinite where no
    machine passes anything.
    """
    prompt: dict[int, float] = {}
    token: dict[int, float] = {}
    for machine in problem.machines:
        for tables in machine.tables():
            for k, rate in tables.tokens_per_s.items():
                if rate > 0 and k <= problem.layers:
                    pace = pace_with(problem, rate, tables, k)
                    first = pace.alone_s if pace.prompt_s is None else pace.prompt_s
                    prompt[k] = min(prompt.get(k, math.inf), first)
                    token[k] = min(token.get(k, math.inf), pace.alone_s)
    ends = [
        min((one.latency_s for one in problem.links if end in (one.source, one.target)), default=0.0)
        for end in (SOURCE, SINK)
    ]
    behind = (problem.output_tokens or 1) - 1
    found = _quickest(prompt, problem.layers) + sum(ends)
    return found + behind * (_quickest(token, problem.layers) + sum(ends)) if behind else found


def _quickest(times: dict[int, float], layers: int) -> float:
    """The least time over so many layers, given that of each number of them."""
    least = [0.0]
    for count in range(1, layers + 1):
        least.append(min((least[max(0, count - k)] + time for k, time in times.items()), default=math.inf))
    return least[-1]


def capped(problem: LayerPlacementProblem) -> LayerPlacementProblem:
    """The problem of the largest flow that no placement serves more than: see the module."""
    output, holding = problem.output_tokens or 1, request_s(problem)
    return _with_rates(problem, lambda rate, pace: min(rate, pace.requests * output / holding))


def at_depth(problem: LayerPlacementProblem, stages: int, most: float = math.inf) -> LayerPlacementProblem:
    """The problem of the largest flow with steps of the requests that are at one of so many stages.

    No machine passes more than ``most`` tokens per second.
    """
    output = problem.output_tokens or 1

    def rate_of(rate: float, pace: Pace) -> float:
        each = pace.step_s / max(1.0, pace.requests / stages) + pace.token_s
        seconds = output * each if pace.prompt_s is None else pace.prompt_s + (output - 1) * each
        return min(most, rate if stages == 1 or seconds <= 0 else min(rate, output / seconds))

    return _with_rates(problem, rate_of)


def _with_rates(problem: LayerPlacementProblem, changed: Callable[[float, Pace], float]) -> LayerPlacementProblem:
    """The problem of the largest flow with other rates of machines."""

    def lower(tables: LayerMachine | MachineEnd) -> dict[int, float]:
        return {
            k: changed(rate, pace_with(problem, rate, tables, k)) if rate > 0 else rate
            for k, rate in tables.tokens_per_s.items()
        }

    def end(tables: MachineEnd | None) -> MachineEnd | None:
        return None if tables is None else msgspec.structs.replace(tables, tokens_per_s=lower(tables))

    machines = [
        msgspec.structs.replace(one, tokens_per_s=lower(one), first=end(one.first), last=end(one.last))
        for one in problem.machines
    ]
    return problem.replace(worth="flow", machines=tuple(machines), published=None)
