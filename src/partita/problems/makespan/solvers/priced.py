"""Plans and bounds where memory couples blocks: prices (``partita.problems.makespan.bounds.priced``), then a program.

At the best prices the shortest path is nearly a plan, but equal blocks choose alike, so that devices hold too much or
too little. Which of the entries near to it to take, so that all fits, is a small integer program; blocks whose entries
it takes are searched through, and it is solved again until these are known.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from partita.engines.kernels.arrays import Floats
from partita.engines.mip.model import Callbacks, MixedProgram, ProgramResult
from partita.engines.mip.solve import solve_program
from partita.engines.search.incumbent import Incumbent
from partita.engines.search.monitor import Monitor
from partita.engines.search.result import Status
from partita.ground.rounding import lowered
from partita.problems.makespan.bounds.priced import MORE, PricedChain, PricedPath
from partita.problems.makespan.local_search import WHOLE, State, search, settle
from partita.problems.makespan.options import MakespanOptions
from partita.problems.makespan.problem import MakespanPlan
from partita.problems.makespan.schedules import list_schedule
from partita.problems.makespan.solvers.constrained import ConstrainedPaths
from partita.problems.makespan.solvers.entries import (
    Chosen,
    EntriesProgram,
    Entry,
    held_at_least,
    held_by_schedule,
    joined,
    loose_of,
    planned_of,
)
from partita.problems.makespan.solvers.guests import Guests
from partita.problems.makespan.solvers.pieces import PieceSearch
from partita.problems.makespan.thinning import Thinned
from partita.problems.makespan.windows import Windows

#: Steps of ascents in prices, the entries near to which are looked up after each; entries of a program at first and
#: at most, its seconds, the gap at which it ends, and programs at most.
_STEPS, _ENTRIES, _MOST, _PROGRAM_S, _GAP, _PROGRAMS = (300, 150, 50), 1_000, 9_000, 6.0, 1e-3, 3
#: Most entries that paths are made of, and how often they are told apart twice as finely where too much is merged.
_ALL, _FINER = 81_000, 8
#: Entries at first where blocks have equal parts, which make programs larger.
_PARTS = 300
#: Shares of the way from what is proven to the best plan, or to where other entries may be better, up to which paths
#: that keep to the limits are looked for, as far as these are not too many, and how often the last step is halved then.
_SHARES, _HALVES = (0.1, 0.25, 0.33, 0.42, 0.55, 0.75, 1.0), 2
#: Plans for each program, and rounds of annealing of the whole after each.
_PLANS, _ROUNDS = 3, 4
#: Searches of pieces before programs, moves of each, how many in vain end them after programs, and rounds for what is
#: left out, with equal parts, which make all of it take longer, and without.
_TRIES, _MOVES, _VAIN, _SETTLED = 1, 100_000, {True: 3, False: 20}, {True: 3, False: 10}
#: Rounds of windows instead where blocks have equal parts.
_WINDOWS = 6


def close_priced(thinned: Thinned, best: Incumbent[MakespanPlan], options: MakespanOptions, monitor: Monitor) -> bool:
    """Prove what prices on memory prove, and offer plans made of the blocks they ask for.

    Whether that is all there is to know of the chain: prices matter, and blocks are small enough for that.
    """
    chain = PricedChain(thinned.chain, thinned.whole, thinned.left_out)
    if not chain.fill(monitor, best.stop):
        return False
    path = chain.path(np.zeros(thinned.whole.devices))
    goal = best.value if math.isfinite(best.value) else 2 * path.value
    plans = _Plans(thinned, chain, best, options, monitor)
    most = _PARTS if plans.parts else _ENTRIES
    for turn, steps in enumerate(_STEPS):
        path = chain.ascend(path, goal, steps, monitor, best.stop, visits=turn > 0)
        if math.isinf(path.value):
            best.refute("memory prices")
            return True
        best.prove(path.value, "memory prices")
        _look_up(chain, path, most, best, options.threads, monitor)
    beside = plans.parts and options.threads > 1
    if not beside:
        plans.anneal(path, _TRIES)
    with ThreadPoolExecutor(1) as pool:
        # Where blocks have equal parts, programs say little of where many devices are full.
        programs = pool.submit(_programs, plans, path, most)
        if beside:
            plans.anneal(path, math.inf)
        value = best.value
        entries, near = programs.result()
    if plans.parts or not entries:
        if not beside or best.value < value:
            plans.anneal(path, math.inf)
    elif path.price.any():
        plans.finish(path, entries, near)
    return bool(path.price.any()) and all(table.small for table in chain.tables.values())


def _programs(plans: _Plans, path: PricedPath, most: int) -> tuple[list[Entry], float]:
    """Prove what programs of entries near to a path prove, and offer plans; the entries, and how long others are."""
    chain, best, options, monitor = plans.chain, plans.best, plans.options, plans.monitor
    entries, near = list[Entry](), -math.inf
    for _ in range(_PROGRAMS):
        if best.done or monitor.stopping:
            break
        entries, near = _look_up(chain, path, most, best, options.threads, monitor)
        program = EntriesProgram(chain, entries, [held_at_least(chain, e) for e in entries], loose_of(chain))
        answer = _solved(program.model, best, options, monitor)
        # A schedule that takes another entry ends later than its path.
        best.prove(lowered(min(near, answer.bound)), "memory program")
        # Where pieces are known one by one, annealing them finds more in less time than programs.
        met = not plans.parts and math.isfinite(best.value)
        if answer.values is not None and not met:
            met = plans.run(entries, joined(chain, program.chosen(answer.values)))
        over = answer.status is Status.OPTIMAL and answer.bound < near
        if most >= _MOST or (met and (over or answer.status is Status.FEASIBLE)):
            break
        most *= 3
    return entries, near


def _look_up(
    chain: PricedChain, path: PricedPath, most: int, best: Incumbent[MakespanPlan], threads: int, monitor: Monitor
) -> tuple[list[Entry], float]:
    """About so many entries with the shortest paths through them, searched through, and how long a path of others is.

    All others have paths that are longer.
    """
    rows = chain.chain.rows

    def look(entry: Entry) -> bool:
        if best.done or monitor.stopping:
            return False
        ends = entry.way, entry.source, entry.target
        # Schedules through it that are no better than the best one do not matter.
        left = best.value - float(through[entry.number][entry.way, entry.i, entry.j])
        table = chain.table(entry.number)
        return table.refine(*ends, path.price, best.stop, MORE * left + table.at(*ends))

    while True:
        path = chain.path(path.price, path.visits)
        through = [chain.through(path, k) for k in range(len(rows) - 1)]
        near = float(_smallest(np.concatenate([_smallest(each.ravel(), most + 1) for each in through]), most + 1).max())
        entries = [
            Entry(k, way, i, j, rows[k][i], rows[k + 1][j])
            for k in range(len(rows) - 1)
            for way, i, j in np.argwhere(through[k] <= near).tolist()
        ]
        known = {(chain.chain.alike[e.number], e.way, e.source, e.target): e for e in entries}
        with ThreadPoolExecutor(max(1, threads)) as pool:
            if not any([*pool.map(look, known.values())]):
                break
    finite = [e for e in entries if math.isfinite(chain.table(e.number).at(e.way, e.source, e.target))]
    return finite, near


def _smallest(values: Floats, count: int) -> Floats:
    """So many of the smallest values, or all."""
    found: Floats = values if len(values) <= count else np.partition(values, count - 1)[:count]
    return found


def _solved(
    model: MixedProgram, best: Incumbent[MakespanPlan], options: MakespanOptions, monitor: Monitor
) -> ProgramResult:
    return solve_program(
        model,
        "highs",
        time_limit_s=min(_PROGRAM_S, monitor.remaining_s),
        seed=options.seed,
        gap=_GAP,
        callbacks=Callbacks(stop=lambda: best.done),
    )


class _Plans:
    """Plans of entries that fit with all that is left out, which is where the last plans ended least later for it."""

    pieces: PieceSearch | None = None

    def __init__(
        self,
        thinned: Thinned,
        chain: PricedChain,
        best: Incumbent[MakespanPlan],
        options: MakespanOptions,
        monitor: Monitor,
    ) -> None:
        self.thinned, self.chain, self.best, self.options, self.monitor = thinned, chain, best, options, monitor
        self.later: Floats | None = None
        #: Whether some blocks have no best schedules in tables.
        self.parts = not all(table.finds for table in chain.tables.values())
        #: Whether new plans are annealed window by window: all of it takes long.
        self.windows = self.parts or thinned.whole.count > WHOLE

    def learn(self, state: State) -> None:
        """See how much later a schedule ends with what is left out elsewhere."""
        later = self.thinned.later(state)
        self.later = later if self.later is None else np.maximum(self.later, later)

    def run(self, entries: Sequence[Entry], first: MakespanPlan | None) -> bool:
        """From the schedule of some entries that need not fit; whether there was a plan."""
        if first is not None and self.later is None:
            free = self.thinned.put_back(first, self.best, limits=False)
            if free is not None:
                self.learn(free)
        able, held = [], []
        for entry in entries:
            own = held_by_schedule(self.chain, entry)
            if own is not None:
                able.append(entry)
                held.append(own)
        out, met = self.thinned.out_groups, False
        for _ in range(_PLANS):
            if self.best.done or self.monitor.stopping:
                break
            value = self.best.value
            costs = np.zeros((len(out), self.thinned.whole.devices)) if self.later is None else self.later
            program = EntriesProgram(self.chain, able, held, planned_of(self.chain, costs), whole=True)
            answer = _solved(program.model, self.best, self.options, self.monitor)
            if answer.values is None:
                break
            plan = joined(self.chain, program.chosen(answer.values))
            homes = dict(zip(out, program.homes(answer.values), strict=True))
            state = None if plan is None else self.thinned.put_back(plan, self.best, homes)
            if state is None:
                break
            met = True
            self.learn(state)
            seed = self.options.seed + 1
            if self.windows:
                self._shift(state, seed)
            else:
                search(self.thinned.whole, self.best, seed=seed, rounds=_ROUNDS, states=[state])
            if not self.best.value < value:
                break
        return met

    def anneal(self, path: PricedPath, tries: float) -> None:
        """Plans from searches of pieces, as long as one of a few in a row is better, or so many."""
        if not path.price.any() or self.best.done:
            return
        seed, vain, tried = self.options.seed, 0, 0
        if self.pieces is None:
            given = Guests(self.thinned, 2.0 * path.value), seed
            self.pieces = PieceSearch(self.chain, path, *given, threads=self.options.threads, stop=self.best.stop)
        out = self.thinned.out_groups
        while vain < _VAIN[self.parts] and tried < tries and not (self.best.done or self.monitor.stopping):
            value, tried = self.best.value, tried + 1
            costs = np.where(self.chain.out_able, 0.0, math.inf) if self.later is None else self.later
            guests = self.pieces.guests.arrays.item
            costs = costs.copy()
            costs[guests] = np.where(self.chain.out_able[guests], 0.0, math.inf)
            known = self.best.snapshot()[1] if self.parts else None
            if known is not None:
                self.pieces.learn(self.thinned.without(known))
            found = self.pieces.search(costs, _MOVES, self.best.stop)
            if found is not None:
                self._settle(found.chosen, dict(zip(out, found.homes, strict=True)), seed + tried)
            elif self.parts:
                break
            vain = 0 if self.best.value < value else vain + 1

    def finish(self, path: PricedPath, entries: Sequence[Entry], near: float) -> None:
        """Search pieces, and prove what paths of entries that keep to the limits take; all others are longer.

        At the same time, if there are threads for it. The best path that is met is tried, and if it is better, pieces
        are searched again.
        """
        with ThreadPoolExecutor(1) as pool:
            several = self.options.threads > 1
            beside = pool.submit(self._constrain, path, entries, near) if several else None
            self.anneal(path, math.inf)
            found = self._constrain(path, entries, near) if beside is None else beside.result()
        value = self.best.value
        if found is not None and not self.best.done:
            self._settle(*found, self.options.seed + 1)
        if self.best.value < value:
            self.anneal(path, math.inf)

    def _constrain(
        self, path: PricedPath, entries: Sequence[Entry], near: float
    ) -> tuple[list[Chosen], dict[int, int]] | None:
        """Prove what paths take, as far as these are not too many; the best one, if it is met.

        Where all that these entries can prove is proven, more of them are looked up.
        """
        best, most, finer = self.best, len(entries), 0
        while not (best.done or self.monitor.stopping):
            now = self.chain.path(path.price, path.visits)
            paths = ConstrainedPaths(self.thinned, self.chain, now, entries)
            paths.refine(finer)
            proven, goal = max(now.value, best.bound), min(near, best.value)
            for share in _SHARES if proven < goal * (1.0 - _GAP) < math.inf else ():
                below = proven + share * (goal - proven)
                least = self._prove(paths, below)
                while least is not None and least < below and finer < _FINER:
                    # Too much was merged.
                    finer += 1
                    paths.refine(finer)
                    least = self._prove(paths, below)
                if least is None or least < below:
                    # There are too many paths below that, or one that takes so much.
                    least = max(proven, best.bound)
                    for _ in range(_HALVES):
                        half = (least + below) / 2
                        found = self._prove(paths, half)
                        least, below = (half, below) if found is not None and found >= half else (least, half)
                    return None if best.done or self.monitor.stopping else paths.chosen(below, best.stop)
            if near >= best.value or most >= _ALL:
                break
            most = min(_ALL, 2 * most)
            entries, near = _look_up(self.chain, now, most, best, 1, self.monitor)
        return None

    def _prove(self, paths: ConstrainedPaths, below: float) -> float | None:
        """What no path takes less than, up to a level; None where it is not known, or the search is over."""
        least = None if self.best.done or self.monitor.stopping else paths.least(below, self.best.stop)
        if least is not None:
            self.best.prove(lowered(least), "memory paths")
        return least

    def _settle(self, chosen: Sequence[Chosen], homes: dict[int, int], seed: int) -> bool:
        """A plan of entries and homes of what is left out, if it fits, annealed; whether entries have schedules."""
        plan = joined(self.chain, chosen)
        if plan is None:
            return False
        if self.parts and self.later is None and self.thinned.out_groups:
            free = self.thinned.put_back(plan, self.best, limits=False)
            if free is not None:
                self.learn(free)
        value, state = self.best.value, self.thinned.put_back(plan, self.best, homes)
        if state is not None:
            given = self.thinned.whole, self.best
            state = settle(*given, state, self.thinned.left_out, seed=seed, rounds=_SETTLED[self.parts])
            if self.parts:
                self.learn(state)
            elif self.later is None or self.best.value < value:
                # Searches that begin anew are told of the best plan alone: all that any plan says is far too much.
                self.later = self.thinned.later(state)
            if self.windows:
                self._shift(state, seed)
            else:
                search(*given, seed=seed, rounds=_ROUNDS, states=[state])
        return True

    def _shift(self, state: State, seed: int) -> None:
        """Anneal windows of a new plan for a while, be it the best or not, where annealing all of it takes long."""
        whole, (device, order) = self.thinned.whole, state
        plan = list_schedule(whole, device.tolist(), order.tolist(), insertion=True)
        windows = Windows(whole, plan, self.best, seed=seed, threads=self.options.threads)
        windows.run(lambda: self.monitor.stopping, rounds=_WINDOWS)
