"""What the engine of serving reads and writes: units with their schedulers, prices, requests, queues, batches.

A *unit* works in steps. It has one scheduler for each of its attention-data groups, with a queue, seats and a cache
of its own; the schedulers of a unit step together. Numbers of units are u, of schedulers q (over all units), of
requests i,
of stages s, of forms of attention w, of groups of requests with one prefix g.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from partita.engines.kernels.arrays import Floats, Longs, zeros

#: When a request is admitted: its next chunk fits the cache, its whole prompt does, or that and a share of its output
#: fits what nobody was promised.
CHUNK, PROMPT, WHOLE = 0, 1, 2
#: What a request's time is spent on; what of it is in none of them is waiting for a turn.
WEIGHTS, EXCHANGE, PROMPTS, DECODES, CACHE_READS, HOST, LINK, CACHE_FULL, PARTS = range(9)
#: Bins of gaps between tokens: each is so much wider than the one before it, the first begins there.
BINS, BIN_RATIO, BIN_FIRST = 2400, 1.01, 1e-6


class Units(NamedTuple):
    """U units with Q schedulers."""

    first: Longs  #: (U + 1,) The schedulers of unit u are those from ``first[u]`` to below ``first[u + 1]``.
    #: (U,) Whether it takes requests as they arrive, and whether it hands them on after their prompts; its stages; its
    #: row in ``Prices``.
    takes: Longs
    gives: Longs
    stages: Longs
    price: Longs
    group: Longs  #: (U,) Its group, as requests are routed to.
    #: (U,) Of each scheduler: requests that run at once, tokens in a step, bytes of the cache.
    seats: Longs
    budget: Longs
    size: Longs
    #: (U,) Whether steps mix prompts and decodes (otherwise prompts go first, alone), whether prompts are cut into
    #: chunks, and when a request is admitted.
    mixed: Longs
    chunked: Longs
    reserve: Longs
    promise: Floats  #: (U,) The share of its output that a request is promised room for.
    block: Longs  #: (U,) Tokens in a page of the cache.
    keeps: Longs  #: (U,) Whether a request that was put back finds what nobody has overwritten.
    interval: Longs  #: (U,) Steps from one in which those that decode have prompts beside them to the next.
    #: (U, W) By form: its window in tokens, 0 for none; bytes of a page.
    windows: Longs
    page: Longs
    #: (U,) Seconds that a handover takes by itself, and (U, W) for each token of the cache.
    link_s: Floats
    link_token_s: Floats


class Prices(NamedTuple):
    """K rows of prices, each as ``partita.costs.serving.prices.StepPrices``; tables are padded where rows differ."""

    groups: Longs  #: (K,) Attention-data groups.
    padded: Longs  #: (K,) Most tokens of a group up to which all are filled in a step with prompts.
    points: Longs  #: (K,) Grid points.
    tokens: Floats  #: (K, T)
    #: (K, S, T)
    dense: Floats
    dense_mixed: Floats
    weights: Floats
    exchange: Floats
    apart: Floats
    together: Floats
    #: (K, S, W)
    prompt: Floats
    decode: Floats
    #: (K, S)
    chunk: Floats
    request: Floats
    step: Floats
    mixed_step: Floats
    #: (K,)
    hand_on: Floats
    hand_on_token: Floats
    host: Floats
    host_request: Floats


class Requests(NamedTuple):
    """M requests in order of arrival."""

    #: (M,) Seconds; of a closed loop filled in as it runs.
    arrival: Floats
    #: (M,) Tokens, at least one each; the group whose prefix it begins with, −1 for none.
    prompt: Longs
    output: Longs
    group: Longs
    prefix: Longs  #: (G,) Tokens of each group's prefix.
    route: Longs  #: (M,) The group of units that takes it as it arrives, −1 for any.
    #: (M,) Tokens in the cache (those of steps under way included), tokens that came out.
    computed: Longs
    generated: Longs
    #: (M,) Bytes of its own in the cache, tokens that it shares there with its group; both where its prompt was done.
    held: Longs
    shared: Longs
    kept: Longs
    kept_shared: Longs
    #: (M,) Its scheduler, and the one that keeps its prompt until it was handed over; −1 for none.
    home: Longs
    source: Longs
    #: (M,) Tokens that it left in the cache when it was put back, and bytes that had been given out by then.
    left: Longs
    left_at: Longs
    flying: Longs  #: (M,) Steps under way that it is part of.
    next: Longs  #: (M,) Who comes next in its queue, −1 for nobody.
    preempted: Longs  #: (M,) How often it was put back.
    #: (M,) Seconds: since when it waits, when it was first admitted, its first and its last token so far, when its
    #: handover is done.
    since: Floats
    begun: Floats
    first: Floats
    last: Floats
    fetched: Floats


class Promises(NamedTuple):
    """What a run is about where nothing but that is asked; it ends as soon as one of these is broken."""

    #: (2,) Seconds to the first token, and per token after that; and how many requests may miss each.
    limit: Floats
    spared: Longs


class Queues(NamedTuple):
    """How far the Q schedulers are."""

    #: (Q,) Bytes free, bytes of prefixes that nobody uses, bytes that the admitted were promised.
    free: Longs
    idle: Longs
    promised: Longs
    given: Longs  #: (Q,) Bytes that were ever given out.
    #: (Q,) The queue: its ends, and how many wait.
    head: Longs
    tail: Longs
    waiting: Longs
    #: (Q,) Requests that run, and those on the way from another unit; whether the last one that was looked at had no
    #: room.
    running: Longs
    fetching: Longs
    blocked: Longs
    crowded: Longs  #: (Q,) Whether some waited on when others were last admitted.
    members: Longs  #: (Q, seats) Those that run, first admitted first.
    #: (Q, G) Who computes a prefix (−1 for nobody), whether it is there, who uses it, and when it was used last.
    owner: Longs
    ready: Longs
    users: Longs
    used: Longs


class Batches(NamedTuple):
    """The steps under way, in a ring for every unit, and sums of the one that is put together."""

    #: (U,) The oldest one, how many, and steps since the unit had nothing to do.
    oldest: Longs
    under_way: Longs
    turn: Longs
    #: (U, S) When a step leaves the last stage, by place in the ring; (U, S) when each stage is free.
    done: Floats
    free_at: Floats
    #: (U, S, n) Requests of a step, −1 − i for those that no token comes out of, and (U, S) how many.
    members: Longs
    size: Longs
    #: (U,) Requests on a unit's link: the ends of that queue.
    sending: Longs
    sending_last: Longs
    link_free: Floats
    #: By attention-data group of the unit at hand: tokens, chunks, decodes, and tokens of the chunks.
    tokens: Longs
    chunks: Longs
    decodes: Longs
    prompts: Longs
    #: The same, by form: pairs of prompts, keys of decodes.
    pairs: Longs
    keys: Longs


class Totals(NamedTuple):
    """What is summed up on the way."""

    #: (8,) Requests that arrived, entered and finished, a clock of uses, steps, peak of requests in the system,
    #: requests whose first token came later than promised, and whose others did.
    counts: Longs
    #: (U,) Steps, tokens of prompts and tokens of decodes, the most bytes in use of one scheduler.
    steps: Longs
    prompt_tokens: Longs
    decode_tokens: Longs
    peak: Longs
    busy: Floats  #: (U, S) Seconds that each stage works.
    parts: Floats  #: (9,) Seconds of requests, by what they are spent on.
    #: (BINS,) Gaps between the tokens of a request, and (2,) their sum and number.
    gaps: Longs
    gap_sum: Floats
    #: (R,) The first steps: unit, tokens of prompts, decodes, requests that run, bytes in use after.
    unit: Longs
    step_prompts: Longs
    step_decodes: Longs
    step_running: Longs
    step_bytes: Longs
    span: Floats  #: (R, S, 2) When they start and end at each stage.


#: Places in ``Totals.counts``.
ARRIVED, ENTERED, FINISHED, TICK, STEPS, MOST, LATE, SLOW = range(8)


def fresh_requests(
    arrival: Floats, prompt: Longs, output: Longs, group: Longs, prefix: Longs, route: Longs | None = None
) -> Requests:
    """Requests before anything runs; without a route, each goes to any group of units."""
    count = len(prompt)
    none = np.full(count, -1, np.int64)
    return zeros(
        Requests,
        ("computed generated held shared kept kept_shared left left_at flying preempted", count),
        ("since begun first last fetched", count),
        arrival=arrival.astype(np.float64),
        prompt=prompt.astype(np.int64),
        output=output.astype(np.int64),
        group=group.astype(np.int64),
        prefix=prefix.astype(np.int64),
        route=none.copy() if route is None else route.astype(np.int64),
        home=none.copy(),
        source=none.copy(),
        next=none.copy(),
    )


def promised(ttft_s: float = math.inf, tpot_s: float = math.inf, late: int = 0, slow: int = 0) -> Promises:
    """Promises as arrays; nothing is promised unless it is stated."""
    return Promises(np.array([ttft_s, tpot_s]), np.array([late, slow], np.int64))


def fresh_queues(units: Units, groups: int) -> Queues:
    """Empty queues and caches."""
    count = int(units.first[-1])
    per = np.diff(units.first)
    return zeros(
        Queues,
        ("idle promised given waiting running fetching blocked crowded", count),
        ("ready users used", (count, groups)),
        free=np.repeat(units.size, per).astype(np.int64),
        head=np.full(count, -1, np.int64),
        tail=np.full(count, -1, np.int64),
        members=np.zeros((count, int(units.seats.max())), np.int64),
        owner=np.full((count, groups), -1, np.int64),
    )


def fresh_batches(units: Units, forms: int) -> Batches:
    """Nothing under way."""
    count, stages = len(units.takes), int(units.stages.max())
    ranks = int(np.diff(units.first).max())
    return zeros(
        Batches,
        ("oldest under_way turn link_free", count),
        ("done free_at size", (count, stages)),
        ("tokens chunks decodes prompts", ranks),
        ("pairs keys", (ranks, forms)),
        members=np.zeros((count, stages, int((np.diff(units.first) * units.seats).max())), np.int64),
        sending=np.full(count, -1, np.int64),
        sending_last=np.full(count, -1, np.int64),
    )


def fresh_totals(units: Units, recorded: int) -> Totals:
    """Sums of nothing, with room for so many steps."""
    count, stages = len(units.takes), int(units.stages.max())
    return zeros(
        Totals,
        ("counts", 8),
        ("steps prompt_tokens decode_tokens peak", count),
        ("busy", (count, stages)),
        ("parts", PARTS),
        ("gaps", BINS),
        ("gap_sum", 2),
        ("unit step_prompts step_decodes step_running step_bytes", recorded),
        ("span", (recorded, stages, 2)),
    )
