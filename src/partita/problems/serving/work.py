"""What a workload takes of a unit at least: work that no way to schedule it can save.

Let a unit of a form serve prompts of P and outputs of O tokens. Every token of every request but the last of each is
computed by some step: P + O − 1 of them, of which a shared prefix may be there already. A step with n tokens takes at
least n · ρ, where ρ is the least of (dense(n) + fixed)/n over all n and both kinds of steps; along each line between
grid points that is monotone, so that grid points and the largest step decide. Attention of decodes takes its keys times
a price, whatever the steps; so do chunks of prompts. (1) The busiest stage of a unit does all of that for its share of
the requests, one thing after the other. (2) A request takes at least its prompt's work, that of one stage where chunks
follow each other through the stages, and one step for every token of its output, through all stages; in a closed loop
of N the latencies of all requests together are at most N times the duration, in an open loop the last request ends
after it arrived.

Queues, preemption, padding and recomputation only add to both. One thing may save a little: after a request was put
back, the step that computes all of its tokens anew also stands for one decode, at the price of prompts. So where
requests may be put back, decodes count at the lower of both prices.
"""

from __future__ import annotations

import numpy as np

from partita.engines.kernels.arrays import Floats, Longs
from partita.ground.errors import InputError
from partita.ground.rounding import rounded_down
from partita.nouns.workload.workload import DrawnRequests
from partita.problems.serving.engine import bytes_of, check_lengths
from partita.problems.serving.packing import blocks_of, fits
from partita.problems.serving.problem import ServingProblem, ServingUnit


def pairs_of(count: Longs, before: Longs, window: int) -> Longs:
    """Pairs of a query and a key, of ``count`` tokens behind ``before`` others, within a window (0 for none)."""
    whole = count * before + count * (count + 1) // 2
    if not window:
        return whole
    growing = np.clip(window - before, 0, count)
    found: Longs = growing * before + growing * (growing + 1) // 2 + (count - growing) * window
    return found


def least_per_token(form: ServingUnit, stage: int, *, most: int) -> float:
    """Seconds of a stage that a token takes at least, in steps of at most so many tokens, but for attention."""
    prices = form.prices
    points = np.array(prices.tokens, np.float64)
    found = []
    for table, fixed in ((prices.dense_s, prices.step_s), (prices.dense_mixed_s, prices.mixed_step_s)):
        values = np.array(table[stage])
        at = np.append(points[points < most], most)
        times = _on_grid(points, values, at) + fixed[stage]
        found.append(float((times / at).min()))
    return max(0.0, min(found))


def least_alone(form: ServingUnit, stage: int, tokens: Longs) -> Floats:
    """Seconds of a stage that a step takes at least, but for attention, with so many tokens in one of its groups.

    Groups that step together wait for it, whether they have tokens of their own or not.
    """
    prices = form.prices
    points, counts = np.array(prices.tokens, np.float64), tokens.astype(np.float64)
    # A step may have more tokens, and where that takes less, so does it.
    mixed = np.minimum.accumulate(np.array(prices.dense_mixed_s[stage])[::-1])[::-1]
    all_of = counts * prices.attention_data
    if not prices.uneven:
        return _on_grid(points, mixed, all_of)
    apart = _on_grid(points, np.array(prices.apart_s[stage]), all_of)
    together = _on_grid(points, np.array(prices.together_s[stage]), counts)
    return np.maximum(_on_grid(points, mixed, counts), apart + together)


