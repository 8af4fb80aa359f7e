"""The objective and the feasibility of a deployment: the only place where they are defined.

The deployment is simulated under the workload, step by step (``partita.problems.serving.engine``). The objective is
the time from the first arrival to the last token, divided by the number of requests: seconds per request of the whole
deployment. Where the rate of requests is looked for it is the plan's; where the cheapest devices are, the objective
is what the devices of all units cost in an hour, or, where they have no prices, their number.

A deployment is feasible if its units have the roles that are asked for, they find room on the machines, and the share
of requests that targets are about keeps each of them. Of the cheapest devices it is also asked that they keep up: the
last token comes after the last arrival by no more than a tenth of the time of all arrivals and what targets allow the
longest request.

For a request with O output tokens: TTFT is the time from its arrival to its first token, TPOT (last token − first
token)/(O − 1), its latency the time from its arrival to its last token. The *gap* is between two tokens of a
request that follow each other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from partita.engines.kernels.arrays import Floats, Longs
from partita.engines.kernels.serving.arrays import BIN_FIRST, BIN_RATIO, Promises, promised
from partita.engines.search.result import PlanEvaluation
from partita.ground.errors import InputError
from partita.nouns.workload.workload import DrawnRequests, RequestWorkload
from partita.problems.serving.engine import RECORDED, Served, in_order, run_units, units_of
from partita.problems.serving.packing import unpacked
from partita.problems.serving.problem import ServingPlan, ServingProblem
from partita.problems.serving.routing import route_of

#: Of the time of all arrivals, by which share the last token may come later.
KEEPS_UP = 0.1

#: What the time of requests is spent on, in the order of the kernel; what is left of it is ``queue``.
LIMITS = (
    "weights",
    "exchange",
    "prompt work",
    "decode work",
    "decode bandwidth",
    "host",
    "link",
    "cache",
    "queue",
)


class Percentiles(msgspec.Struct, frozen=True, kw_only=True):
    """A time over all requests, in seconds."""

    mean: float
    p50: float
    p90: float
    p99: float


class UnitUse(msgspec.Struct, frozen=True, kw_only=True):
    """What the units of one group of a plan did, together."""

    steps: int
    prompt_tokens: int  #: Computed, those that were lost again included.
    decode_tokens: int
    busy: float  #: Share of the time in which stages work.
    cache: float  #: Share of the cache that was in use at most.


class ServingEvaluation(PlanEvaluation, frozen=True, kw_only=True):
    """What a deployment does under its workload."""

    devices: int
    requests: int
    duration_s: float  #: From the first arrival to the last token.
    requests_per_s: float
    tokens_per_s: float  #: Of outputs.
    ttft_s: Percentiles
    tpot_s: Percentiles
    gap_s: Percentiles  #: To one per cent, but for the mean.
    latency_s: Percentiles
    #: What the share of requests that targets are about keeps.
    ttft_at: float
    tpot_at: float
    cost: float  #: Of all devices an hour; their number where they have no prices.
    in_flight: float  #: Requests in the system, on average.
    cache_tokens: int  #: Tokens that the caches hold, in requests of the mean length.
    preemptions: int
    limits: dict[str, float]  #: What the time of requests is spent on, as shares.
    uses: tuple[UnitUse, ...]  #: By group of the plan.

    @property
    def tokens_per_s_per_device(self) -> float:
        """Output tokens per second and device."""
        return self.tokens_per_s / self.devices if self.devices else 0.0


def evaluate(problem: ServingProblem, plan: ServingPlan) -> ServingEvaluation:
    """What a deployment is worth, from the problem alone.

    Raises ``InputError`` if the plan names forms that the problem does not have, cannot take requests, or a request
    alone is longer than a cache.
    """
    check_plan(problem, plan)
    return _worth(problem, plan, simulated(problem, plan))


def keeps(problem: ServingProblem, plan: ServingPlan) -> bool:
    """Whether a plan is feasible, by a run that ends as soon as too many requests have missed a target.

    Raises ``InputError`` as ``evaluate`` does.
    """
    check_plan(problem, plan)
    targets, drawn = problem.targets, load_of(problem, plan).drawn()
    promises = promised(
        math.inf if targets.ttft_s is None else targets.ttft_s,
        math.inf if targets.tpot_s is None else targets.tpot_s,
        may_miss(len(drawn.output_tokens), targets.percentile),
        may_miss(int((drawn.output_tokens > 1).sum()), targets.percentile),
    )
    served = _run(problem, plan, drawn, 0, promises)
    return served is not None and _worth(problem, plan, served).feasible


def may_miss(count: int, percentile: float) -> int:
    """Of so many requests, how many may miss a target at most: those above the quantile's lower neighbour."""
    # A quantile that falls on a request up to rounding is allowed either neighbour.
    return count - (math.floor((count - 1) * percentile - 1e-6) + 1) if count else 0


