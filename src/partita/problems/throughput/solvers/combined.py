"""One solver of acyclic splits over identical devices: searches for plans, bounds, and the decision search, together.

They share one set of items and tell each other what they find: every better split lowers the targets of all, every
bound raises the targets of the decision search, and charged work narrows it. First come what settles most problems in
a second: slicing, the node bound, and the race of both directions just under the incumbent. What is left open gets two
threads: one goes through the hierarchy of bounds, the other turns between annealing on partitions and the search over
downsets. All of it stops at once when told to.
"""

from __future__ import annotations

import math
import time
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from partita.engines.kernels.arrays import Ints
from partita.engines.search.monitor import Monitor
from partita.problems.throughput.bounds.forced_transfers import ChargeBound
from partita.problems.throughput.bounds.hierarchy import HIERARCHY, run_hierarchy
from partita.problems.throughput.bounds.knowledge import HierarchyBound, Knowledge
from partita.problems.throughput.bounds.node import NodeBound
from partita.problems.throughput.contraction.blocks import blocks_refusal, make_blocks, uniform, uniform_refusal
from partita.problems.throughput.contraction.lossless import memory_is_ample
from partita.problems.throughput.evaluate import evaluate
from partita.problems.throughput.orders.partition_search import PartitionSearch
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.protocol import ThroughputOptions
from partita.problems.throughput.solvers.contiguous_run import DOWNSETS, ContiguousRun, GapCloser
from partita.problems.throughput.solvers.plain import ChargedItems
from partita.problems.throughput.solvers.slicing_search import SlicingSearch
from partita.problems.throughput.solvers.view import SplitStage, ViewedSplit
from partita.problems.throughput.variants import variants_of

#: Edges of large problems above which neither downsets nor charges are tried: they would not end in time.
DENSE = 500_000
#: Seconds of the first annealing before the bounds, and its share of the time at most.
OPENING_S, OPENING_SHARE = 2.0, 0.1
#: Seconds of the node bound before the first race.
NODE_S = 0.5
#: Most attempts of the first race.
RACE = 5
#: Seconds of the first annealing beside the bounds; later ones take as long as the search over downsets before.
TURN_S = 0.3
#: Seconds of the first pass through the hierarchy if there is no limit, and the factor of the later ones.
PASS_S, GROWTH = 4.0, 3.0
#: Rounds of annealing after which it ends when nothing else is left to do.
ROUNDS = 32


def combined_refusal(problem: ThroughputProblem) -> str | None:
    """What keeps a problem from the combined solver; None if nothing does."""
    if variants_of(problem):
        return "it is for plain problems"
    return uniform_refusal(problem)