def least_per_own_token(form: ServingUnit, stage: int, *, most: int) -> float:
    """Seconds of a stage that a token of one attention-data group takes at least, but for attention.

    Steps have at most so many tokens of all groups together. Each of the two sums that a step takes at least is, by
    token, monotone along the lines between grid points, so that their ends decide.
    """
    prices = form.prices
    groups = prices.attention_data
    least = least_per_token(form, stage, most=most)
    if not prices.uneven:
        return groups * least
    points = np.array(prices.tokens, np.float64)
    own = max(1, most // groups)
    at = np.unique(np.concatenate([points, points / groups]))
    at = np.append(at[at < own], own)
    apart = _on_grid(points, np.array(prices.apart_s[stage]), at * groups)
    together = _on_grid(points, np.array(prices.together_s[stage]), at)
    times = apart + together + prices.mixed_step_s[stage]
    return max(least, float((times / at).min()))


def _on_grid(points: Floats, values: Floats, at: Floats) -> Floats:
    """Lines through grid points; the last one goes on beyond them."""
    if len(points) == 1:
        return np.full(len(at), values[0])
    place = np.clip(np.searchsorted(points, at, "right"), 1, len(points) - 1)
    slope = (values[place] - values[place - 1]) / (points[place] - points[place - 1])
    return values[place - 1] + slope * (at - points[place - 1])


def least_step(form: ServingUnit, stage: int, *, most: int) -> float:
    """Seconds that a step of a stage takes at least, but for attention."""
    prices = form.prices
    points = np.array(prices.tokens, np.float64)
    at = np.append(points[points < most], most)
    found = []
    for table, fixed in ((prices.dense_s, prices.step_s), (prices.dense_mixed_s, prices.mixed_step_s)):
        found.append(float(_on_grid(points, np.array(table[stage]), at).min()) + fixed[stage])
    return max(0.0, min(found))


def attention_s(form: ServingUnit, stage: int, drawn: DrawnRequests, cached: int, *, again: bool) -> Floats:
    """(M,) Seconds of attention of every request at a stage, with what each decode adds to a step.

    ``again`` says whether requests may be put back.
    """
    prices, prompt, output = form.prices, drawn.prompt_tokens, drawn.output_tokens
    found = np.zeros(len(prompt))
    start = np.full(len(prompt), cached)
    for place, window in enumerate(prices.windows):
        asking, decoding = prices.prompt_s[stage][place], prices.decode_s[stage][place]
        found += asking * pairs_of(prompt - start, start, window)
        found += (min(asking, decoding) if again else decoding) * pairs_of(output - 1, prompt, window)
    return found if again else found + prices.request_s[stage] * (output - 1)


def may_put_back(form: ServingUnit, drawn: DrawnRequests) -> bool:
    """Whether the cache may run out while requests run."""
    if form.rules.reserve == "whole" and form.rules.promise == 1:
        return False
    at_once = min(form.rules.requests, drawn.in_flight or len(drawn.prompt_tokens))
    longest = int((drawn.prompt_tokens + drawn.output_tokens).max())
    budgets = enumerate(form.prices.cache_budget_bytes)
    return any(at_once * bytes_of(form, stage, longest) > budget for stage, budget in budgets)


def least_duration(problem: ServingProblem, form: ServingUnit, count: int, drawn: DrawnRequests) -> float:
    """Seconds from the first arrival to the last token that so many units of a form take at least."""
    prices, rules, workload = form.prices, form.rules, problem.workload
    prompt, output = drawn.prompt_tokens, drawn.output_tokens
    units, cached = count * form.apart, workload.prefix_tokens
    longest = int((prompt + output).max())
    most = prices.attention_data * max(rules.tokens, rules.requests, longest)
    tokens = prompt - cached + output - 1
    again = may_put_back(form, drawn)
    busiest, request, prompts = 0.0, np.zeros(len(prompt)), np.zeros(len(prompt))
    terms = 8 * len(prompt)
    none = drawn._replace(output_tokens=np.ones_like(output))
    for stage in range(prices.stages):
        own = attention_s(form, stage, drawn, cached, again=again)
        work = least_per_token(form, stage, most=most) * float(tokens.sum()) + float(own.sum())
        busiest = max(busiest, rounded_down(work, work, terms))
        asked = attention_s(form, stage, none, cached, again=again)
        # While a stage has one chunk of a prompt, another stage has the next.
        prompts = np.maximum(prompts, asked) if rules.chunked else prompts + asked
        request += own - asked + least_step(form, stage, most=most) * output
    request += prompts
    request = np.maximum(request, (prices.host_s + prices.host_request_s) * output)
    found = busiest / units
    if drawn.in_flight:
        whole = float((request + prices.arrival_s).sum())
        return max(found, rounded_down(whole, whole, terms) / drawn.in_flight)
    last = float((drawn.arrival_s - drawn.arrival_s[0] + request + prices.arrival_s).max())
    return max(found, rounded_down(last, last, terms))


def fitting(problem: ServingProblem, form: ServingUnit) -> str | None:
    """Why not one unit of a form can serve the workload; None if one can."""
    pool = problem.pool(form.kind)
    if form.devices > pool.devices:
        among = "" if len(problem.pools) == 1 else f" of {form.kind}"
        return f"{form.layout.label} takes {form.devices} devices{among}, and there are {pool.devices}"
    blocks = blocks_of(form, pool.machines)
    if not fits(pool.machines, blocks):
        return f"{form.layout.label} has groups of {max(blocks)} devices, and no machine of {form.kind} has room"
    try:
        check_lengths(form, problem.workload.lengths())
    except InputError as error:
        return str(error)
    return None
