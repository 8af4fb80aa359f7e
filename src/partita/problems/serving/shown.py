"""A deployment as tables and sentences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from partita.documents.tables.text import new_table
from partita.ground.units import format_time
from partita.problems.serving.evaluate import Percentiles, ServingEvaluation
from partita.problems.serving.problem import ServingPlan, ServingProblem

if TYPE_CHECKING:
    from rich.table import Table

#: Shares that are not worth a word.
_SMALL = 0.005
#: A target that is this nearly reached binds.
_NEAR = 0.9

#: What the time of requests is spent on, as the end of a sentence.
_SPENT = {
    "weights": "reading weights: more requests in a step, or smaller weights, would share it out",
    "exchange": "adding up between cards: smaller degrees or faster links would save it",
    "prompt work": "computing prompts",
    "decode work": "computing answers",
    "decode bandwidth": "reading the cache: a smaller format of the cache would save it",
    "host": "the host, which prepares steps",
    "link": "handing caches and activations on",
    "cache": "waiting for room in the cache: more memory or a smaller format of the cache would save it",
    "queue": "waiting for a turn",
}


def units_table(problem: ServingProblem, plan: ServingPlan, evaluation: ServingEvaluation) -> Table:
    """The groups of units by pool."""
    words = ("role", "sizes", *(("share of requests",) if shared(plan) else ()))
    table = new_table("Units", ("count", "devices", "steps", "busy", "cache used"), "unit", words)
    for group, use in zip(plan.units, evaluation.uses, strict=True):
        form = problem.form(group.unit)
        figures = (str(group.count), str(form.devices), str(use.steps), f"{use.busy:.0%}", f"{use.cache:.0%}")
        sizes = f"{form.rules.requests} requests, {form.rules.tokens} tokens"
        if group.interval > 1:
            sizes += f", prompts every {group.interval} steps"
        shares = () if group.shares is None else (", ".join(f"{share:.0%}" for share in group.shares),)
        table.add_row(*figures, f"{form.layout.label} on {form.kind}", group.role, sizes, *shares)
    return table


def shared(plan: ServingPlan) -> bool:
    """Whether the plan says which units take which requests."""
    return any(group.shares is not None for group in plan.units)


def pools_table(problem: ServingProblem, plan: ServingPlan) -> Table | None:
    """What becomes of the devices of each kind; None where all are used and there is one kind."""
    left = left_over(problem, plan)
    if len(problem.pools) == 1 and not any(left.values()):
        return None
    priced = any(pool.price_per_hour is not None for pool in problem.pools)
    figures = ("devices", "used", "left over", *(("price per hour",) if priced else ()))
    table = new_table("Pools", figures, "kind")
    for pool in problem.pools:
        used = pool.devices - left[pool.kind]
        costs = (f"{used * (pool.price_per_hour or 0.0):.4g}",) if priced else ()
        table.add_row(str(pool.devices), str(used), str(left[pool.kind]), *costs, pool.kind)
    return table


def units_words(problem: ServingProblem, plan: ServingPlan) -> str:
    """The units in a line."""
    several = len(problem.pools) > 1
    found = []
    for group in plan.units:
        form = problem.form(group.unit)
        role = "" if group.role == "both" else f" for {'prompts' if group.role == 'prefill' else 'decoding'}"
        found.append(f"{group.count} × {form.layout.label}{f' on {form.kind}' if several else ''}{role}")
    return "; ".join(found)


def left_over(problem: ServingProblem, plan: ServingPlan) -> dict[str, int]:
    """Devices of each kind that no unit has."""
    left = {pool.kind: pool.devices for pool in problem.pools}
    for group in plan.units:
        form = problem.form(group.unit)
        left[form.kind] -= group.count * form.devices
    return left


def times_table(evaluation: ServingEvaluation) -> Table:
    """What users get."""
    table = new_table("What users get", ("mean", "50 %", "90 %", "99 %"), "time")
    named = (
        ("to the first token", evaluation.ttft_s),
        ("per token after it", evaluation.tpot_s),
        ("between two tokens", evaluation.gap_s),
        ("to the last token", evaluation.latency_s),
    )
    for name, times in named:
        table.add_row(*(format_time(value, "s") for value in msgspec.structs.astuple(times)), name)
    return table


def times_words(times: Percentiles) -> str:
    """A time over all requests."""
    mean, _, p90, p99 = (format_time(value, "s") for value in msgspec.structs.astuple(times))
    return f"{mean} on average, {p90} at 90 %, {p99} at 99 %"


def spent_words(evaluation: ServingEvaluation) -> str:
    """What the time of requests is spent on, the most first."""
    shares = sorted(((share, name) for name, share in evaluation.limits.items() if share >= _SMALL), reverse=True)
    return ", ".join(f"{name} {share:.0%}" for share, name in shares)


def limit_sentences(problem: ServingProblem, plan: ServingPlan, evaluation: ServingEvaluation) -> Iterator[str]:
    """What limits a deployment, from what happened in its run."""
    e, targets = evaluation, problem.targets
    share = f"at percentile {targets.percentile:g}"
    for name, limit, worth in (("TTFT", targets.ttft_s, e.ttft_at), ("TPOT", targets.tpot_s, e.tpot_at)):
        if limit is None:
            continue
        reached = worth / limit
        verb = "binds" if reached >= _NEAR else "leaves room"
        yield f"{name} {verb}: {format_time(worth)} {share}, {reached:.0%} of the {format_time(limit)} allowed"
    name, part = max(e.limits.items(), key=lambda one: one[1])
    yield f"{part:.0%} of the requests' time is {_SPENT[name]}"
    for group, use in zip(plan.units, e.uses, strict=True):
        form = problem.form(group.unit)
        what = f"{group.count} × {form.layout.label} on {form.kind}"
        if use.cache >= _NEAR:
            yield f"the cache of {what} is full at times ({use.cache:.0%})"
    if e.preemptions:
        yield f"{e.preemptions} times a request was put back because the cache was full"
    left = {kind: count for kind, count in left_over(problem, plan).items() if count}
    if left:
        yield "left over: " + ", ".join(f"{count} {kind}" for kind, count in left.items())