def _worth(problem: ServingProblem, plan: ServingPlan, served: Served) -> ServingEvaluation:
    requests = served.requests
    start, count = float(requests.arrival[0]), served.count
    duration = served.end_s - start
    latency = requests.last - requests.arrival
    ttft = requests.first - requests.arrival
    several = requests.output > 1
    tpot = (requests.last - requests.first)[several] / (requests.output[several] - 1)
    devices, cost = sum(problem.form(group.unit).devices * group.count for group in plan.units), cost_of(problem, plan)
    kept = [float(np.quantile(one, problem.targets.percentile)) if len(one) else 0.0 for one in (ttft, tpot)]
    late = served.end_s - float(requests.arrival.max()) - most_late(problem, requests.arrival, requests.output)
    return ServingEvaluation(
        objective=cost if problem.goal == "cost" else duration / count,
        violations=tuple(_violations(problem, plan, kept, late)),
        devices=devices,
        ttft_at=kept[0],
        tpot_at=kept[1],
        cost=cost,
        requests=count,
        duration_s=duration,
        requests_per_s=count / duration if duration > 0 else 0.0,
        tokens_per_s=float(requests.output.sum()) / duration if duration > 0 else 0.0,
        ttft_s=percentiles(ttft),
        tpot_s=percentiles(tpot),
        gap_s=gap_percentiles(served),
        latency_s=percentiles(latency),
        in_flight=float(latency.sum()) / duration if duration > 0 else 0.0,
        cache_tokens=cache_tokens(problem, plan),
        preemptions=int(requests.preempted.sum()),
        limits=_limits(served, float(latency.sum())),
        uses=_uses(problem, plan, served, duration),
    )


def simulated(problem: ServingProblem, plan: ServingPlan, recorded: int = RECORDED) -> Served:
    """The run itself, with so many of its first steps."""
    found = _run(problem, plan, load_of(problem, plan).drawn(), recorded)
    assert found is not None
    return found


def _run(
    problem: ServingProblem, plan: ServingPlan, drawn: DrawnRequests, recorded: int, promises: Promises | None = None
) -> Served | None:
    workload = problem.workload
    prefixes = (workload.prefix_tokens,) * workload.prefix_groups if workload.prefix_tokens else ()
    route = route_of(problem, plan, drawn)
    return run_units(units_of(problem, plan), drawn, prefixes, recorded=recorded, route=route, promises=promises)


def percentiles(values: Floats) -> Percentiles:
    """The mean, and percentiles with lines between neighbours; zeros of nothing."""
    if not len(values):
        return Percentiles(mean=0.0, p50=0.0, p90=0.0, p99=0.0)
    p50, p90, p99 = (float(value) for value in np.quantile(values, (0.5, 0.9, 0.99)))
    return Percentiles(mean=float(values.mean()), p50=p50, p90=p90, p99=p99)


def gap_percentiles(served: Served) -> Percentiles:
    """The same of the gaps between tokens, from their histogram: the middles of its bins."""
    counts, total = np.cumsum(served.totals.gaps), served.totals.gap_sum[1]
    if not total:
        return percentiles(np.zeros(0))
    places = np.searchsorted(counts, [share * total for share in (0.5, 0.9, 0.99)])
    p50, p90, p99 = (BIN_FIRST * BIN_RATIO ** (int(place) + 0.5) for place in places)
    return Percentiles(mean=float(served.totals.gap_sum[0] / total), p50=p50, p90=p90, p99=p99)


def _limits(served: Served, latency: float) -> dict[str, float]:
    """Shares of the requests' time; of a request that is in several steps of a pipeline at once, each counts."""
    parts = served.totals.parts[: len(LIMITS) - 1]
    whole = max(latency, float(parts.sum()))
    shares = [float(part) / whole if whole > 0 else 0.0 for part in parts]
    return dict(zip(LIMITS, [*shares, max(0.0, 1.0 - math.fsum(shares))], strict=True))


def _uses(problem: ServingProblem, plan: ServingPlan, served: Served, duration: float) -> tuple[UnitUse, ...]:
    found: dict[int, UnitUse] = {}
    place, totals = 0, served.totals
    for number, group in in_order(plan):
        form = problem.form(group.unit)
        count = group.count * form.apart
        units = slice(place, place + count)
        place += count
        work = float(totals.busy[units].sum()) / (count * form.prices.stages)
        found[number] = UnitUse(
            steps=int(totals.steps[units].sum()),
            prompt_tokens=int(totals.prompt_tokens[units].sum()),
            decode_tokens=int(totals.decode_tokens[units].sum()),
            busy=min(1.0, work / duration) if duration > 0 else 0.0,
            cache=float(totals.peak[units].max()) / max(1, max(served.caches[units])),
        )
    return tuple(found[number] for number in range(len(plan.units)))


def cache_tokens(problem: ServingProblem, plan: ServingPlan) -> int:
    """Tokens that all caches hold, in requests of the workload's mean length."""
    pairs = problem.workload.lengths()
    mean = max(1, round(sum(prompt + output for prompt, output in pairs) / len(pairs)))
    found = 0
    for group in plan.units:
        form = problem.form(group.unit)
        found += group.count * form.apart * form.prices.cache_tokens(mean)
    return found


