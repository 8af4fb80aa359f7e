"""A run of requests over machines that hold layers: who computes when, and when the last token is out.

All requests are there at the beginning, and alike. A request is admitted in its turn, over a path of machines that
each have room for its cache until it ends; the path is drawn by turns in proportion to the weights of links (smooth
weighted round robin), among machines from which the sink is reached over machines with room. Its prompt passes the
path once, and so does every token behind the first output, one after the other. A machine that is free takes a step:
what waits of tokens, in the order of arrival and no more than its share of the requests that it holds, and one
prompt. A link carries one thing after the other. Source of the rules: Helix (ASPLOS 2025), §5; pipelines of vLLM, for
a machine's share.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partita.engines.kernels.arrays import Bools, Floats, Longs, zeros
from partita.engines.kernels.compiled import allocating_nothing, inlined
from partita.engines.kernels.simulator.queues import Queue, empty_queue, put, take


class Placed(NamedTuple):
    """Machines M in an order in which tokens meet them, and links A between them, by the machine that they leave.

    Machine M is the source, as a target the sink. Those of machine i are the links ``first[i]`` to ``first[i + 1]``.
    """

    room: Longs  #: (M,) Requests whose cache a machine has room for.
    parts: Longs  #: (M,) Into how many steps its requests are cut: machines on the longest path over it.
    step_s: Floats  #: (M,) Seconds of a step without tokens, and of each token of a request more.
    token_s: Floats
    prompt_s: Floats  #: (M,) Seconds of a prompt, where it is no token like others.
    token_like: Bools  #: (M,) Whether it is.
    first: Longs
    target: Longs  #: (A,)
    weight: Floats
    width_s: Floats  #: (A,) Seconds that a token takes up of a link, and from one end to the other.
    latency_s: Floats


class Run(NamedTuple):
    """What happened, and the state of a run: requests under way by place R, lists of those that wait or are in a step.

    Lists 0 to 2 of a machine are of tokens that wait, of prompts that wait, and of what is in its step.
    """

    busy_s: Floats  #: (M,) Seconds in which a machine computed.
    steps: Longs  #: (M,) Its steps, and tokens and prompts in them.
    tokens: Longs
    held_s: Floats  #: (M,) Sum over requests of the seconds that it held their caches.
    totals: Floats  #: (3,) The end; sums over requests of seconds from admission to the first token and to the last.
    path: Longs  #: (R, M + 1) Links.
    length: Longs
    at: Longs  #: (R,) The link of its path that a request is on, or has come over.
    left: Longs  #: (R,) Tokens to come.
    since: Floats
    next: Longs
    unused: Longs  #: (R,) Places without a request.
    under_way: Longs  #: (M,) Requests whose cache a machine holds.
    head: Longs  #: (3, M) −1 for none.
    tail: Longs
    waiting: Longs  #: (M,) Tokens that wait.
    free: Bools
    touched: Bools
    reach: Bools  #: (M + 1,)
    turn: Floats  #: (A,) Of the round robin, and when a link is free again.
    link_free: Floats
    #: By the time of its end a machine's step, behind the machines by place who comes to the end of a link.
    events: Queue


def nothing_served(placed: Placed, requests: int) -> Run:
    """The state before the first of so many requests."""
    count, links = len(placed.room), len(placed.target)
    fed = placed.target[placed.first[count] : placed.first[count + 1]]
    places = min(requests, int(placed.room[fed].sum()))
    return zeros(
        Run,
        ("busy_s steps tokens held_s under_way waiting touched", count),
        ("totals", 3),
        ("path", (places, count + 1)),
        ("length at left since next", places),
        ("reach", count + 1),
        ("turn link_free", links),
        unused=np.arange(places)[::-1].copy(),
        head=np.full((3, count), -1, np.int64),
        tail=np.full((3, count), -1, np.int64),
        free=np.ones(count, np.bool_),
        events=empty_queue(np.zeros(count + places)),
    )


@inlined
def _append(r: Run, kind: int, i: int, place: int) -> None:
    r.next[place] = -1
    if r.head[kind, i] < 0:
        r.head[kind, i] = place
    else:
        r.next[r.tail[kind, i]] = place
    r.tail[kind, i] = place


@inlined
def _take(r: Run, kind: int, i: int) -> None:
    """Move the first of a list into the step."""
    place = r.head[kind, i]
    r.head[kind, i] = r.next[place]
    _append(r, 2, i, place)


@inlined
def _reached(p: Placed, r: Run) -> bool:
    """Mark the machines with room from which the sink is reached over such; whether it is from the source."""
    count = p.room.shape[0]
    for n in range(count, -1, -1):
        # The source comes last: it is before all others.
        i = n - 1 if n > 0 else count
        r.reach[i] = False
        if i == count or r.under_way[i] < p.room[i]:
            for a in range(p.first[i], p.first[i + 1]):
                if p.target[a] == count or r.reach[p.target[a]]:
                    r.reach[i] = True
                    break
    return bool(r.reach[count])


@inlined
def _in_turn(p: Placed, r: Run, i: int) -> int:
    """The link that is next in turn at a machine."""
    best, total, count = -1, 0.0, p.room.shape[0]
    for a in range(p.first[i], p.first[i + 1]):
        if p.target[a] == count or r.reach[p.target[a]]:
            r.turn[a] += p.weight[a]
            total += p.weight[a]
            if best < 0 or r.turn[a] > r.turn[best]:
                best = a
    r.turn[best] -= total
    return best


@inlined
def _send(p: Placed, r: Run, place: int, tokens: int, now: float) -> None:
    """Put a request on the next link of its path."""
    a = r.path[place, r.at[place]]
    r.link_free[a] = max(r.link_free[a], now) + tokens * p.width_s[a]
    put(r.events, p.room.shape[0] + place, r.link_free[a] + p.latency_s[a])


@inlined
def _admit(p: Placed, r: Run, place: int, output: int, now: float) -> None:
    """Draw a path for a request, with room for its cache on all machines of it."""
    r.since[place], r.left[place], r.at[place], r.length[place] = now, output, 0, 0
    count = p.room.shape[0]
    i = count
    while i < count or r.length[place] == 0:
        a = _in_turn(p, r, i)
        r.path[place, r.length[place]] = a
        r.length[place] += 1
        i = p.target[a]
        if i < count:
            r.under_way[i] += 1


@inlined
def _leave(p: Placed, r: Run, place: int, now: float) -> None:
    """Give back the caches of a request that has all its tokens."""
    r.totals[2] += now - r.since[place]
    for n in range(r.length[place] - 1):
        i = p.target[r.path[place, n]]
        r.under_way[i] -= 1
        r.held_s[i] += now - r.since[place]


@inlined
def _begin(p: Placed, r: Run, i: int, now: float) -> None:
    """Begin a step of a machine."""
    tokens = min(r.waiting[i], max(1, -(-r.under_way[i] // p.parts[i])))
    seconds = p.step_s[i] + tokens * p.token_s[i] if tokens else 0.0
    for _ in range(tokens):
        _take(r, 0, i)
    r.waiting[i] -= tokens
    r.tokens[i] += tokens
    if r.head[1, i] >= 0:
        _take(r, 1, i)
        seconds += p.prompt_s[i]
        r.tokens[i] += 1
    r.free[i] = False
    r.busy_s[i] += seconds
    r.steps[i] += 1
    put(r.events, i, now + seconds)


@allocating_nothing
def serve(p: Placed, requests: int, prompt: int, output: int, r: Run) -> None:
    """Run the requests: their prompts take up links with ``prompt`` tokens, and each has ``output`` tokens.

    It ends early where no request is ever admitted.
    """
    count = p.room.shape[0]
    spare, admitted, finished, now = r.unused.shape[0], 0, 0, 0.0
    while finished < requests:
        ended = now == 0.0
        while r.events.size[0] and r.events.key[r.events.members[0]] <= now:
            what = take(r.events)
            if what < count:
                r.free[what] = r.touched[what] = True
                place = r.head[2, what]
                r.head[2, what] = -1
                while place >= 0:
                    after = r.next[place]
                    r.at[place] += 1
                    _send(p, r, place, prompt if r.left[place] == output else 1, now)
                    place = after
                continue
            place = what - count
            i = p.target[r.path[place, r.at[place]]]
            if i < count:
                token = p.token_like[i] or r.left[place] < output
                r.touched[i] = True
                _append(r, 0 if token else 1, i, place)
                r.waiting[i] += 1 if token else 0
                continue
            if r.left[place] == output:
                r.totals[1] += now - r.since[place]
            r.left[place] -= 1
            r.at[place] = 0
            if r.left[place] > 0:
                _send(p, r, place, 1, now)
                continue
            _leave(p, r, place, now)
            r.unused[spare] = place
            spare += 1
            finished += 1
            ended = True
        while ended and admitted < requests and spare > 0 and _reached(p, r):
            spare -= 1
            place = int(r.unused[spare])
            _admit(p, r, place, output, now)
            _send(p, r, place, prompt, now)
            admitted += 1
        for i in range(count):
            if r.touched[i] and r.free[i] and (r.waiting[i] > 0 or r.head[1, i] >= 0):
                _begin(p, r, i, now)
            r.touched[i] = False
        if not r.events.size[0]:
            break
        now = max(now, r.events.key[r.events.members[0]])
    r.totals[0] = now
