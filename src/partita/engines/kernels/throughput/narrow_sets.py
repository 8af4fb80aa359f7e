"""The richest set of items that a device can hold, along an order of the items that few nets cross.

Between two items of an order, what matters of the items before them is, for each net with pins on both sides, whether
none of its pins so far is in the set, all are, or some (then its cost is paid). A set is a path through these states,
with a load (work and cut nets) and the charges it carries. At a price on the load, without a limit on it, the best path
takes one pass over the states. With a limit, paths are labels, and of two in the same state one that is neither lighter
nor richer goes. Passes from the end, at several prices, say what a label can still become: one that cannot become
richer than a known set goes, too.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partita.engines.kernels.arrays import Bools, Floats, Ints, Longs
from partita.engines.kernels.compiled import called, compiled

#: How many times its part of the room for outlooks a state may take.
UNEVEN = 4


class NarrowStates(NamedTuple):
    """The states along an order of n items, S in all; state 0 is before the first item, the last one after the last.

    ``ptr`` (n + 2,) where the states before each item begin; ``into`` (S, 2) the state after the next item was left out
    or taken, counted from the first one of its place; ``paid`` (S, 2) the cost of the nets that this cuts; ``from_ptr``
    (S + 1,) and ``from_state``, ``from_choice`` the same the other way round, the states by their numbers in all;
    ``work`` (n,) of the items in their order, huge but finite for items that cannot be taken; ``extra`` (S, 2) what a
    step adds to the charge of the set, besides the charge of an item that it takes.
    """

    ptr: Longs
    into: Ints
    paid: Floats
    from_ptr: Longs
    from_state: Ints
    from_choice: Ints
    work: Floats
    extra: Floats


@called
def _worth_ahead(a: NarrowStates, charge: Floats, price: float, ahead: Floats) -> None:
    """Fill ``ahead`` (S,): the most charge less price times load that the items after a state can add; n charges."""
    n = a.work.shape[0]
    ahead[a.ptr[n]] = 0.0
    for i in range(n - 1, -1, -1):
        taken = charge[i] - price * a.work[i]
        after = a.ptr[i + 1]
        for s in range(a.ptr[i], after):
            out = ahead[after + a.into[s, 0]] - price * a.paid[s, 0] + a.extra[s, 0]
            own = ahead[after + a.into[s, 1]] - price * a.paid[s, 1] + a.extra[s, 1] + taken
            ahead[s] = max(out, own)


@compiled
def worths_ahead(a: NarrowStates, charge: Floats, prices: Floats, ahead: Floats) -> None:
    """Fill ``ahead`` (P, S): at P prices, the most charge less price times load that the items after a state can add.

    All in one go: threads that share an interpreter wait for it after every call.
    """
    for p in range(prices.shape[0]):
        _worth_ahead(a, charge, prices[p], ahead[p])


@compiled
def worths_behind(a: NarrowStates, charge: Floats, prices: Floats, behind: Floats) -> None:
    """Fill ``behind`` (P, S): at P prices, the most charge less price times load of the items before a state."""
    n = a.work.shape[0]
    for p in range(prices.shape[0]):
        behind[p, 0] = 0.0
        for i in range(n):
            for t in range(a.ptr[i + 1], a.ptr[i + 2]):
                most = -np.inf
                for way in range(a.from_ptr[t], a.from_ptr[t + 1]):
                    s, choice = a.from_state[way], a.from_choice[way]
                    own = behind[p, s] - prices[p] * a.paid[s, choice] + a.extra[s, choice]
                    if choice == 1:
                        own += charge[i] - prices[p] * a.work[i]
                    most = max(most, own)
                behind[p, t] = most


@compiled
def best_path(a: NarrowStates, charge: Floats, price: float, ahead: Floats, chosen: Bools) -> tuple[float, float]:
    """Fill ``ahead`` (S,) at one price, and ``chosen`` (n,) with the set that this finds; its load and charge."""
    _worth_ahead(a, charge, price, ahead)
    s, load, carried = 0, 0.0, 0.0
    for i in range(a.work.shape[0]):
        after = a.ptr[i + 1]
        out = ahead[after + a.into[s, 0]] - price * a.paid[s, 0] + a.extra[s, 0]
        own = ahead[after + a.into[s, 1]] - price * a.paid[s, 1] + a.extra[s, 1] + charge[i] - price * a.work[i]
        choice = 1 if own > out else 0
        chosen[i] = choice == 1
        load += a.paid[s, choice]
        carried += a.extra[s, choice]
        if choice == 1:
            load += a.work[i]
            carried += charge[i]
        s = after + a.into[s, choice]
    return load, carried


class Outlooks(NamedTuple):
    """What the items after each of S states can still add at most: ``number`` (S,) steps, from ``begin`` (S,) on.

    Within ``load`` (L,), ascending for a state, ``charge`` (L,); a state has at most ``most`` (1,) steps. Steps that
    are close together are made one, with the load of the first and the charge of the last. Those that come to no more
    than a floor, whatever is before, are left out.
    """

    begin: Longs
    number: Ints
    load: Floats
    charge: Floats
    most: Ints


@compiled
def look_ahead(
    a: NarrowStates, charge: Floats, limit: float, floor: float, prices: Floats, behind: Floats, out: Outlooks
) -> float:
    """Fill outlooks within a limit on the load; the most charge of a set, if it is more than a floor, else 0.

    ``behind`` (P, S) is what ``worths_behind`` fills at P ``prices``.
    """
    n = a.work.shape[0]
    load, gain = np.empty(2 * out.most[0]), np.empty(2 * out.most[0])
    last = a.ptr[n]
    out.begin[last], out.number[last], out.load[0], out.charge[0] = 0, 1, 0.0, 0.0
    end = 1
    for i in range(n - 1, -1, -1):
        after = a.ptr[i + 1]
        for s in range(a.ptr[i], after):
            left, right = after + a.into[s, 0], after + a.into[s, 1]
            paid, taken = a.paid[s, 0], a.paid[s, 1] + a.work[i]
            at, to = out.begin[left], out.begin[right]
            left_end, right_end = at + out.number[left], to + out.number[right]
            count, richest = 0, -np.inf
            while at < left_end or to < right_end:
                one = out.load[at] + paid if at < left_end else np.inf
                two = out.load[to] + taken if to < right_end else np.inf
                if one <= two:
                    lighter, own = one, out.charge[at] + a.extra[s, 0]
                    at += 1
                else:
                    lighter, own = two, out.charge[to] + a.extra[s, 1] + charge[i]
                    to += 1
                if lighter > limit:
                    break
                if own > richest:
                    richest = own
                    hope = np.inf
                    for p in range(prices.shape[0]):
                        hope = min(hope, behind[p, s] + prices[p] * (limit - lighter))
                    if own + hope <= floor:
                        continue
                    if count == 0 or load[count - 1] < lighter:
                        count += 1
                    load[count - 1], gain[count - 1] = lighter, own
            # All states that are left, too, are to have room; many need less than others.
            room, others = out.load.shape[0] - end, a.ptr[i] + after - s - 1
            most = min(out.most[0], UNEVEN * (room // (others + 1)), room - others)
            kept, part = end, -1
            for label in range(count):
                own_part = (
                    label if count <= most else int((load[label] - load[0]) / (load[count - 1] - load[0]) * (most - 1))
                )
                if own_part != part:
                    part = own_part
                    out.load[kept] = load[label]
                    kept += 1
                out.charge[kept - 1] = gain[label]
            out.begin[s], out.number[s] = end, kept - end
            end = kept
    return out.charge[end - 1] if out.number[0] > 0 else 0.0


@called
def steps_within(out: Outlooks, state: int, load: float) -> int:
    """How many steps of a state's outlook lie within a load."""
    begin = out.begin[state]
    low, high = begin, begin + out.number[state]
    while low < high:
        middle = (low + high) // 2
        if out.load[middle] <= load:
            low = middle + 1
        else:
            high = middle
    return int(low - begin)