def load_of(problem: ServingProblem, plan: ServingPlan) -> RequestWorkload:
    """The requests that a plan is simulated under; InputError if they need a rate and it has none, or the reverse."""
    if problem.goal != "rate":
        if plan.rate_per_s is not None:
            raise InputError(f"the plan has a rate of requests, and problem {problem.name!r} states when they come")
        return problem.workload
    if plan.rate_per_s is None or not 0 < plan.rate_per_s < math.inf:
        raise InputError(
            f"the plan's rate_per_s is {plan.rate_per_s}; problem {problem.name!r} asks for a rate above 0"
        )
    return problem.workload.at_rate(plan.rate_per_s)


def cost_of(problem: ServingProblem, plan: ServingPlan) -> float:
    """What the devices of all units cost in an hour; their number where they have no prices."""
    found = []
    for group in plan.units:
        form = problem.form(group.unit)
        found.append(group.count * form.devices * problem.pool(form.kind).cost_per_device)
    return math.fsum(found)


def most_late(problem: ServingProblem, arrival: Floats, output: Longs) -> float:
    """Seconds from the last arrival to the last token, of a fleet that keeps up: see above."""
    targets = problem.targets
    allowed = (targets.ttft_s or 0.0) + (targets.tpot_s or 0.0) * (int(output.max()) - 1)
    return KEEPS_UP * float(arrival.max() - arrival[0]) + allowed


def _violations(problem: ServingProblem, plan: ServingPlan, kept: Sequence[float], late: float) -> list[str]:
    found = unpacked(problem, plan)
    asked = {"both": ("both",), "split": ("prefill", "decode"), "any": ("both", "prefill", "decode")}[problem.roles]
    others = sorted({group.role for group in plan.units} - set(asked))
    if others:
        found.append(f"units have the role {', '.join(others)}, and asked for is {', '.join(asked)}")
    roles = sorted(group.role for group in plan.units)
    if problem.goal == "time" and roles != ["both"] and not (problem.split and roles == ["decode", "prefill"]):
        allowed = "one form, or one for prompts and one for decoding" if problem.split else "one form that does both"
        found.append(f"the units are of {len(roles)} groups ({', '.join(roles)}), and a deployment has {allowed}")
    found += _unshared(problem, plan)
    found += [
        f"the interval of a group is {group.interval} steps, and it is none of those that groups may have"
        for group in plan.units
        if group.interval not in problem.intervals
    ]
    if problem.rates and plan.rate_per_s is not None and plan.rate_per_s not in problem.rates:
        found.append(f"the rate is {plan.rate_per_s:g} requests/s, and it is none of those that may be offered")
    targets = problem.targets
    for name, limit, worth in (("TTFT", targets.ttft_s, kept[0]), ("TPOT", targets.tpot_s, kept[1])):
        if limit is not None and worth > limit:
            found.append(
                f"{name} at percentile {targets.percentile:g} is {worth:.4g} s, and at most {limit:.4g} s is wanted"
            )
    if problem.goal == "cost" and late > 0:
        found.append(f"the units do not keep up with the requests: the last token comes {late:.4g} s too late")
    return found


def _unshared(problem: ServingProblem, plan: ServingPlan) -> list[str]:
    """Shares that the problem does not have."""
    stated, parts = [group.shares for group in plan.units if group.shares is not None], problem.share_parts
    if not stated or (parts is None and problem.goal != "time"):
        return []
    if not parts or problem.goal == "time":
        return ["the plan has shares of requests, and the problem has none"]
    for own in zip(*stated, strict=True):
        if any(abs(share / sum(own) * parts - round(share / sum(own) * parts)) > 1e-9 for share in own):
            return [f"shares of requests are no multiples of 1/{parts}"]
    return []


def check_plan(problem: ServingProblem, plan: ServingPlan) -> None:
    """Refuse a plan without units, with fewer than one of a group, with shares that fit no class of requests, or with
    intervals of units that have none.
    """
    if not plan.units or any(group.count < 1 for group in plan.units):
        raise InputError("a deployment has at least one group of units, each of at least one")
    for group in plan.units:
        form = problem.form(group.unit)
        if group.interval > 1 and not (group.role == "both" and form.in_step):
            raise InputError(
                f"an interval of {group.interval} steps is stated of {form.layout.label} for {group.role}; only units "
                "that do all of a request, in attention-data groups that step together, have one"
            )
    taking, classes = [group for group in plan.units if group.role != "decode"], max(1, len(problem.classes))
    stated = [group.shares for group in taking if group.shares is not None]
    if any(group.shares is not None for group in plan.units if group.role == "decode"):
        raise InputError("units for decoding have shares of requests that arrive; leave them out")
    if not stated:
        return
    if len(stated) < len(taking) or any(len(shares) != classes for shares in stated):
        raise InputError(f"shares of requests are of all units that take them or of none, {classes} of each group")
    if not all(sum(own) > 0 for own in zip(*stated, strict=True)):
        raise InputError("a class of requests has no units; give it shares that are not all 0")
