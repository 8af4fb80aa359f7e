"""The event loop of serving: requests arrive, units step, tokens come out; ``arrays`` beside it says what of.

At an instant, first all steps that end then hand out their tokens, then handovers that are done join their units, then
requests enter; after that every unit that is free puts together its next step. A unit with several stages starts a
step whenever its first stage is free and fewer steps than stages are under way.
"""

from __future__ import annotations

import math

from partita.engines.kernels.arrays import Floats, Longs
from partita.engines.kernels.compiled import allocating_nothing, inlined
from partita.engines.kernels.serving.arrays import (
    ARRIVED,
    BIN_FIRST,
    BIN_RATIO,
    BINS,
    CACHE_READS,
    DECODES,
    ENTERED,
    EXCHANGE,
    FINISHED,
    HOST,
    LATE,
    LINK,
    MOST,
    PROMPTS,
    SLOW,
    STEPS,
    WEIGHTS,
    Batches,
    Prices,
    Promises,
    Queues,
    Requests,
    Totals,
    Units,
)
from partita.engines.kernels.serving.batch import choose, put_last
from partita.engines.kernels.serving.cache import release

_BIN_STEP = math.log(BIN_RATIO)


@inlined
def on_grid(prices: Prices, row: int, table: Floats, s: int, at: float) -> float:
    """A line through grid points: see ``partita.costs.serving.prices.on_grid``."""
    count = prices.points[row]
    if at <= 0.0:
        return 0.0
    if count == 1:
        return float(table[row, s, 0])
    place = 1
    while place < count - 1 and prices.tokens[row, place] <= at:
        place += 1
    low, high = prices.tokens[row, place - 1], prices.tokens[row, place]
    left, right = table[row, s, place - 1], table[row, s, place]
    return float(left + (right - left) * (at - low) / (high - low))


@inlined
def launch(
    units: Units, prices: Prices, r: Requests, k: Queues, b: Batches, t: Totals, u: int, slot: int, now: float
) -> None:
    """Let the step that was put together pass the stages of its unit, each when it is free."""
    row, members, ranks = units.price[u], b.size[u, slot], units.first[u + 1] - units.first[u]
    most, whole, prompts, chunks, decodes = 0, 0, 0, 0, 0
    for rank in range(ranks):
        most = max(most, b.tokens[rank])
        whole += b.tokens[rank]
        prompts += b.prompts[rank]
        chunks += b.chunks[rank]
        decodes += b.decodes[rank]
    # Groups in lock step wait for the one that has most to do, and some are filled up to it.
    tokens, groups = float(most * ranks), float(prices.groups[row])
    uneven = chunks > 0 and most > prices.padded[row]
    seen = float(whole) if uneven else tokens
    share = prompts / whole
    record, place = len(t.unit), t.counts[STEPS]
    at = now
    for s in range(units.stages[u]):
        slowest, reading, asking = 0.0, 0.0, 0.0
        for rank in range(ranks):
            pairs, keys = 0.0, 0.0
            for w in range(units.windows.shape[1]):
                pairs += prices.prompt[row, s, w] * b.pairs[rank, w]
                keys += prices.decode[row, s, w] * b.keys[rank, w]
            pairs += prices.chunk[row, s] * b.chunks[rank]
            own = pairs + keys + prices.request[row, s] * b.decodes[rank]
            if own > slowest:
                slowest, reading, asking = own, keys, pairs
        fixed = prices.mixed_step[row, s] if chunks > 0 else prices.step[row, s]
        dense = on_grid(prices, row, prices.dense_mixed if chunks > 0 else prices.dense, s, seen)
        if uneven:
            apart = on_grid(prices, row, prices.apart, s, tokens)
            dense = max(dense, apart + on_grid(prices, row, prices.together, s, seen))
        time = dense + groups * slowest + fixed
        waits = prices.host[row] + prices.host_request[row] * members - time
        if waits > 0.0:
            # The host is not ready with the step after it.
            time += waits
            fixed += waits
        if s > 0:
            hand = prices.hand_on[row] + prices.hand_on_token[row] * tokens
            t.parts[LINK] += hand * members
            at += hand
        start = max(at, b.free_at[u, s])
        at = start + time
        b.free_at[u, s] = at
        t.busy[u, s] += time
        if place < record:
            t.span[place, s, 0] = start
            t.span[place, s, 1] = at
        weights = min(dense, on_grid(prices, row, prices.weights, s, seen))
        exchange = min(dense - weights, on_grid(prices, row, prices.exchange, s, seen))
        rest = dense - weights - exchange
        t.parts[WEIGHTS] += weights * members
        t.parts[EXCHANGE] += exchange * members
        t.parts[PROMPTS] += (rest * share + groups * asking) * members
        t.parts[DECODES] += (rest * (1.0 - share) + groups * (slowest - reading - asking)) * members
        t.parts[CACHE_READS] += groups * reading * members
        t.parts[HOST] += fixed * members
    b.done[u, slot] = at
    b.under_way[u] += 1
    b.turn[u] += 1
    t.steps[u] += 1
    t.prompt_tokens[u] += prompts
    t.decode_tokens[u] += decodes
    used, running = 0, 0
    for q in range(units.first[u], units.first[u + 1]):
        t.peak[u] = max(t.peak[u], units.size[u] - k.free[q] - k.idle[q])
        used += units.size[u] - k.free[q]
        running += k.running[q]
    if place < record:
        t.unit[place] = u
        t.step_prompts[place] = prompts
        t.step_decodes[place] = decodes
        t.step_running[place] = running
        t.step_bytes[place] = used
    t.counts[STEPS] += 1


