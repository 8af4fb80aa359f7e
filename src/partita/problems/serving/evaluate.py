"""The objective and the feasibility of a deployment: the only place where they are defined.

The deployment is simulated under the workload, step by step (``partita.problems.serving.engine``). The objective is
the time from the first arrival to the last token, divided by the number of requests: seconds per request of the whole
deployment. It is feasible if its units are of one form (or, where roles may be split, of one for prompts and one for
decoding), it has no more devices than there are, and the share of requests that targets are about keeps each of them.

For a request with O output tokens: TTFT is the time from its arrival to its first token, TPOT (last token − first
token)/(O − 1), its latency the time from its arrival to its last token. The *gap* is between two tokens of a
request that follow each other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from partita.engines.kernels.arrays import Floats
from partita.engines.kernels.serving.arrays import BIN_FIRST, BIN_RATIO
from partita.engines.search.result import PlanEvaluation
from partita.ground.errors import InputError
from partita.problems.serving.engine import RECORDED, Served, run_units, units_of
from partita.problems.serving.problem import ServingPlan, ServingProblem

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
    check_plan(plan)
    served = simulated(problem, plan)
    requests = served.requests
    start, count = float(requests.arrival[0]), served.count
    duration = served.end_s - start
    latency = requests.last - requests.arrival
    ttft = requests.first - requests.arrival
    several = requests.output > 1
    tpot = (requests.last - requests.first)[several] / (requests.output[several] - 1)
    devices = sum(problem.form(group.unit).devices * group.count for group in plan.units)
    return ServingEvaluation(
        objective=duration / count,
        violations=tuple(_violations(problem, plan, devices, ttft, tpot)),
        devices=devices,
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
    workload = problem.workload
    prefixes = (workload.prefix_tokens,) * workload.prefix_groups if workload.prefix_tokens else ()
    found = run_units(units_of(problem, plan), workload.drawn(), prefixes, recorded=recorded)
    assert found is not None
    return found


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
    found, place, totals = [], 0, served.totals
    for group in plan.units:
        form = problem.form(group.unit)
        apart = form.layout.attention_data if form.prices.attention_data == 1 else 1
        units = slice(place, place + group.count * apart)
        place += group.count * apart
        work = float(totals.busy[units].sum()) / (group.count * apart * form.prices.stages)
        found.append(
            UnitUse(
                steps=int(totals.steps[units].sum()),
                prompt_tokens=int(totals.prompt_tokens[units].sum()),
                decode_tokens=int(totals.decode_tokens[units].sum()),
                busy=min(1.0, work / duration) if duration > 0 else 0.0,
                cache=float(totals.peak[units].max()) / max(1, max(served.caches[units])),
            )
        )
    return tuple(found)


def cache_tokens(problem: ServingProblem, plan: ServingPlan) -> int:
    """Tokens that all caches hold, in requests of the workload's mean length."""
    pairs = problem.workload.lengths()
    mean = max(1, round(sum(prompt + output for prompt, output in pairs) / len(pairs)))
    found = 0
    for group in plan.units:
        form = problem.form(group.unit)
        apart = form.layout.attention_data if form.prices.attention_data == 1 else 1
        found += group.count * apart * form.prices.cache_tokens(mean)
    return found


def _violations(problem: ServingProblem, plan: ServingPlan, devices: int, ttft: Floats, tpot: Floats) -> Sequence[str]:
    found = []
    if devices > problem.devices:
        found.append(f"the units have {devices} devices, and there are {problem.devices}")
    roles = sorted(group.role for group in plan.units)
    if roles != ["both"] and not (problem.split and roles == ["decode", "prefill"]):
        allowed = "one form, or one for prompts and one for decoding" if problem.split else "one form that does both"
        found.append(f"the units are of {len(roles)} groups ({', '.join(roles)}), and a deployment has {allowed}")
    targets = problem.targets
    for name, limit, values in (("TTFT", targets.ttft_s, ttft), ("TPOT", targets.tpot_s, tpot)):
        if limit is not None and len(values):
            worth = float(np.quantile(values, targets.percentile))
            if worth > limit:
                found.append(
                    f"{name} at percentile {targets.percentile:g} is {worth:.4g} s, and at most {limit:.4g} s is wanted"
                )
    return found


def check_plan(plan: ServingPlan) -> None:
    """Refuse a plan without units, or with fewer than one of a group."""
    if not plan.units or any(group.count < 1 for group in plan.units):
        raise InputError("a deployment has at least one group of units, each of at least one")
