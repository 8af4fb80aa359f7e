"""The richest set that a device can hold, exactly, for problems whose nets are crossed a few at a time.

Graphs of networks are long and thin: there is an order of the items in which only a handful of nets have pins on both
sides of any place (2 to 8 in the published workloads, forward and backward operators together). Along it, the most
charge that a set within a load can carry is a shortest path with one resource; see ``kernels.throughput.narrow_sets``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from partita.engines.kernels.arrays import Bools, Floats, Ints
from partita.engines.kernels.graph_arrays import Sets
from partita.engines.kernels.throughput.free_splits import FreeArrays
from partita.engines.kernels.throughput.narrow_sets import (
    LabelRoom,
    NarrowStates,
    Outlooks,
    best_path,
    look_ahead,
    richest_labels,
    set_of_label,
    worths_ahead,
    worths_behind,
)
from partita.engines.kernels.throughput.set_lists import PathRoom, list_paths, sets_of_paths
from partita.ground.rounding import SUMMED, SUMMED_FEW, raised, up_to

#: The load of an item that cannot run.
NEVER = 1e30
#: Nets that may cross a place, and states of one place and of all.
WIDEST = 16
MOST_STATES = 20_000
ALL_STATES = 400_000
#: Labels of one search, and of one place of it.
MOST_LABELS = 6_000_000
PLACE_LABELS = 1_000_000
#: Places that labels are led past between two looks at the stop button.
PLACES = 8
#: Steps of the outlook from one state, and from all.
FEWEST_STEPS, MOST_STEPS, ALL_STEPS = 10, 3000, 10_000_000
#: The same where all sets are listed: exact outlooks leave only paths that lead to sets.
MOST_LISTED, ALL_LISTED = 8000, 12_000_000
#: Prices at which labels are judged, as multiples of the best one.
PRICES = (0.6, 0.85, 0.93, 0.98, 1.0, 1.02, 1.08, 1.2, 1.7)
#: How far below what the best price allows labels are looked for, as shares of the way to the floor.
SHARES = (0.15, 0.4, 1.0)
#: Labels that a state keeps in a search that proves nothing.
FEW_LABELS = 60
#: The share above the floor up to which all labels are looked at, unasked.
CHEAP = 0.05
#: Sets that one search hands back.
SETS = 12


def order_of(arrays: FreeArrays) -> Ints | None:
    """An order of all items that few of the nets that anybody pays for cross; None if it gets too wide."""
    kept = (arrays.net_cost > 0).any(axis=1) & (np.diff(arrays.net.ptr) > 1)
    return narrow_order(arrays.net, arrays.work.shape[0], kept)


def narrow_order(net: Sets, items: int, kept: Bools) -> Ints | None:
    """An order of the items that few of the ``kept`` (m,) nets cross, greedily; None if it gets too wide.

    The next item is one that opens fewest and closes most nets, of those the one whose net is open longest.
    """
    best: tuple[int, Ints] | None = None
    for first in sorted({0, items - 1, items // 2}):
        found = _order_from(first, net, items, kept, WIDEST if best is None else best[0] - 1)
        if found is not None:
            best = found
    return None if best is None else best[1]


def _order_from(first: int, net: Sets, items: int, kept: Bools, widest: int) -> tuple[int, Ints] | None:
    """The order that begins with an item, and how many nets cross it at most; None if more than ``widest`` do."""
    left = np.diff(net.ptr).tolist()
    size, opened = list(left), [-1] * len(left)
    nets = [[e for e in net.holding(v).tolist() if kept[e]] for v in range(items)]
    done, near = [False] * items, {first}
    order: list[int] = []
    width = most = unseen = 0

    def key(v: int) -> tuple[int, int, int]:
        change, oldest = 0, items
        for e in nets[v]:
            if left[e] == size[e]:
                change += 1
            else:
                oldest = min(oldest, opened[e])
            change -= left[e] == 1
        return change, oldest, v

    while len(order) < items:
        while not near:
            if not done[unseen]:
                near = {unseen}
            unseen += 1
        chosen = min(map(key, near))
        v = chosen[2]
        near.discard(v)
        done[v] = True
        for e in nets[v]:
            if left[e] == size[e]:
                opened[e] = len(order)
            left[e] -= 1
            near.update(u for u in net.members(e).tolist() if not done[u])
        order.append(v)
        width += chosen[0]
        most = max(most, width)
        if most > widest:
            return None
    return most, np.array(order, dtype=np.int32)


def narrow_states(arrays: FreeArrays, kind: int, order: Ints, other: int | None = None) -> NarrowStates | None:
    """The states along an order for devices of a kind; None if there are too many.

    With an ``other`` kind, a device of that kind has the items of the order that are not in the set, and ``extra`` is
    less what it pays for transfers; items that are not in the order are on further devices.
    """
    net, n = arrays.net, len(order)
    size = np.zeros(len(net.ptr) - 1, dtype=np.int64)
    for v in order.tolist():
        size[net.holding(v)] += 1
    outside = np.diff(net.ptr) > size
    seen = np.zeros(len(size), dtype=np.int64)
    digit: dict[int, int] = {}
    free: list[int] = []
    codes = np.zeros(1, dtype=np.int64)
    ptr, into, paid, extra = [0, 1], [], [], []
    for v in order:
        after = [codes, codes.copy()]
        cost, gain = np.zeros((2, len(codes))), np.zeros((2, len(codes)))
        closed: list[int] = []
        for e in net.holding(int(v)).tolist():
            price = float(arrays.net_cost[e, kind])
            beside = 0.0 if other is None else float(arrays.net_cost[e, other])
            if max(price, beside) <= 0 or size[e] + outside[e] < 2:
                continue
            if e not in digit:
                digit[e] = free.pop() if free else len(digit) + len(closed)
            unit = 3 ** digit[e]
            before = codes // unit % 3
            for choice in (0, 1):
                # 0: none of the pins so far, 1: all, 2: some, and so paid for.
                now = np.full(len(codes), choice) if seen[e] == 0 else np.where(before == choice, before, 2)
                cut = (now == 2) & (before != 2)
                if not outside[e]:
                    cost[choice] += price * cut
                    gain[choice] -= beside * cut
                elif choice == 1:
                    cost[1] += price * (cut | (seen[e] == 0))
                else:
                    gain[0] -= beside * (cut | (seen[e] == 0))
                after[choice] = after[choice] + unit * (now - before)
                if seen[e] == size[e] - 1:
                    after[choice] = after[choice] - unit * now
            seen[e] += 1
            if seen[e] == size[e]:
                closed.append(digit.pop(e))
        # Only the next item may write digits anew that this one reads.
        free += closed
        new, number = np.unique(np.concatenate(after), return_inverse=True)
        into.append(np.stack([number[: len(codes)], number[len(codes) :]], axis=1))
        paid.append(cost.T)
        extra.append(gain.T)
        codes = new
        ptr.append(ptr[-1] + len(codes))
        if len(codes) > MOST_STATES or ptr[-1] > ALL_STATES:
            return None
    into.append(np.zeros((1, 2), dtype=np.int64))
    paid.append(np.zeros((1, 2)))
    extra.append(np.zeros((1, 2)))
    starts, steps, costs = np.array(ptr, dtype=np.int64), np.concatenate(into), np.concatenate(paid)
    of_place = np.repeat(np.arange(n + 1), np.diff(starts))
    earlier = starts[n]
    leads = (steps[:earlier] + starts[of_place[:earlier] + 1][:, None]).ravel()
    way = np.argsort(leads, kind="stable")
    return NarrowStates(
        ptr=starts,
        into=steps.astype(np.int32),
        paid=costs,
        from_ptr=np.searchsorted(leads[way], np.arange(starts[-1] + 1)).astype(np.int64),
        from_state=(way // 2).astype(np.int32),
        from_choice=(way % 2).astype(np.int32),
        work=np.nan_to_num(arrays.work[order, kind], posinf=NEVER),
        extra=np.concatenate(extra),
    )


def label_room(labels: int, states: int, at_place: int) -> LabelRoom:
    """Room for so many labels, of at most so many states and labels of one place."""
    return LabelRoom(
        parent=np.empty(labels, dtype=np.int32),
        taken=np.empty(labels, dtype=bool),
        first=np.zeros((2, states + 1), dtype=np.int64),
        load=np.empty((2, at_place)),
        charge=np.empty((2, at_place)),
        hope=np.empty(at_place),
    )


def outlook_room(states: int, most: int, every: int) -> Outlooks:
    """Room for outlooks from so many states, of at most so many steps each and in all."""
    return Outlooks(
        begin=np.zeros(states, dtype=np.int64),
        number=np.zeros(states, dtype=np.int32),
        load=np.empty(max(every, FEWEST_STEPS * states)),
        charge=np.empty(max(every, FEWEST_STEPS * states)),
        most=np.array([most], dtype=np.int32),
    )


def path_room(paths: int, at_place: int) -> PathRoom:
    """Room for so many paths, and of one place."""
    return PathRoom(
        parent=np.empty(paths, dtype=np.int32),
        taken=np.empty(paths, dtype=bool),
        state=np.empty((2, at_place), dtype=np.int32),
        load=np.empty((2, at_place)),
        charge=np.empty((2, at_place)),
    )


class Richest(NamedTuple):
    """No set within the load carries more than ``most``; ``sets`` (r, n) found within it, and their ``loads``."""

    most: float
    sets: list[Bools]
    loads: list[float]


class LabelSearch(NamedTuple):
    """What ``richest_labels`` reads, apart from the states; charges in their order."""

    charge: Floats
    limit: float
    floor: float
    prices: Floats
    ahead: Floats
    out: Outlooks
    room: LabelRoom


class Hopes(NamedTuple):
    """What items are worth at P ``prices`` on load: those ``ahead`` (P, S) of S states, and ``behind`` (P, S) them."""

    prices: Floats
    ahead: Floats
    behind: Floats


class NarrowSets:
    """Finds richest sets for devices of one kind along an order; memory is not looked at."""

    def __init__(self, states: NarrowStates, order: Ints, stop: Callable[[], bool]) -> None:
        self.states, self.order, self.stop = states, order, stop
        self.room = label_room(MOST_LABELS, int(np.diff(states.ptr).max()), PLACE_LABELS)
        self.outlooks = outlook_room(int(states.ptr[-1]), MOST_STEPS, ALL_STEPS)
        #: Searches with labels, and those whose labels were too many.
        self.searches = self.too_many = 0

    def richest(self, charge: Floats, target: float, floor: float, *, exact: bool) -> Richest:
        """The most charge of a set of load at most ``target``, if it is more than ``floor``; (n,) charges.

        Unless asked to be ``exact``, and where labels are too many even so, ``most`` is what is known of all sets:
        valid, but perhaps no set carries it.
        """
        a, limit = self.states, up_to(target)
        # What is too long for any set within the limit is in none.
        own = np.where(a.work <= limit, charge[self.order], 0.0)
        slack = SUMMED_FEW * float(own.sum())
        found = Richest(0.0, [], [])
        price, most = self._price(own, limit, found)
        floor = max([floor, *(float(own[items[self.order]].sum()) for items in found.sets)])
        if most <= floor + slack:
            return found._replace(most=raised(max(most, floor)))
        hopes = self._hopes(own, price)
        # Steps and labels are few near what the best price allows, and where that is too much, nothing is there.
        for share in SHARES:
            if self.stop():
                break
            least = most - share * (most - floor)
            search, ahead = self._search(own, limit, least - slack, hopes, self.outlooks)
            if ahead <= least - slack:
                most = least
                continue
            most = min(most, ahead + slack)
            floor = max(floor, self._searched(search, found, FEW_LABELS) or 0.0)
            if most <= floor + slack or not (exact or most <= floor * (1 + CHEAP)):
                break
            richest = self._searched(search._replace(floor=max(least, floor) - slack), found, PLACE_LABELS)
            if richest is None:
                break
            most = max(least, floor)
            if richest > 0 or share == 1.0:
                most = max(floor, richest) + slack
                break
        return found._replace(most=raised(max(most, floor)))

    def _hopes(self, charge: Floats, price: float) -> Hopes:
        """Prices on load around the best one, and what the items after and before each state are worth at them."""
        prices = price * np.array(PRICES)
        ahead, behind = np.empty((2, len(prices), int(self.states.ptr[-1])))
        worths_ahead(self.states, charge, prices, ahead)
        worths_behind(self.states, charge, prices, behind)
        return Hopes(prices, ahead, behind)

    def _search(
        self, charge: Floats, limit: float, floor: float, hopes: Hopes, room: Outlooks
    ) -> tuple[LabelSearch, float]:
        """What is looked for above a floor, and the most that a set carries; 0 if none carries more than that."""
        prices, ahead, behind = hopes
        most = look_ahead(self.states, charge, raised(limit), floor, prices, behind, room)
        return LabelSearch(charge, limit, floor, prices, ahead, room, self.room), most

    def listed(self, charge: Floats, target: float, floor: float, room: PathRoom) -> tuple[Bools, Floats] | None:
        """(r, n) every set of load at most ``target`` that carries at least ``floor``, and loads; None if too many.

        There may be sets that carry a little less. None, too, where the run is stopped.
        """
        a, limit, n = self.states, up_to(target), len(self.order)
        own = np.where(a.work <= limit, charge[self.order], 0.0)
        floor -= SUMMED_FEW * float(own.sum())
        price, _ = self._price(own, limit, Richest(0.0, [], []))
        outlooks = outlook_room(int(a.ptr[-1]), MOST_LISTED, ALL_LISTED)
        search, _ = self._search(own, limit, floor, self._hopes(own, price), outlooks)
        begin, end = 0, 1
        for place in range(0, n, PLACES):
            places = place, min(place + PLACES, n)
            begin, end = list_paths(a, *search[:-1], room, places, begin, end)
            if end < 0 or self.stop():
                return None
            if end == begin:
                break
        chosen, found = np.empty((end - begin, n), dtype=bool), np.empty((end - begin, n), dtype=bool)
        sets_of_paths(room, begin, end, chosen)
        found[:, self.order] = chosen
        return found, room.load[n % 2, : end - begin].copy()

    def _searched(self, search: LabelSearch, found: Richest, most: int) -> float | None:
        """The most charge of the sets that a search finds, which go to ``found``, or 0; None if labels are too many."""
        room, n, begin, end = self.room, len(search.charge), 0, 1
        self.searches += 1
        # Few labels are soon past all items; between calls other threads take their turn.
        places = PLACES if most > FEW_LABELS else n
        for place in range(0, n, places):
            if self.stop():
                return None
            begin, end = richest_labels(self.states, *search, (place, min(place + places, n)), begin, end, most)
            if end < 0:
                self.too_many += 1
                return None
            if end == begin:
                return 0.0
        number, side = end - begin, n % 2
        chosen = np.zeros(n, dtype=bool)
        for label in np.unique(np.linspace(number - 1, 0, min(number, SETS)).astype(np.int64)).tolist():
            set_of_label(room, begin + label, chosen)
            self._keep(found, chosen, float(room.load[side, label]))
        return float(room.charge[side, number - 1])

    def _price(self, charge: Floats, limit: float, found: Richest) -> tuple[float, float]:
        """The price on load that bounds the charge within a limit best, and the bound; sets within it go to ``found``.

        The bound is convex in the price, a line for each set: the next price is where the lines of a set within the
        limit and of one above it meet.
        """
        a = self.states
        ahead, chosen = np.empty(int(a.ptr[-1])), np.zeros(len(charge), dtype=bool)
        above: tuple[float, float] | None = None
        within = (0.0, 0.0)
        price, best, bound = 0.0, 0.0, math.inf
        for _ in range(60):
            load, carried = best_path(a, charge, price, ahead, chosen)
            value = float(ahead[0]) + price * limit
            if value < bound:
                bound, best = value, price
            if load <= limit:
                within = (load, carried)
                self._keep(found, chosen, load)
            else:
                above = (load, carried)
            if above is None or self.stop():
                break
            following = max(0.0, above[1] - within[1]) / (above[0] - within[0])
            if abs(following - price) <= SUMMED * price:
                break
            price = following
        return best, bound + SUMMED_FEW * (float(charge.sum()) + best * limit)

    def _keep(self, found: Richest, chosen: Bools, load: float) -> None:
        items = np.zeros(len(chosen), dtype=bool)
        items[self.order] = chosen
        found.sets.append(items)
        found.loads.append(load)
