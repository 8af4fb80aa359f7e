"""What a step does: running requests first, in order of admission, then those that wait, as vLLM's scheduler chooses.

Source: vLLM v1, ``vllm/v1/core/sched/scheduler.py``: a request is scheduled for what it lacks of its tokens (prompt and
generated), within a budget; if a running one finds no room, the last admitted is put back to the front of the queue and
starts again, or, with ``keeps``, behind what nobody has overwritten; after that nobody is admitted in the step. With an
interval (``prefill_schedule_interval``) those that decode have prompts beside them in every n-th step of a unit
only, the same for all its schedulers; but where some waited on after that, the next steps have prompts as well.
"""

from __future__ import annotations

from partita.engines.kernels.compiled import inlined
from partita.engines.kernels.serving.arrays import (
    CACHE_FULL,
    LINK,
    PROMPT,
    WHOLE,
    Batches,
    Queues,
    Requests,
    Totals,
    Units,
)
from partita.engines.kernels.serving.cache import (
    bytes_of,
    give_prefix,
    join_group,
    left_over,
    make_room,
    promised,
    release,
    reusable,
)


@inlined
def put_last(r: Requests, k: Queues, q: int, i: int) -> None:
    """Let a request wait behind all others."""
    r.next[i] = -1
    if k.tail[q] < 0:
        k.head[q] = i
    else:
        r.next[k.tail[q]] = i
    k.tail[q] = i
    k.waiting[q] += 1


@inlined
def put_first(r: Requests, k: Queues, q: int, i: int) -> None:
    """Let a request wait before all others."""
    r.next[i] = k.head[q]
    k.head[q] = i
    if k.tail[q] < 0:
        k.tail[q] = i
    k.waiting[q] += 1


@inlined
def take_first(r: Requests, k: Queues, q: int) -> None:
    """Take the first request out of its queue."""
    k.head[q] = r.next[k.head[q]]
    if k.head[q] < 0:
        k.tail[q] = -1
    k.waiting[q] -= 1


@inlined
def pairs_within(count: int, before: int, window: int) -> int:
    """Pairs of a query and a key: see ``partita.costs.serving.prices.pairs_within``."""
    if window == 0 or before + count <= window:
        return count * before + count * (count + 1) // 2
    growing = max(0, min(count, window - before))
    return growing * before + growing * (growing + 1) // 2 + (count - growing) * window


@inlined
def do_work(units: Units, r: Requests, k: Queues, b: Batches, u: int, q: int, slot: int, i: int, new: int) -> None:
    """Let a request compute so many tokens in the step that is put together."""
    rank, before = q - units.first[u], r.computed[i]
    left = r.prompt[i] + r.generated[i] - before
    b.tokens[rank] += new
    if r.generated[i] > 0 and left == 1:
        b.decodes[rank] += 1
        for w in range(units.windows.shape[1]):
            b.keys[rank, w] += pairs_within(1, before, units.windows[u, w])
    else:
        b.chunks[rank] += 1
        b.prompts[rank] += new
        for w in range(units.windows.shape[1]):
            b.pairs[rank, w] += pairs_within(new, before, units.windows[u, w])
    r.computed[i] = before + new
    r.flying[i] += 1
    b.members[u, slot, b.size[u, slot]] = i if new == left else -1 - i
    b.size[u, slot] += 1
    give_prefix(units, r, k, u, q, i)


@inlined
def put_back(units: Units, r: Requests, k: Queues, t: Totals, u: int, q: int, at: int, now: float) -> None:
    """Preempt a running request, given by its place: it loses its cache and waits before all others."""
    i = k.members[q, at]
    release(units, r, k, t, u, q, i, r.held[i], r.shared[i])
    r.held[i] = 0
    r.shared[i] = 0
    r.left[i] = r.computed[i]
    r.left_at[i] = k.given[q]
    r.computed[i] = 0
    r.preempted[i] += 1
    r.since[i] = now
    k.running[q] -= 1
    for place in range(at, k.running[q]):
        k.members[q, place] = k.members[q, place + 1]
    put_first(r, k, q, i)


@inlined
def decodes(r: Requests, i: int) -> bool:
    """Whether a request's next token is all that it lacks."""
    return bool(r.generated[i] > 0 and r.computed[i] >= r.prompt[i] + r.generated[i] - 1)


@inlined
def prompts_wait(units: Units, r: Requests, k: Queues, b: Batches, u: int, q: int) -> bool:
    """Whether a scheduler leaves prompts out of the step that is put together."""
    if units.interval[u] <= 1 or b.turn[u] % units.interval[u] == 0 or k.crowded[q] > 0:
        return False
    waiting = False
    for place in range(k.running[q]):
        waiting = waiting or decodes(r, k.members[q, place])
    return waiting


