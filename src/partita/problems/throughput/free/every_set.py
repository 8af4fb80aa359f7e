"""Proofs by all sets that a better split may be made of.

Charges that do not refute a target say still which sets matter: if devices can hold at most so much of all charges, and
all charges are by s less than that, each device of a split within the target holds at most s less than it can, and all
of them together do. Where such sets are few, they are all listed, and one is looked for for each device: there is a
split within the target, or there is none. Source: Baldacci, Christofides and Mingozzi, *An exact algorithm for the
vehicle routing problem based on the set partitioning formulation*, 2008 (all routes within the gap).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple

import numpy as np

from partita.engines.kernels.arrays import Bools, Floats, Ints, bit_rows
from partita.engines.kernels.exact_cover import CoverSearch, CoverSets, search_cover
from partita.ground.rounding import GAP, SUMMED_FEW, clearly_below, up_to
from partita.problems.throughput.free.narrow import NarrowSets, path_room
from partita.problems.throughput.free.narrow_covering import NarrowCovering
from partita.problems.throughput.free.program import knapsack_price

#: Sets that are looked through, at most; paths of one place and of all while they are listed.
MOST_SETS, PLACE_PATHS, MOST_PATHS = 200_000, 400_000, 30_000_000
#: By how many times the sets the lists of all depths of the search may be more.
ROOM = 12
#: Steps of the search between two looks at the stop button, of one target, and where some sets are left out.
STEPS, MOST_STEPS, FEW_STEPS = 20_000, 4_000_000, 400_000
#: Targets that come to nothing before the run ends; how much farther targets are than those that seem right, as what
#: is lacking grows slowly at first: the next one, and the best value.
PATIENCE, FARTHER, FARTHEST = 6, 1.0, 2.0
#: Parts of what charges lack for which sets are listed in turn, while they seem to be few enough, and the part below.
PARTS, LEAST_PART = (1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0), 1 / 64
#: How many times as far lists are tried as sets seem to be few enough.
HOPE = 1.0
#: By which part more than the best charges those lack that are near enough, and that are to tell the next target.
SPARE, ROUGH = 0.2, 1.0
#: How far known sets are believed in what the best charges lack.
CREDIT = 0.25
#: Which part of what can be listed charges may lack.
ENOUGH = 0.9
#: Sets of a list, those that lack least, that charges for the next target are to know.
TAUGHT = 1000


class TargetFound(Enum):
    """What became of a target."""

    REFUTED = "no split is within it"
    SPLIT = "a better split is"
    HARD = "sets are too many, or it took too long"


class Remainder(NamedTuple):
    """What a device without transfers holds at ``most``: items take ``time`` (n,), within a ``limit``.

    Of the most it lacks what an item ``costs`` (n,) there, and what one ``gains`` (n,) that is elsewhere.
    """

    most: float
    time: Floats
    limit: float
    costs: Floats
    gains: Floats


class ListedSets(NamedTuple):
    """Sets that matter: (N, n) items, (N,) loads, kinds, and what each lacks; all together lack at most ``room``.

    A device of kind k without a set lacks ``empty[k]``. They are ``every`` such set, or those that lack least; with a
    ``part`` of the room they would be as many as may be.
    """

    items: Bools
    load: Floats
    kind: Ints
    lacks: Floats
    room: float
    empty: Floats
    part: float
    every: bool
    beside: Remainder

    def within(self, target: float) -> ListedSets:
        """Those within a lower target, for which what is lacking is no less."""
        kept, beside = self.load <= up_to(target), self.beside._replace(limit=up_to(target))
        return self._replace(
            items=self.items[kept], load=self.load[kept], kind=self.kind[kept], lacks=self.lacks[kept], beside=beside
        )


class EverySet:
    """Raises the bound, or finds better splits, by the sets that ``charges`` leave."""

    def __init__(self, charges: NarrowCovering, stop: Callable[[], bool]) -> None:
        self.charges, self.best, self.stop = charges, charges.best, stop
        arrays, columns = self.best.free.arrays, charges.columns
        #: The device that pays for no transfers, and has what no set has; none where it is -1.
        self.last = int(np.flatnonzero(np.isin(arrays.kind_of, columns.knapsacks)).max(initial=-1))
        self.supported = sum(columns.number[kind] for kind in columns.knapsacks) <= 1
        self.listed = 0  #: Sets of all targets.
        #: About the lowest target that charges cannot refute, and one for which sets are as many as can be listed.
        self.lowest, self.following = 0.0, math.inf
        #: How much all may lack for sets to be about as many as can be listed, 0 if that is not known.
        self.listable = 0.0
        #: Up to here the best value is the next target, whatever follows.
        self.farthest = math.inf

    def run(self) -> None:
        """Targets up to the best value, of which the last is as far off as sets can be listed, until the gap closes."""
        hard, failed, best = 0, math.inf, self.best
        self.following = math.inf
        while self.supported and not self.stop() and not best.closed and hard < PATIENCE:
            top = best.value * (1 - 2 * GAP)
            target = min(top, self.following) if self.following > best.bound else 0.5 * (best.bound + top)
            if top < min(failed, self.farthest):
                target = top
            self.following = 0.5 * (target + top)
            if self.tried(target) is TargetFound.HARD:
                hard, failed = hard + 1, min(failed, target)

    def tried(self, target: float) -> TargetFound:
        """Look for splits within a target, each better than the last, or prove that there is none."""
        # Where charges first cannot refute a target, they only have to tell which one is next.
        charge = self.charges.nearest(target, SPARE if self.lowest > 0 else ROUGH, ENOUGH * self.listable)
        if charge is None:
            if self.best.bound < clearly_below(target):
                return TargetFound.HARD
            self.lowest = target
            if self.listable > 0:
                self.following = self.lowest * (1 + FARTHER * self.listable)
            return TargetFound.REFUTED
        sets = self._sets(charge, target)
        self.listed += len(sets.kind)
        # Loads and what is lacking grow alike with the target, from the lowest one that charges cannot refute. The best
        # charges lack less than these, and no less than the known sets say, who say little while they are few.
        lacking = sets.room - CREDIT * max(0.0, sets.room - self.charges.lacking)
        self.lowest = max(self.best.bound, target * (1 - lacking))
        self.listable = reach = sets.part * sets.room
        self.following = self.lowest * (1 + (1.0 if sets.every else FARTHER) * reach)
        self.farthest = self.lowest * (1 + FARTHEST * reach)
        found, within = self._searched(sets, target)
        self._teach(sets.within(min(self.following, self.best.value)))
        if found is TargetFound.REFUTED and sets.every:
            self.best.prove(clearly_below(within), "covering-free")
            return TargetFound.SPLIT if within < target else TargetFound.REFUTED
        self.following = min(self.following, target * (1 - sets.room / 4))
        return TargetFound.SPLIT if within < target else TargetFound.HARD

    def _teach(self, sets: ListedSets) -> None:
        """Let charges know the sets that lack least."""
        for items, kind, load in zip(sets.items[:TAUGHT], sets.kind.tolist(), sets.load.tolist(), strict=False):
            self.charges.columns.add(kind, items, load)

    def _searched(self, sets: ListedSets, target: float) -> tuple[TargetFound, float]:
        """Take better and better splits of sets; what became of the last target, and which that was."""
        while True:
            found, chosen = search_sets(sets, self._left(), self.stop)
            # What memory refuses says nothing of other splits.
            if found is not TargetFound.SPLIT or not self.best.take(self._label(sets, chosen), "all sets of the bound"):
                return (TargetFound.HARD if found is TargetFound.SPLIT else found), target
            target = min(target, self.best.value) * (1 - 2 * GAP)
            sets = sets.within(target)

    def _sets(self, charge: Floats, target: float) -> ListedSets:
        """All sets that a device of a split within the target may hold; of many those that lack least."""
        columns, finders, arrays = self.charges.columns, self.charges.sets, self.best.free.arrays
        most = {
            kind: finder.richest(charge, target, columns.carried(kind, charge, target), exact=True).most
            for kind, finder in finders.items()
        }
        beside = self._beside(charge, target)
        held = beside.most + sum(columns.number[k] * most[k] for k in finders)
        total = float(charge.sum())
        room, part = max(0.0, held - total) + SUMMED_FEW * held, math.inf
        space = path_room(MOST_PATHS, PLACE_PATHS)
        found = []
        for kind, finder in finders.items():

            def listed(share: float, kind: int = kind, finder: NarrowSets = finder) -> tuple[Bools, Floats] | None:
                found = finder.listed(charge, target, most[kind] - share * room, space)
                return None if found is None or len(found[0]) > MOST_SETS else found

            (sets, loads), few = _some_of(listed, len(charge), self.listable / room)
            part = min(part, few)
            limit = float(arrays.limit[arrays.kind_of == kind].max())
            fits = sets @ arrays.memory <= limit
            sets, loads = sets[fits], loads[fits]
            lacks = np.maximum(0.0, most[kind] + sets @ (beside.gains - charge) - SUMMED_FEW * held)
            found.append((sets, loads, np.full(len(sets), kind, dtype=np.int32), lacks))
        items, loads, kinds, lacks = (np.concatenate(parts) for parts in zip(*found, strict=True))
        order = np.argsort(lacks, kind="stable")
        order = order[lacks[order] <= room]
        empty = np.zeros(max(columns.kinds) + 1)
        empty[columns.moving] = [most[kind] for kind in columns.moving]
        return ListedSets(items[order], loads[order], kinds[order], lacks[order], room, empty, part, part >= 1, beside)

    def _beside(self, charge: Floats, target: float) -> Remainder:
        """What the device that pays for no transfers can hold, at the price of its time that bounds that best."""
        n = len(charge)
        if self.last < 0:
            return Remainder(0.0, np.full(n, np.inf), 0.0, np.zeros(n), np.zeros(n))
        arrays = self.best.free.arrays
        time, limit = np.ascontiguousarray(arrays.work[:, arrays.kind_of[self.last]]), up_to(target)
        fits = time <= limit
        price = knapsack_price(charge, time, target)
        worth = np.where(fits, charge - price * np.where(fits, time, 0.0), 0.0)
        gains = np.maximum(0.0, worth)
        most = price * limit + float(gains.sum())
        return Remainder(most, time, limit, np.maximum(0.0, -worth), gains)

    def _left(self) -> list[int]:
        """Devices of each kind that have a set."""
        columns = self.charges.columns
        return [columns.number[kind] if kind in columns.moving else 0 for kind in range(max(columns.kinds) + 1)]

    def _label(self, sets: ListedSets, chosen: Sequence[int]) -> Ints:
        """The split by sets; what they leave is on the last device."""
        columns, kinds = self.charges.columns, self.best.free.arrays.kind_of
        label = np.full(columns.items, self.last, dtype=np.int32)
        free = {kind: np.flatnonzero(kinds == kind).tolist() for kind in columns.moving}
        for number in chosen:
            label[sets.items[number]] = free[int(sets.kind[number])].pop(0)
        return label


def _some_of(
    listed: Callable[[float], tuple[Bools, Floats] | None], items: int, likely: float
) -> tuple[tuple[Bools, Floats], float]:
    """All sets, or few enough with their loads, and for about which part of the room they would be as many as may be.

    The part is 1 or more where they are all. It is ``likely`` so large, if that is known. Sets grow by the same factor
    with each further part.
    """
    sets, before, reach = (np.zeros((0, items), dtype=bool), np.zeros(0)), 1, LEAST_PART
    first = max((p for p in PARTS if p <= likely / 4), default=PARTS[0])
    few = first / 2
    for part in PARTS[PARTS.index(first) :]:
        more = listed(part) if part <= max(2 * first, HOPE * reach) else None
        if more is None:
            break
        sets, before, few = more, len(sets[0]), part
        reach = part + _left(before, len(sets[0]), part)
    return sets, reach if few >= 1 else min(1.75 * few, reach)


def _left(before: int, now: int, part: float) -> float:
    """By how much a part of the room may grow until sets are as many as may be; ``before`` are those of half of it."""
    growth = max(0.5, math.log(max(1, now) / max(1, before))) / (part / 2)
    return max(0.0, math.log(MOST_SETS / 2 / max(1, now))) / growth


def search_sets(sets: ListedSets, left: Sequence[int], stop: Callable[[], bool]) -> tuple[TargetFound, list[int]]:
    """Whether some of the sets, at most ``left`` of each kind, make a split, and which."""
    number, n = sets.items.shape
    bits = bit_rows(sets.items)
    ptr = np.append(0, np.cumsum(sets.items.sum(1))).astype(np.int64)
    member = np.nonzero(sets.items)[1].astype(np.int32)
    cover = CoverSets(bits, ptr, member, sets.kind, sets.lacks, sets.room, sets.empty, *sets.beside[1:4])
    state = CoverSearch(
        depth=np.zeros(1, dtype=np.int64),
        left=np.array(left, dtype=np.int64),
        item=np.zeros(n + 1, dtype=np.int32),
        at=np.full(n + 1, -1, dtype=np.int32),
        start=np.zeros(n + 1, dtype=np.int32),
        sets=np.full(n + 1, number, dtype=np.int32),
        lists=np.tile(np.arange(number, dtype=np.int32), ROOM),
        taken=np.zeros((n + 1, bits.shape[1]), dtype=np.uint64),
        used=np.zeros(n + 1),
        long=np.zeros(n + 1),
        seen=np.zeros(n, dtype=np.int64),
    )
    for _ in range(0, MOST_STEPS if sets.every else FEW_STEPS, STEPS):
        found = search_cover(cover, state, STEPS)
        if found == 0:
            return TargetFound.REFUTED, []
        if found == 1:
            deep = [depth for depth in range(int(state.depth[0])) if state.at[depth] < state.sets[depth]]
            return TargetFound.SPLIT, [int(state.lists[state.start[depth] + state.at[depth]]) for depth in deep]
        if found == 2 or stop():
            break
    return TargetFound.HARD, []