@inlined
def shortest(units: Units, k: Queues, takes: bool, group: int) -> int:
    """The scheduler with the fewest requests, among units that take requests as they arrive, or those that do not.

    ``group`` is the group of units that is asked, −1 for all.
    """
    best, least = -1, 0
    for u in range(len(units.takes)):
        if (units.takes[u] > 0) == takes and (group < 0 or units.group[u] == group):
            for q in range(units.first[u], units.first[u + 1]):
                load = k.waiting[q] + k.running[q] + k.fetching[q]
                if best < 0 or load < least:
                    best, least = q, load
    return best


@inlined
def hand_out(units: Units, r: Requests, k: Queues, b: Batches, t: Totals, promises: Promises, u: int) -> None:
    """The oldest step of a unit is done: its tokens come out, and requests that have all of theirs leave."""
    slot = b.oldest[u]
    now, left = b.done[u, slot], False
    for place in range(b.size[u, slot]):
        i = b.members[u, slot, place]
        silent = i < 0
        if silent:
            i = -1 - i
        r.flying[i] -= 1
        if silent:
            continue
        r.generated[i] += 1
        if r.generated[i] == 1:
            r.first[i] = now
            if now - r.arrival[i] > promises.limit[0]:
                t.counts[LATE] += 1
        else:
            gap = now - r.last[i]
            t.gap_sum[0] += gap
            t.gap_sum[1] += 1.0
            bin = int(math.log(gap / BIN_FIRST) / _BIN_STEP) if gap > BIN_FIRST else 0
            t.gaps[min(bin, BINS - 1)] += 1
        r.last[i] = now
        q = r.home[i]
        if r.generated[i] == r.output[i]:
            release(units, r, k, t, u, q, i, r.held[i], r.shared[i])
            r.home[i] = -1
            t.counts[FINISHED] += 1
            if r.output[i] > 1 and (now - r.first[i]) / (r.output[i] - 1) > promises.limit[1]:
                t.counts[SLOW] += 1
            left = True
        elif units.gives[u] > 0:
            r.kept[i] = r.held[i]
            r.kept_shared[i] = r.shared[i]
            r.source[i] = q
            r.held[i] = 0
            r.shared[i] = 0
            r.home[i] = shortest(units, k, False, -1)
            r.since[i] = now
            put_last(r, k, r.home[i], i)
            left = True
    if left:
        for q in range(units.first[u], units.first[u + 1]):
            count = 0
            for place in range(k.running[q]):
                i = k.members[q, place]
                if r.home[i] == q:
                    k.members[q, count] = i
                    count += 1
            k.running[q] = count
    b.oldest[u] = (slot + 1) % units.stages[u]
    b.under_way[u] -= 1
    b.size[u, slot] = 0


