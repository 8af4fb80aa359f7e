"""Tokens that intervals of layers serve: a run of requests over them, shared out as the largest flow is.

See ``partita.engines.kernels.layer_placement.serve`` for what happens in a run, and ``pace`` for how machines step.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from partita.engines.kernels.arrays import as_arrays
from partita.problems.layer_placement.network import Intervals, LargestFlow
from partita.problems.layer_placement.pace import Pace, pace_of
from partita.problems.layer_placement.problem import SINK, SOURCE, LayerPlacementProblem

if TYPE_CHECKING:
    from partita.engines.kernels.layer_placement.serve import Placed


class ServingMachine(msgspec.Struct, frozen=True, kw_only=True):
    """What a machine does in a run."""

    requests: int  #: That it has room for.
    held: float  #: Requests whose caches it holds, on average over the run.
    batch: float  #: Tokens in a step, on average.
    busy: float  #: The part of the time in which it computes.


class ServedRun(msgspec.Struct, frozen=True, kw_only=True):
    """What a run of requests came to."""

    requests: int
    duration_s: float
    tokens_per_s: float  #: Of outputs.
    under_way: float  #: Requests that are, on average.
    first_token_s: float  #: Mean seconds from admission to the first token, and between the tokens behind it.
    token_s: float
    stages: int  #: Machines on the longest path.
    machines: dict[str, ServingMachine]


def served(problem: LayerPlacementProblem, held: Intervals, flow: LargestFlow, *, shorter: int = 1) -> ServedRun | None:
    """The run of the problem's requests over intervals with their largest flow; None where nothing flows.

    For a quick look, requests may be several times ``shorter``, in their prompts and in their outputs.
    """
    from partita.engines.kernels.layer_placement.serve import nothing_served, serve

    if not flow.worth:
        return None
    whole, prompt = problem.output_tokens, problem.prompt_tokens
    assert whole is not None
    machines = {machine.name: machine for machine in problem.machines}
    used = {end for link in flow.links for end in link} - {SOURCE, SINK}
    # Links lead to machines whose layers end further behind.
    order = sorted(used, key=lambda name: (held[name][1], name))
    paces: list[Pace] = []
    for name in order:
        pace = pace_of(problem, machines[name], *held[name])
        assert pace is not None
        paces.append(pace)
    parts = _longest(order, flow.links)
    output = max(1, whole // shorter)
    part = output / whole
    placed = _placed(problem, order, paces, parts, flow.links)
    placed = placed._replace(prompt_s=placed.prompt_s * part)
    run = nothing_served(placed, problem.run_requests)
    # Where a prompt is one more token to machines, it is one on links.
    tokens = 1 if prompt is None or all(one.prompt_s is None for one in paces) else max(1, round(prompt * part))
    serve(placed, problem.run_requests, tokens, output, run)
    duration, first, last = run.totals.tolist()
    count = problem.run_requests
    return ServedRun(
        requests=count,
        duration_s=duration,
        tokens_per_s=count * output / duration,
        under_way=last / duration,
        first_token_s=first / count,
        token_s=(last - first) / count / (output - 1) if output > 1 else 0.0,
        stages=max(parts),
        machines={
            name: ServingMachine(
                requests=pace.requests,
                held=float(run.held_s[i]) / duration,
                batch=float(run.tokens[i]) / max(1, int(run.steps[i])),
                busy=float(run.busy_s[i]) / duration,
            )
            for i, (name, pace) in enumerate(zip(order, paces, strict=True))
        },
    )


def _longest(order: list[str], links: Mapping[tuple[str, str], Fraction]) -> list[int]:
    """Of each machine the machines on the longest path over it."""
    before, behind = dict.fromkeys(order, 1), dict.fromkeys(order, 1)
    inner = [(source, target) for source, target in links if source in before and target in before]
    place = {name: i for i, name in enumerate(order)}
    for source, target in sorted(inner, key=lambda pair: place[pair[0]]):
        before[target] = max(before[target], before[source] + 1)
    for source, target in sorted(inner, key=lambda pair: -place[pair[1]]):
        behind[source] = max(behind[source], behind[target] + 1)
    return [before[name] + behind[name] - 1 for name in order]


def _placed(
    problem: LayerPlacementProblem,
    order: list[str],
    paces: list[Pace],
    parts: list[int],
    links: Mapping[tuple[str, str], Fraction],
) -> Placed:
    from partita.engines.kernels.layer_placement.serve import Placed

    number = {name: i for i, name in enumerate(order)} | {SINK: len(order)}
    known = {(link.source, link.target): link for link in problem.links}
    rows = [sorted((number[b], known[a, b]) for a, b in links if a == name) for name in (*order, SOURCE)]
    arcs = [(target, link, links[link.source, link.target]) for row in rows for target, link in row]
    return as_arrays(
        Placed,
        {
            "room": [pace.requests for pace in paces],
            "parts": parts,
            "step_s": [pace.step_s for pace in paces],
            "token_s": [pace.token_s for pace in paces],
            "prompt_s": [pace.prompt_s or 0.0 for pace in paces],
            "token_like": [pace.prompt_s is None for pace in paces],
            "first": np.cumsum([0, *(len(row) for row in rows)]),
            "target": [target for target, _, _ in arcs],
            "weight": [float(flow) for _, _, flow in arcs],
            "width_s": [1.0 / link.tokens_per_s for _, link, _ in arcs],
            "latency_s": [link.latency_s for _, link, _ in arcs],
        },
    )