@inlined
def continue_running(
    units: Units,
    r: Requests,
    k: Queues,
    b: Batches,
    t: Totals,
    u: int,
    q: int,
    slot: int,
    budget: int,
    alone: bool,
    wait: bool,
    now: float,
) -> int:
    """Schedule those that run, prompts alone, all, or all but prompts if these ``wait``; the tokens that are left, −1 −
    those if nobody may be admitted.
    """
    most = k.running[q]
    if units.stages[u] > 1:
        # The steps that follow each other through a pipeline share out the requests that decode.
        decoding = 0
        for place in range(k.running[q]):
            if decodes(r, k.members[q, place]):
                decoding += 1
        most = (decoding + units.stages[u] - 1) // units.stages[u]
    place, taken, shut = 0, 0, False
    while place < k.running[q] and budget > 0:
        i = k.members[q, place]
        left = r.prompt[i] + r.generated[i] - r.computed[i]
        decode = left == 1 and r.generated[i] > 0
        if left == 0 or (wait and not decode) or (decode and (alone or taken >= most)):
            place += 1
            continue
        new = min(left, budget)
        extra = bytes_of(units, u, r.computed[i] + new) - bytes_of(units, u, r.shared[i]) - r.held[i]
        room = make_room(units, r, k, u, q, extra)
        while not room and not alone:
            # The last admitted makes room, once no step is under way with it.
            last = k.running[q] - 1
            if r.flying[k.members[q, last]] > 0:
                break
            put_back(units, r, k, t, u, q, last, now)
            shut = True
            if last == place:
                break
            room = make_room(units, r, k, u, q, extra)
        if not room:
            shut = True
            break
        k.free[q] -= extra
        k.given[q] += extra
        r.held[i] += extra
        budget -= new
        if decode:
            taken += 1
        do_work(units, r, k, b, u, q, slot, i, new)
        place += 1
    return -1 - budget if shut else budget


@inlined
def admit_waiting(
    units: Units,
    r: Requests,
    k: Queues,
    b: Batches,
    t: Totals,
    u: int,
    q: int,
    slot: int,
    budget: int,
    now: float,
) -> None:
    """Admit those that wait, in their order, as long as there are seats, tokens and room."""
    was_blocked = k.blocked[q] > 0
    k.blocked[q] = 0
    rank = q - units.first[u]
    while k.waiting[q] > 0 and budget > 0 and k.running[q] + k.fetching[q] < units.seats[u]:
        i = k.head[q]
        whole = promised(units, r, u, i)
        if units.reserve[u] == WHOLE and k.promised[q] + whole > units.size[u]:
            k.blocked[q] = 1
            break
        away = r.source[i] >= 0
        cached = 0 if away else reusable(units, r, k, u, q, i)
        # Of what it left there it needs no computing, but room.
        begun = cached if away else max(cached, left_over(units, r, k, u, q, i))
        left = r.prompt[i] if away else r.prompt[i] + r.generated[i] - begun
        new = left if away else min(left, budget)
        if new < left and units.chunked[u] == 0:
            if b.tokens[rank] > 0:
                break
            new = left
        start = bytes_of(units, u, cached)
        extra = bytes_of(units, u, begun + new) - start
        wanted = bytes_of(units, u, begun + left) - start if units.reserve[u] == PROMPT else extra
        # The prefix that it is going to use is not in the way of others.
        own = 0
        if cached > 0 and k.users[q, r.group[i]] == 0:
            own = bytes_of(units, u, r.prefix[r.group[i]] // units.block[u] * units.block[u])
        if k.free[q] + k.idle[q] - own < wanted:
            k.blocked[q] = 1
            break
        take_first(r, k, q)
        if not away:
            join_group(units, r, k, u, q, i, cached)
        make_room(units, r, k, u, q, extra)
        k.free[q] -= extra
        k.given[q] += extra
        r.held[i] = extra
        k.promised[q] += whole
        if was_blocked:
            t.parts[CACHE_FULL] += now - r.since[i]
        if away:
            fetch(units, r, k, b, t, q, i, now)
            continue
        if r.begun[i] < 0.0:
            r.begun[i] = now
        r.computed[i] = begun
        k.members[q, k.running[q]] = i
        k.running[q] += 1
        budget -= new
        do_work(units, r, k, b, u, q, slot, i, new)


@inlined
def fetch(units: Units, r: Requests, k: Queues, b: Batches, t: Totals, q: int, i: int, now: float) -> None:
    """Let the cache of a request come from where its prompt was done, behind what is on that unit's link already."""
    source = 0
    while units.first[source + 1] <= r.source[i]:
        source += 1
    time = units.link_s[source]
    for w in range(units.windows.shape[1]):
        seen = r.prompt[i]
        if units.windows[source, w] > 0 and units.windows[source, w] < seen:
            seen = units.windows[source, w]
        time += units.link_token_s[source, w] * seen
    b.link_free[source] = max(now, b.link_free[source]) + time
    r.fetched[i] = b.link_free[source]
    t.parts[LINK] += r.fetched[i] - now
    k.fetching[q] += 1
    r.next[i] = -1
    if b.sending[source] < 0:
        b.sending[source] = i
    else:
        r.next[b.sending_last[source]] = i
    b.sending_last[source] = i


@inlined
def choose(
    units: Units,
    r: Requests,
    k: Queues,
    b: Batches,
    t: Totals,
    u: int,
    q: int,
    slot: int,
    now: float,
) -> None:
    """Put together what one scheduler does in a step of its unit, and add it to the unit's step."""
    rank = q - units.first[u]
    b.tokens[rank] = 0
    b.chunks[rank] = 0
    b.decodes[rank] = 0
    b.prompts[rank] = 0
    for w in range(units.windows.shape[1]):
        b.pairs[rank, w] = 0
        b.keys[rank, w] = 0
    mixed, wait = units.mixed[u] > 0, prompts_wait(units, r, k, b, u, q)
    for turn in range(2):
        alone = turn == 0 and not mixed
        budget = units.budget[u] if turn == 0 else max(units.budget[u], k.running[q])
        left = continue_running(units, r, k, b, t, u, q, slot, budget, alone, wait, now)
        if turn == 0 and left > 0 and not wait:
            admit_waiting(units, r, k, b, t, u, q, slot, left, now)
        if turn == 0 and left >= 0 and not wait:
            k.crowded[q] = k.waiting[q] > 0
        if mixed or b.tokens[rank] > 0:
            break