@inlined
def arrive(units: Units, r: Requests, k: Queues, b: Batches, t: Totals, source: int) -> None:
    """The oldest handover on a unit's link is done: the request runs, and its prompt's unit is free of it."""
    i = b.sending[source]
    b.sending[source] = r.next[i]
    release(units, r, k, t, source, r.source[i], i, r.kept[i], r.kept_shared[i])
    r.source[i] = -1
    r.computed[i] = r.prompt[i]
    q = r.home[i]
    k.fetching[q] -= 1
    k.members[q, k.running[q]] = i
    k.running[q] += 1


@allocating_nothing
def serve(
    units: Units,
    prices: Prices,
    r: Requests,
    k: Queues,
    b: Batches,
    t: Totals,
    promises: Promises,
    in_flight: int,
    delay: float,
    stop: Longs,
) -> float:
    """Run all requests; the time at which the last one is done, −1 if it was stopped or nothing can go on, −2 as soon
    as more requests have missed a promise than may.

    ``in_flight`` requests are in the system at once (a closed loop), 0 for those that arrive by themselves; ``delay``
    is what passes between arriving and entering a queue.
    """
    total, now = len(r.prompt), 0.0
    t.counts[ARRIVED] = total if in_flight == 0 else min(total, in_flight)
    for i in range(total):
        r.begun[i] = -1.0
    while t.counts[FINISHED] < total:
        if stop[0] > 0:
            return -1.0
        if t.counts[LATE] > promises.spared[0] or t.counts[SLOW] > promises.spared[1]:
            return -2.0
        coming = math.inf
        if t.counts[ENTERED] < t.counts[ARRIVED]:
            coming = r.arrival[t.counts[ENTERED]] + delay
        for u in range(len(units.takes)):
            if b.under_way[u] > 0:
                coming = min(coming, b.done[u, b.oldest[u]])
                if b.under_way[u] < units.stages[u] and b.free_at[u, 0] > now:
                    coming = min(coming, b.free_at[u, 0])
            if b.sending[u] >= 0:
                coming = min(coming, r.fetched[b.sending[u]])
        if coming == math.inf:
            return -1.0
        now = max(now, coming)
        for u in range(len(units.takes)):
            while b.under_way[u] > 0 and b.done[u, b.oldest[u]] <= now:
                before = t.counts[FINISHED]
                hand_out(units, r, k, b, t, promises, u)
                if in_flight > 0:
                    for _ in range(t.counts[FINISHED] - before):
                        if t.counts[ARRIVED] < total:
                            r.arrival[t.counts[ARRIVED]] = now
                            t.counts[ARRIVED] += 1
        for u in range(len(units.takes)):
            while b.sending[u] >= 0 and r.fetched[b.sending[u]] <= now:
                arrive(units, r, k, b, t, u)
        while t.counts[ENTERED] < t.counts[ARRIVED] and r.arrival[t.counts[ENTERED]] + delay <= now:
            i = t.counts[ENTERED]
            r.home[i] = shortest(units, k, True, r.route[i])
            r.since[i] = now
            t.parts[HOST] += delay
            put_last(r, k, r.home[i], i)
            t.counts[ENTERED] += 1
        t.counts[MOST] = max(t.counts[MOST], t.counts[ENTERED] - t.counts[FINISHED])
        for u in range(len(units.takes)):
            if b.under_way[u] < units.stages[u] and b.free_at[u, 0] <= now:
                slot = (b.oldest[u] + b.under_way[u]) % units.stages[u]
                for q in range(units.first[u], units.first[u + 1]):
                    choose(units, r, k, b, t, u, q, slot, now)
                if b.size[u, slot] > 0:
                    launch(units, prices, r, k, b, t, u, slot, now)
                elif b.under_way[u] == 0:
                    b.turn[u] = 0
    return now if t.counts[LATE] <= promises.spared[0] and t.counts[SLOW] <= promises.spared[1] else -2.0