class LabelRoom(NamedTuple):
    """Room for labels: ``parent`` and ``taken`` (L,) of all; ``first`` (2, S' + 1), ``load`` and ``charge`` (2, L').

    S' is the most states and L' the most labels of one place; ``hope`` (L',) the most that a label can come to carry.
    """

    parent: Ints
    taken: Bools
    first: Longs
    load: Floats
    charge: Floats
    hope: Floats


@called
def _thinned(room: LabelRoom, row: int, begin: int, count: int, base: int, limit: float, most: int) -> int:
    """Keep of a state's labels, ``begin`` to ``count``, the most hopeful one of each of ``most`` parts of the limit."""
    kept, part, best = begin, -1, -np.inf
    for label in range(begin, count):
        own = min(most - 1, int(room.load[row, label] / limit * most))
        if own != part:
            part, best, kept = own, -np.inf, kept + 1
        if room.hope[label] > best:
            best = room.hope[label]
            room.load[row, kept - 1], room.charge[row, kept - 1] = room.load[row, label], room.charge[row, label]
            room.parent[base + kept - 1] = room.parent[base + label]
            room.taken[base + kept - 1] = room.taken[base + label]
    return kept


@compiled
def richest_labels(
    a: NarrowStates,
    charge: Floats,
    limit: float,
    floor: float,
    prices: Floats,
    ahead: Floats,
    out: Outlooks,
    room: LabelRoom,
    places: tuple[int, int],
    begin: int,
    end: int,
    most: int,
) -> tuple[int, int]:
    """Lead labels past the items from the first of two ``places`` up to the second; where the new ones begin and end.

    They stand for all sets of load at most ``limit`` that may carry more than ``floor``, or for some of them: a state
    keeps ``most`` labels, those of each part of the limit that may become richest. ``ahead`` (P, S) is what
    ``worths_ahead`` fills at P ``prices``, ``out`` what ``look_ahead`` does. Labels at place i are in row i % 2 of
    ``room.load`` and ``room.charge``, lighter and poorer ones of a state first. The end is -1 where the room is too
    small.
    """
    kinds = prices.shape[0]
    # Sums of the same numbers in another order may differ.
    spare = limit * (1.0 + 1e-12)
    if places[0] == 0:
        room.first[0, 0], room.first[0, 1] = 0, 1
        room.load[0, 0], room.charge[0, 0] = 0.0, 0.0
        room.parent[0] = -1
        begin, end = 0, 1
    heads, ends, shifts = np.zeros(64, np.int64), np.zeros(64, np.int64), np.zeros((64, 2))
    for i in range(places[0], places[1]):
        here, there = i % 2, (i + 1) % 2
        start, after, behind = a.ptr[i], a.ptr[i + 1], a.ptr[i + 2]
        count = 0
        for t in range(after, behind):
            room.first[there, t - after] = count
            ways = a.from_ptr[t + 1] - a.from_ptr[t]
            if ways > heads.shape[0]:
                heads, ends, shifts = np.zeros(ways, np.int64), np.zeros(ways, np.int64), np.zeros((ways, 2))
            for w in range(ways):
                s, choice = a.from_state[a.from_ptr[t] + w], a.from_choice[a.from_ptr[t] + w]
                heads[w], ends[w] = room.first[here, s - start], room.first[here, s - start + 1]
                shifts[w, 0] = a.paid[s, choice] + (a.work[i] if choice == 1 else 0.0)
                shifts[w, 1] = a.extra[s, choice] + (charge[i] if choice == 1 else 0.0)
            richest, step = -np.inf, out.number[t]
            while True:
                # The lightest label that is left of all that lead here; of equal ones the richest.
                way, load, carried = -1, np.inf, 0.0
                for w in range(ways):
                    if heads[w] < ends[w]:
                        one = room.load[here, heads[w]] + shifts[w, 0]
                        own = room.charge[here, heads[w]] + shifts[w, 1]
                        if one < load or (one == load and own > carried):
                            way, load, carried = w, one, own
                if way < 0 or load > limit:
                    break
                origin = heads[way]
                heads[way] += 1
                if carried <= richest:
                    continue
                # Labels get heavier, and their outlook shorter.
                while step > 0 and out.load[out.begin[t] + step - 1] > spare - load:
                    step -= 1
                if step == 0:
                    break
                hope = out.charge[out.begin[t] + step - 1]
                for p in range(kinds):
                    hope = min(hope, ahead[p, t] + prices[p] * (limit - load))
                if carried + hope <= floor:
                    continue
                if count == room.load.shape[1] or end + count == room.parent.shape[0]:
                    return 0, -1
                richest = carried
                room.load[there, count], room.charge[there, count] = load, carried
                room.parent[end + count] = begin + origin
                room.taken[end + count] = a.from_choice[a.from_ptr[t] + way] == 1
                room.hope[count] = carried + hope
                count += 1
            own = room.first[there, t - after]
            if count - own > most:
                count = _thinned(room, there, own, count, end, limit, most)
        room.first[there, behind - after] = count
        begin, end = end, end + count
        if count == 0:
            break
    return begin, end


@compiled
def set_of_label(room: LabelRoom, label: int, chosen: Bools) -> None:
    """Fill ``chosen`` (n,) with the set of one of the last labels, a number among all."""
    for i in range(chosen.shape[0] - 1, -1, -1):
        chosen[i] = room.taken[label]
        label = room.parent[label]