class CombinedRun(ContiguousRun):
    """State of one run on a problem that ``combined_refusal`` has nothing against; see ``ContiguousRun``.

    ``knowledge`` is what the bounds know, over the items of the view's instance; None before they are asked.
    ``downsets_s`` are the seconds of the search over downsets.
    """

    def __init__(self, problem: ThroughputProblem, options: ThroughputOptions, monitor: Monitor) -> None:
        super().__init__(problem, options)
        self.monitor = monitor
        self.knowledge: Knowledge | None = None
        self.annealing: PartitionSearch | None = None
        self.closer: GapCloser | None = None
        self.downsets_s = 0.0
        self._bounds_ended = False

    def prove(self, search: SlicingSearch) -> None:
        """From what is quick to what is strong, until the gap is closed."""
        incumbent, large = self.incumbent, search.large
        if not self._slice(search):
            return
        knowledge = self._meet(search)
        dense = large and len(knowledge.uniform.graph.succ) > DENSE
        if large and self.annealing is not None:
            self.annealing.run(seconds=min(OPENING_S, OPENING_SHARE * self.monitor.remaining_s))
        if incumbent.done:
            return
        began = time.perf_counter()
        NodeBound().improve(knowledge, NODE_S)
        knowledge.proven.append((NodeBound.name, knowledge.bound, time.perf_counter() - began))
        if not large and not knowledge.done:
            self._race(search)
        if knowledge.done:
            return
        if not large and self.annealing is not None:
            self._anneal(min(OPENING_S, OPENING_SHARE * self.monitor.remaining_s), True)
        methods = [method for method in HIERARCHY if not dense or method.name != ChargeBound.name]
        (self._both if self.options.threads > 1 else self._alternate)(search, knowledge, methods, not dense)

    def _meet(self, search: SlicingSearch) -> Knowledge:
        """What the bounds and the annealing need: they know splits as blocks of the instance's items."""
        view, incumbent = search.views[0], self.incumbent
        instance = view.instance
        ample = memory_is_ample(instance)

        def found(label: Ints, value: float) -> tuple[float, ViewedSplit] | None:
            rows = [np.flatnonzero(label == block) for block in range(int(label.max()) + 1)]
            split = [SplitStage(0, 1, np.sort(view.original[row])) for row in rows if len(row)]
            split = split[::-1] if view.backwards else split
            if not ample and not evaluate(self.problem, view.plan(split)).feasible:
                return None
            made = ViewedSplit(view, split)
            return made.value.both, made

        def end_if_closed(*_: object) -> None:
            if incumbent.closed:
                incumbent.end()

        knowledge = self.knowledge = Knowledge(
            uniform(self.problem, instance=instance),
            stop=lambda: incumbent.done,
            incumbent=incumbent,
            to_label=_labels,
            from_label=found,
            on_note=lambda note: self.monitor.report(note=note),
            threads=self.options.threads,
        )
        knowledge.proven.append(("simple", incumbent.bound, 0.0))
        if blocks_refusal(self.problem, self.options) is None:
            self.annealing = PartitionSearch(
                make_blocks(self.problem, instance),
                seed=self.options.seed,
                stop=self.stop,
                low=incumbent.bound,
                report=lambda value, label: knowledge.offer(label, value, "annealing"),
            )
        incumbent.on_better = incumbent.on_bound = end_if_closed
        end_if_closed()
        return knowledge

    def _new_closer(self, search: SlicingSearch, threads: int) -> GapCloser:
        search.by = "ideals"
        self.closer = GapCloser(search, threads, DOWNSETS)
        return self.closer

    def _race(self, search: SlicingSearch) -> None:
        """The search over downsets just under the incumbent, as long as it promises an answer."""
        began = time.perf_counter()
        closer = self._new_closer(search, self.options.threads)
        try:
            closer.start()
            while not self.incumbent.infeasible and closer.promising and closer.rounds < RACE:
                if not closer.advance(race_only=True):
                    break
        finally:
            closer.end()
            self.downsets_s += time.perf_counter() - began

    def _both(self, search: SlicingSearch, knowledge: Knowledge, methods: list[HierarchyBound], alive: bool) -> None:
        """The bounds here, again and again with more time or with a better split; searches in a second thread."""

        def searches() -> None:
            turn, going = TURN_S, alive
            while not self.incumbent.done and self._anneal(turn, going):
                seconds = self._search_downsets(search, knowledge) if going else 0.0
                going = seconds >= 0
                turn = max(TURN_S, seconds)

        def end_if_failed(ended: Future[None]) -> None:
            if ended.exception() is not None:
                self.incumbent.end()

        with ThreadPoolExecutor(1) as pool:
            searching = pool.submit(searches)
            searching.add_done_callback(end_if_failed)
            try:
                seconds = PASS_S
                while not knowledge.done:
                    left = self.monitor.remaining_s
                    if self._pass(knowledge, methods, seconds if math.isinf(left) else left):
                        break
                    seconds *= GROWTH
            except BaseException:
                self.incumbent.end()
                raise
            finally:
                self._bounds_ended = True
        searching.result()

    def _alternate(
        self, search: SlicingSearch, knowledge: Knowledge, methods: list[HierarchyBound], alive: bool
    ) -> None:
        """With one thread: searches and bounds in turn, with more and more time."""
        seconds = PASS_S / 4
        while not self.incumbent.done and self._anneal(seconds / 2, alive):
            if alive:
                alive = self._search_downsets(search, knowledge) >= 0
            if not self.incumbent.done and not self._bounds_ended:
                ended = self._pass(knowledge, methods, min(seconds, self.monitor.remaining_s))
                self._bounds_ended = ended or knowledge.done
            seconds *= 1.5

    @staticmethod
    def _pass(knowledge: Knowledge, methods: list[HierarchyBound], seconds: float) -> bool:
        """Run the bounds; whether another pass would change nothing."""
        began, before = time.perf_counter(), (knowledge.bound, knowledge.value)
        run_hierarchy(knowledge, methods, seconds)
        return before == (knowledge.bound, knowledge.value) and time.perf_counter() - began < 0.5 * seconds

    def _anneal(self, seconds: float, alive: bool) -> bool:
        """A slice of annealing; false if nothing is left to do."""
        annealing, found = self.annealing, self.incumbent.answer
        if annealing is None or annealing.closed:
            return alive
        if not alive and self._bounds_ended and annealing.number >= ROUNDS:
            return False
        if found is not None:
            annealing.offer(_labels(found))
        annealing.low = max(annealing.low, self.incumbent.bound)
        annealing.run(seconds=seconds)
        return True

    def _search_downsets(self, search: SlicingSearch, knowledge: Knowledge) -> float:
        """One attempt of the search over downsets; its seconds, negative once it has nothing left to do."""
        began = time.perf_counter()
        closer = self.closer or self._new_closer(search, 1)
        charged = knowledge.charged
        items = None
        if charged is not None and (closer.charged is None or charged.target < closer.charged.target * (1 - 1e-3)):
            forced = np.zeros(search.views[0].instance.nets, dtype=bool)
            forced[knowledge.uniform.kept] = charged.parts.forced
            items = ChargedItems(charged.target, charged.work, forced)
        closer.learn(items)
        closer.start()
        alive = not self.incumbent.infeasible and closer.advance()
        seconds = time.perf_counter() - began
        self.downsets_s += seconds
        return seconds if alive else -1.0


def _labels(found: ViewedSplit) -> Ints:
    """(n,) blocks of the instance's items."""
    places = found.view.label(found.split)[found.view.original]
    return len(found.split) - 1 - places if found.view.backwards else places
