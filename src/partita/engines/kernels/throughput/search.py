"""Is there an acyclic split within given limits?  Breadth-first search over downsets, one stage per step.

A state is a pair (downset, devices used); the stages that may follow a downset are enumerated by deciding, in a fixed
order, for every ready item whether it joins the stage or stays outside together with all that depends on it. Source of
the plain dynamic program: Tarnawski et al., NeurIPS 2020, §5.1.1.

This is what all searches share. What a stage costs and when it is dropped are steps, compiled into a search of its own
for plain problems (``plain_search``) and for variants (``variant_search``): the plain one knows rules that hold for it
alone and keeps a few numbers in registers instead of arrays of lines.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from partita.engines.kernels.compiled import inlined
from partita.engines.kernels.rows import successors
from partita.engines.kernels.throughput import decisions
from partita.engines.kernels.throughput import search_state as at
from partita.engines.kernels.throughput.downsets import clear, is_known_better, move_to
from partita.engines.kernels.throughput.search_state import DownsetSearch, StageTrial, StateStore


class StageSteps(NamedTuple):
    """What tells one search from another; first come the search and what ``start`` returned."""

    crosses: Callable[..., bool]  #: (search) whether the group filled first can end at the current downset.
    #: (search, stage) what a stage after the current downset can hold, and the numbers of the empty one at depth 0. The
    #: tuple has the ``stage``; how many items are ``ready`` and ``reached`` in ``Scratch.reach``; the words below
    #: ``top`` hold them all; and whether any stage is ``possible``.
    start: Callable[..., Any]
    #: (…, item, depth) the numbers with the item at the next depth; whether the stage may be kept. If so, the item's
    #: pins are counted.
    include: Callable[..., bool]
    #: (…, item, depth) start the numbers of the next depth; whether a stage without the item may be kept.
    worth_excluding: Callable[..., bool]
    leave: Callable[..., None]  #: (…, item, depth) add what an item that stays outside changes.
    fits: Callable[..., bool]  #: (…, depth) whether the stage may be kept after items left.
    feasible: Callable[..., bool]  #: (…, depth) whether a finished stage respects the limits, and what remains can too.
    #: (…, depth, count) whether no ready item of so many decisions can join a finished stage; see rule *Dominance*.
    worth_keeping: Callable[..., bool]


@inlined
def _leave_out(c: DownsetSearch[Any], steps: StageSteps, g: Any, v: int, depth: int, mark_len: int) -> int:
    """Leave v out with all that depends on it; how many items are marked now."""
    a, x = c.arrays, c.scratch
    i = mark_len
    x.marks[mark_len] = v
    mark_len += 1
    while i < mark_len:
        u = x.marks[i]
        i += 1
        steps.leave(c, g, u, depth)
        for follower in successors(a.graph, u):
            if x.status[follower] == decisions.OPEN:
                x.status[follower] = decisions.LISTED
                x.marks[mark_len] = follower
                mark_len += 1
    return mark_len


@inlined
def _expand(c: DownsetSearch[Any], steps: StageSteps, stage: StageTrial, code: np.uint64) -> int:
    """Emit every stage worth keeping after the current downset, of hash ``code``; an answer if that ends early."""
    a, s, x, until = c.arrays, c.store, c.scratch, c.until
    g = steps.start(c, stage)
    items_left = x.in_downset.shape[0] - x.places[at.INSIDE]
    # Steps would be compiled for a plain 0 first, and for numbers then.
    zero: int = np.int64(0)  # type: ignore[assignment]
    queue_len, mark_len, depth, here = g.ready, zero, zero, zero
    for i in range(g.ready):
        x.queue[i] = x.reach[i]
    outcome, nodes = at.REFUTED, s.counters[at.NODES]
    down = g.possible  # whether the item at this depth is new, or its inclusion has just been explored
    while True:
        nodes += 1
        if (nodes & 1023) == 0 and (until.stop[0] != 0 or until.halt[0] != 0 or nodes >= until.node_limit):
            outcome = at.LIMIT if until.stop[0] == 0 and until.halt[0] == 0 else at.STOPPED
            break
        if down and depth == queue_len:
            # Everything is decided.
            if here > 0 and steps.feasible(c, g, depth):
                if here == items_left:
                    s.counters[at.LAST_PARENT], s.counters[at.LAST_KIND] = stage.state, stage.kind
                    s.counters[at.LAST_REPLICAS] = stage.replicas
                    outcome = at.FOUND
                    break
                keep = steps.worth_keeping(c, g, depth, queue_len)
                if keep and not decisions.keep_state(s, x, c.codes, stage, g.top, code):
                    outcome = at.GROW
                    break
            down = False
        if not down:
            # Go back to the last decision; an inclusion turns into an exclusion.
            if depth == 0:
                break
            depth -= 1
            v = x.queue[depth]
            if x.decision[depth] == 0:
                decisions.return_items(a, x, x.mark_end[depth], mark_len)
                mark_len = x.mark_end[depth]
                continue
            decisions.take_item_back(a, x, v)
            code ^= x.zobrist[v]
            here -= 1
            queue_len = x.queue_end[depth]
        else:
            v = x.queue[depth]
            if steps.include(c, g, v, depth):
                queue_len = decisions.add_item(a, x, v, depth, queue_len)
                code ^= x.zobrist[v]
                here += 1
                depth += 1
                continue
        # Exclude v with all that depends on it; often v by itself already rules that out.
        x.decision[depth] = 0
        x.mark_end[depth] = mark_len
        down = steps.worth_excluding(c, g, v, depth)
        depth += 1
        if down:
            mark_len = _leave_out(c, steps, g, v, depth, mark_len)
            down = steps.fits(c, g, depth)
    s.counters[at.NODES] = nodes
    if outcome == at.REFUTED:
        for i in range(g.reached):
            x.status[x.reach[i]] = decisions.AWAY
    else:
        s.counters[at.VALID] = 0
    return outcome


@inlined
def _next_state(s: StateStore, devices: int) -> int:
    """The state to expand: the one begun, or the next of those with fewest devices in use; -1 if none is left."""
    level = s.counters[at.LEVEL]
    if s.counters[at.CURSOR] >= 0:
        return int(s.counters[at.CURSOR])
    if s.heads.shape[0] == 0:
        taken = s.counters[at.TAKEN]
        if taken == s.counters[at.LEVEL_END]:
            level += 1
            s.counters[at.LEVEL] = level
            if s.counters[at.STATES] == taken or level >= devices:
                return -1
            s.counters[at.LEVEL_END] = s.counters[at.STATES]
        s.counters[at.CURSOR] = taken
        s.counters[at.TAKEN] = taken + 1
    else:
        while level < s.heads.shape[0] and s.heads[level] < 0:
            level += 1
        s.counters[at.LEVEL] = level
        if level < s.heads.shape[0]:
            s.counters[at.CURSOR] = s.heads[level]
            s.heads[level] = s.state_next[s.heads[level]]
    return int(s.counters[at.CURSOR])


@inlined
def search_downsets(c: DownsetSearch[Any], steps: StageSteps) -> int:
    """Continue a search; start with an empty store: one state at level 0, downset 0, the empty one.

    Returns FOUND (``LAST_*`` give the final stage), REFUTED, GROW (enlarge the store and call again), LIMIT (nodes used
    up; call again to continue) or STOPPED.
    """
    a, s, x, codes, remaining = c.arrays, c.store, c.scratch, c.codes, c.scratch.remaining
    kinds, devices = a.work.shape[0], int(a.devices.sum())
    if s.counters[at.VALID] == 0:
        clear(a, c.tally, x)
        s.counters[at.VALID], s.counters[at.HELD] = 1, -1
    while True:
        state = _next_state(s, devices)
        if state < 0:
            return at.REFUTED
        downset, code = s.state_downset[state], s.state_code[state]
        used = s.counters[at.LEVEL] - codes.digit_sum[code]
        if is_known_better(s, codes, state, used):
            s.counters[at.CURSOR] = -1
            continue
        move_to(a, c.tally, s, x, downset)
        phase = codes.phases[code]
        crosses = phase == 0 and steps.crosses(c)
        for kind in range(kinds):
            if c.phase[kind] != phase and not crosses:
                continue
            for replicas in range(1, c.replicas[kind] + 1):
                rest = 0
                for k in range(kinds):
                    remaining[k] = a.devices[k] - (used if k == 0 else codes.digits[code, k])
                    if k == kind:
                        remaining[k] -= replicas
                    elif c.phase[k] < c.phase[kind]:
                        remaining[k] = 0
                    rest += remaining[k] * c.weights.radix[k]
                if remaining[kind] < 0:
                    break
                code_after = code + replicas * codes.stride[kind]
                used_after = used + (replicas if kind == 0 else 0)
                stage = StageTrial(state, kind, replicas, code_after, used_after, rest)
                outcome = _expand(c, steps, stage, s.downset_hash[downset])
                if outcome != at.REFUTED:
                    return outcome
        s.counters[at.CURSOR] = -1
