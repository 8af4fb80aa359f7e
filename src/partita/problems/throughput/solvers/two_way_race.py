"""Close the gap: decisions just under the incumbent and from below, in both directions of the graph at once.

Which direction is easy is not known beforehand (factors of a thousand either way on published graphs), so every
target is a race. Effort is counted in nodes and grows in rounds with barriers, so that a seed repeats unless the
clock stops it.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from partita.kernels.throughput.arrays import Longs
from partita.problems.throughput.solvers.decision import FULL, ChargedItems, Decision, Searcher
from partita.problems.throughput.solvers.incumbent import Incumbent
from partita.problems.throughput.solvers.prepared import Prepared, Split, prepare

__all__ = ["CLOSE", "Proof", "Race"]

#: A refuted target this close below a plan proves the plan: differences within it are rounding.
CLOSE = 2e-9
#: Nodes per direction of the first attempt just under the incumbent, and of the first round after it.
FIRST, ROUND = 2_000_000, 4_000_000
#: A race is kept up while it expects to need at most this many times the nodes it has used.
PATIENCE = 8
#: Nodes of the first leg of a race.
LEG = 100_000


class Race:
    """One target, decided by whichever direction is first."""

    def __init__(self, searchers: list[Searcher], target: float, pool: ThreadPoolExecutor | None, stop: Longs) -> None:
        self.target, self.pool, self.stop = target, pool, stop
        self.decisions = [Decision(searcher, target) for searcher in searchers]
        self.full = [False] * len(searchers)
        self.winner: Decision | None = None
        self.leg = LEG

    @property
    def nodes(self) -> int:
        """Nodes of all directions."""
        return sum(decision.nodes for decision in self.decisions)

    def promising(self) -> bool:
        """Whether some direction will answer soon if its levels go on as they are."""
        return any(
            not full and decision.expected <= PATIENCE * max(decision.nodes, FIRST)
            for decision, full in zip(self.decisions, self.full, strict=True)
        )

    def run(self, effort: int) -> int:
        """Up to about ``effort`` more nodes per direction; a status of ``kernels.throughput.search`` or FULL."""
        from partita.kernels.throughput.search_state import FOUND, LIMIT, REFUTED, STOPPED

        while effort > 0:
            if self.stop[0] != 0:
                return STOPPED
            running = [i for i, full in enumerate(self.full) if not full]
            if not running:
                return FULL
            leg = min(self.leg, effort)
            halt = np.zeros(1, dtype=np.int64)
            results = self._leg(running, leg, halt)
            if REFUTED in results:
                return REFUTED
            if self.stop[0] != 0:
                return STOPPED
            if FOUND in results:
                self.winner = self.decisions[running[results.index(FOUND)]]
                return FOUND
            for i, result in zip(running, results, strict=True):
                self.full[i] = result == FULL
            effort -= leg
            self.leg = min(2 * self.leg, 1 << 26)
        return LIMIT

    def _leg(self, running: list[int], leg: int, halt: Longs) -> list[int]:
        """One leg of each direction; a refutation ends the others, because nothing else can change the answer."""
        from partita.kernels.throughput.search_state import REFUTED

        flags = [self.stop, halt]

        def advance(i: int) -> int:
            decision = self.decisions[i]
            status = decision.run(decision.nodes + leg, flags[0], flags[1])
            if status == REFUTED:
                halt[0] = 1
            return status

        if self.pool is None or len(running) == 1:
            results: list[int] = []
            for i in running:
                results.append(advance(i))
                if results[-1] == REFUTED:
                    break
            return results
        return list(self.pool.map(advance, running))


class Proof:
    """Raise the bound and lower the incumbent until they meet.

    Parameters
    ----------
    prepared, incumbent
        The problem and its best split so far.
    threads
        Most threads.
    low
        A valid bound.
    raise_bound
        Called with better bounds.
    """

    def __init__(
        self,
        prepared: Prepared,
        incumbent: Incumbent,
        threads: int,
        low: float,
        raise_bound: Callable[[float], None],
    ) -> None:
        self.prepared, self.incumbent, self.stop = prepared, incumbent, incumbent.stop
        self.low, self.raise_bound = low, raise_bound
        self.pool = ThreadPoolExecutor(2) if threads > 1 else None
        self.directions = [prepared]
        if not prepared.instance.positional:
            self.directions.insert(0, prepare(prepared.problem, backwards=True, instance=prepared.instance))
        self.nodes, self.rounds = 0, 0
        self.step_up = 1.0 / 16
        self.stuck = False
        self.charged: ChargedItems | None = None
        self.race: Race | None = None
        self.effort = FIRST
        self._searchers(incumbent.slicer.most if incumbent.split is None else incumbent.value)

    def _searchers(self, top: float) -> None:
        self.top = top
        self.searchers = [
            Searcher(direction, top, max_bytes=8e8, charged=self.charged) for direction in self.directions
        ]

    def _race(self, target: float) -> Race:
        return Race(self.searchers, target, self.pool, self.stop)

    def run(self) -> bool:
        """Until proved, stopped or out of memory; whether the problem is infeasible."""
        try:
            if self.start():
                return True
            while self.advance():
                pass
        finally:
            self.end()
        return False

    def end(self) -> None:
        """Use one thread only from now on."""
        if self.pool is not None:
            self.pool.shutdown()
            self.pool = None
        if self.race is not None:
            self.race.pool = None

    def start(self) -> bool:
        """Look for a split where there is none yet; whether there can be none."""
        from partita.kernels.throughput.search_state import FOUND, REFUTED

        if self.incumbent.split is not None:
            return False
        race = self._race(self.top)
        status = race.run(1 << 60)
        self.nodes += race.nodes
        if status == FOUND:
            self._accept(race)
        return status == REFUTED

    def learn(self, low: float, charged: ChargedItems | None = None) -> None:
        """Use a bound found elsewhere, and charged work that holds up to the incumbent's value."""
        self.low = max(self.low, low)
        if charged is not None and charged is not self.charged:
            self.charged, self.race = charged, None
            self._searchers(self.incumbent.value)

    @property
    def promising(self) -> bool:
        """Whether the race just under the incumbent will be answered soon, as far as one can tell."""
        race = self.race
        return race is None or race.target > self.incumbent.value * (1 - CLOSE) or race.promising()

    def advance(self, *, race_only: bool = False) -> bool:
        """One more attempt, about ``effort`` nodes; false once nothing is left to do.

        Parameters
        ----------
        race_only
            Look just under the incumbent, and nowhere else.
        """
        if self.incumbent.split is None or self.stop[0] != 0 or self._proved():
            return False
        target = self.incumbent.value * (1 - CLOSE)
        if self.race is None or self.race.target > target:
            self.race = self._race(target)
        if self._answer(self.race, self.effort):
            return True
        if self.rounds == 0:
            self.effort = ROUND
        if self.race.promising() or race_only:
            self.rounds += 1
            return True
        self._climb(self.effort)
        if self.stuck and all(self.race.full):
            return False
        self.incumbent.anneal(self.effort)
        self.rounds += 1
        self.effort *= 2
        return True

    def _proved(self) -> bool:
        if self.low >= self.incumbent.value * (1 - 2 * CLOSE):
            self.raise_bound(self.incumbent.value)
            return True
        return False

    def _answer(self, race: Race, effort: int) -> int:
        """Push a race and use its answer; 0 if it has none yet."""
        from partita.kernels.throughput.search_state import FOUND, REFUTED

        before = race.nodes
        status = race.run(effort)
        self.nodes += race.nodes - before
        if status == REFUTED:
            self.low = max(self.low, race.target)
            if not self._proved():
                self.raise_bound(self.low)
            return 1
        if status == FOUND:
            self._accept(race)
            return 1
        return 0

    def _accept(self, race: Race) -> None:
        decision = race.winner
        assert decision is not None
        split: Split = self.prepared.adopt(decision.searcher.prepared, decision.split())
        self.incumbent.offer(float(self.prepared.loads(split).max()), split)
        self.incumbent.improve(10)
        if self.top > 1.5 * self.incumbent.value:
            self._searchers(self.incumbent.value)

    def _climb(self, effort: int) -> None:
        """Answer targets from below, in growing steps while they are easy; about ``effort`` nodes per direction."""
        spent, width = 0, len(self.directions)
        while spent < effort * width and self.stop[0] == 0 and not self._proved():
            high = self.incumbent.value
            race = self._race(min(self.low + (high - self.low) * self.step_up, high * (1 - CLOSE)))
            answered = self._answer(race, effort)
            spent += race.nodes
            if not answered:
                self.stuck = all(race.full) and race.target - self.low < 1e-5 * high
                self.step_up /= 2
                if self.stuck:
                    return
            elif race.winner is not None:
                self.step_up = max(self.step_up / 2, 1e-3)
            elif race.nodes < effort * width / 4:
                self.step_up = min(0.6, self.step_up * 1.6)
