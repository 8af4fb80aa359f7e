"""The paged cache of a scheduler: what requests hold, prefixes that they share, and who has to make room.

A prefix is computed by the first request of its group and is then there for all of them; only whole pages are shared.
While nobody uses it, it stays as long as there is room, the one that was used last the longest.
"""

from __future__ import annotations

from partita.engines.kernels.compiled import inlined
from partita.engines.kernels.serving.arrays import TICK, Queues, Requests, Totals, Units


@inlined
def bytes_of(units: Units, u: int, tokens: int) -> int:
    """Bytes that a request of so many tokens holds: pages of all of it, or of a window."""
    total = 0
    block = units.block[u]
    for w in range(units.windows.shape[1]):
        seen = tokens
        if units.windows[u, w] > 0 and units.windows[u, w] < tokens:
            seen = units.windows[u, w]
        total += units.page[u, w] * ((seen + block - 1) // block)
    return total


@inlined
def promised(units: Units, r: Requests, u: int, i: int) -> int:
    """Bytes that a request is promised: of its prompt and of a share of its output."""
    return bytes_of(units, u, r.prompt[i] + int(units.promise[u] * (r.output[i] - 1)))


@inlined
def whole_pages(units: Units, u: int, tokens: int) -> int:
    """Tokens of a prefix that whole pages hold."""
    return int(tokens // units.block[u] * units.block[u])


@inlined
def make_room(units: Units, r: Requests, k: Queues, u: int, q: int, wanted: int) -> bool:
    """Drop prefixes that nobody uses, the longest unused first, until so many bytes are free; whether it did."""
    if k.free[q] + k.idle[q] < wanted:
        return False
    while k.free[q] < wanted:
        oldest = -1
        for g in range(len(r.prefix)):
            unused = k.ready[q, g] > 0 and k.users[q, g] == 0
            if unused and (oldest < 0 or k.used[q, g] < k.used[q, oldest]):
                oldest = g
        size = bytes_of(units, u, whole_pages(units, u, r.prefix[oldest]))
        k.ready[q, oldest] = 0
        k.free[q] += size
        k.idle[q] -= size
    return True


@inlined
def reusable(units: Units, r: Requests, k: Queues, u: int, q: int, i: int) -> int:
    """Tokens of a request that are in the cache already: all of the prefix, if something is left to be computed."""
    g = r.group[i]
    if g < 0 or k.ready[q, g] == 0:
        return 0
    tokens = whole_pages(units, u, r.prefix[g])
    return tokens if tokens < r.prompt[i] else 0


@inlined
def left_over(units: Units, r: Requests, k: Queues, u: int, q: int, i: int) -> int:
    """Tokens that a request finds again of what it left: pages given out since are lost, its last ones first."""
    if units.keeps[u] == 0 or r.left[i] == 0 or r.group[i] >= 0:
        return 0
    block = units.block[u]
    page = max(1, bytes_of(units, u, block))
    lost = (k.given[q] - r.left_at[i] + page - 1) // page
    found = (r.left[i] // block - lost) * block
    # One token at least is computed, so that one comes out.
    most = (r.prompt[i] + r.generated[i] - 1) // block * block
    return int(max(0, min(found, most)))


@inlined
def join_group(units: Units, r: Requests, k: Queues, u: int, q: int, i: int, tokens: int) -> None:
    """A request that is admitted uses so many tokens of its group's prefix, or is the first to compute it."""
    g = r.group[i]
    if g < 0:
        return
    if tokens > 0:
        if k.users[q, g] == 0:
            k.idle[q] -= bytes_of(units, u, whole_pages(units, u, r.prefix[g]))
        k.users[q, g] += 1
        r.shared[i] = tokens
    elif k.ready[q, g] == 0 and k.owner[q, g] < 0 and whole_pages(units, u, r.prefix[g]) > 0:
        k.owner[q, g] = i


@inlined
def give_prefix(units: Units, r: Requests, k: Queues, u: int, q: int, i: int) -> None:
    """What a request has computed of its group's prefix is the group's, once it is all of it."""
    g = r.group[i]
    if g >= 0 and k.owner[q, g] == i:
        tokens = whole_pages(units, u, r.prefix[g])
        if r.computed[i] >= tokens:
            r.held[i] -= bytes_of(units, u, tokens)
            r.shared[i] = tokens
            k.owner[q, g] = -1
            k.ready[q, g] = 1
            k.users[q, g] = 1


@inlined
def release(units: Units, r: Requests, k: Queues, t: Totals, u: int, q: int, i: int, held: int, shared: int) -> None:
    """Free what a request holds at a scheduler: its own bytes and its use of a prefix."""
    k.free[q] += held
    k.promised[q] -= promised(units, r, u, i)
    g = r.group[i]
    if g < 0:
        return
    if shared > 0:
        k.users[q, g] -= 1
        if k.users[q, g] == 0:
            k.idle[q] += bytes_of(units, u, whole_pages(units, u, r.prefix[g]))
            t.counts[TICK] += 1
            k.used[q, g] = t.counts[TICK]
    elif k.owner[q, g] == i:
        k.owner[q, g] = -1
