"""One solver of acyclic splits over identical devices: searches for plans, bounds, and the decision search, together.

They share one set of items and tell each other what they find: every better split lowers the targets of all, every
bound raises the targets of the decision search, and charged work narrows it. First come what settles most problems in
a second: slicing, the node bound, and the race of both directions just under the incumbent. What is left open gets two
threads: one goes through the hierarchy of bounds, the other turns between annealing on partitions and the search over
downsets. All of it stops at once when told to.
"""

from __future__ import annotations

import math
import threading
import time

import numpy as np

from partita.engines.kernels.arrays import Ints
from partita.engines.search.monitor import Monitor
from partita.problems.throughput.bounds.forced_transfers import ChargeBound
from partita.problems.throughput.bounds.hierarchy import HIERARCHY, run_hierarchy
from partita.problems.throughput.bounds.knowledge import Knowledge
from partita.problems.throughput.bounds.node import NodeBound
from partita.problems.throughput.contraction.blocks import blocks_over, blocks_refusal, uniform_of, uniform_refusal
from partita.problems.throughput.contraction.sole_readers import memory_is_ample
from partita.problems.throughput.evaluate import evaluate
from partita.problems.throughput.orders.partition_search import PartitionSearch
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.protocol import Options
from partita.problems.throughput.solvers.contiguous_run import DOWNSETS, ContiguousRun
from partita.problems.throughput.solvers.gap_closing import GapCloser
from partita.problems.throughput.solvers.plain import ChargedItems
from partita.problems.throughput.solvers.slicing_search import SlicingSearch
from partita.problems.throughput.solvers.view import SearchView, SplitStage, ViewedSplit
from partita.problems.throughput.variants import variants_of

#: Items above which annealing replaces slicing, and the search over downsets comes later.
LARGE = 3_000
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

    def __init__(self, problem: ThroughputProblem, options: Options, monitor: Monitor) -> None:
        super().__init__(problem, options)
        self.monitor = monitor
        self.knowledge: Knowledge | None = None
        self.view: SearchView
        self.annealing: PartitionSearch | None = None
        self.closer: GapCloser | None = None
        self.ample = True
        self.downsets_s = 0.0
        self._bounds_ended = False

    @property
    def done(self) -> bool:
        """Whether to end."""
        return self.incumbent.done

    @property
    def note(self) -> str:
        """Who is responsible for the answer."""
        found_by = self.incumbent.found_by
        plan = f", plan found by {found_by}" if found_by else ""
        return f"bound proven by {self.incumbent.proven_by}{plan}"

    # The bounds and the annealing know splits as blocks of the instance's items.

    def _found(self, label: Ints, value: float) -> tuple[float, ViewedSplit] | None:
        """The split given by (n,) blocks with its value; None if it does not fit into memory."""
        view = self.view
        rank = np.argsort(view.original)
        rows = [np.flatnonzero(label == block) for block in range(int(label.max()) + 1)]
        split = [SplitStage(0, 1, np.sort(rank[row]).astype(np.int32)) for row in rows if len(row)]
        split = split[::-1] if view.backwards else split
        if not self.ample and not evaluate(self.problem, view.plan(split)).feasible:
            return None
        found = ViewedSplit(view, split)
        return found.value.both, found

    def _labels(self, found: ViewedSplit) -> Ints:
        """(n,) blocks of the instance's items."""
        places = found.view.stages_of_items(found.split)
        return len(found.split) - 1 - places if found.view.backwards else places

    def _end_if_closed(self, *_: object) -> None:
        """Stop the searches of all threads."""
        if self.incumbent.closed:
            self.incumbent.end()

    def _meet(self, search: SlicingSearch) -> Knowledge:
        """What the bounds and the annealing need."""
        view = search.views[0]
        self.view, instance, incumbent = view, view.instance, self.incumbent
        self.ample = memory_is_ample(instance)
        knowledge = Knowledge(
            uniform_of(self.problem, instance),
            stop=lambda: self.done,
            incumbent=incumbent,
            to_label=self._labels,
            from_label=self._found,
            on_note=lambda note: self.monitor.report(note=note),
            threads=self.options.threads,
        )
        knowledge.proven.append(("simple", incumbent.bound, 0.0))
        if blocks_refusal(self.problem, self.options) is None:
            self.annealing = PartitionSearch(
                blocks_over(self.problem, instance),
                seed=self.options.seed,
                stop=self.stop,
                low=incumbent.bound,
                report=lambda value, label: knowledge.offer(label, value, "annealing"),
            )
        self.knowledge = knowledge
        incumbent.on_better = incumbent.on_bound = self._end_if_closed
        self._end_if_closed()
        return knowledge

    # What the worker does.

    def prove(self) -> None:
        """From what is quick to what is strong, until the gap is closed."""
        search = self._open()
        if search is None:
            return
        large = search.views[0].items > LARGE
        if not large and not self._slice(search):
            return
        knowledge = self._meet(search)
        if large and self.annealing is not None:
            self.annealing.run(seconds=min(OPENING_S, OPENING_SHARE * self.monitor.remaining_s))
        elif large:
            search.start()
        if self.incumbent.done:
            return
        self._bound_by_nodes(knowledge)
        if not large and not self.done:
            self._race(search)
        if self.done:
            return
        if not large and self.annealing is not None:
            self._anneal(min(OPENING_S, OPENING_SHARE * self.monitor.remaining_s), True)
        if self.options.threads > 1:
            self._both(search, knowledge)
        else:
            self._alternate(search, knowledge)

    def _bound_by_nodes(self, knowledge: Knowledge) -> None:
        began = time.perf_counter()
        NodeBound().improve(knowledge, NODE_S)
        knowledge.proven.append((NodeBound.name, knowledge.bound, time.perf_counter() - began))

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

    def _new_closer(self, search: SlicingSearch, threads: int) -> GapCloser:
        search.by = "ideals"
        self.closer = GapCloser(search, threads, DOWNSETS)
        return self.closer

    def _both(self, search: SlicingSearch, knowledge: Knowledge) -> None:
        """Bounds here, searches in a second thread."""
        failure: list[BaseException] = []

        def searches() -> None:
            try:
                self._search(search, knowledge)
            except BaseException as error:
                failure.append(error)
                self.incumbent.end()

        thread = threading.Thread(target=searches, name="partita-downsets", daemon=True)
        thread.start()
        try:
            self._go_through_bounds(knowledge)
        except BaseException:
            self.incumbent.end()
            raise
        finally:
            self._bounds_ended = True
            thread.join()
        if failure:
            raise failure[0]

    def _go_through_bounds(self, knowledge: Knowledge) -> None:
        """The hierarchy, again and again with more time, or with a better split."""
        seconds = PASS_S
        while not self.done and not knowledge.done:
            left = self.monitor.remaining_s
            if self._pass(knowledge, seconds if math.isinf(left) else left):
                return
            seconds *= GROWTH

    @staticmethod
    def _pass(knowledge: Knowledge, seconds: float) -> bool:
        """Run the bounds that are worth it; whether another pass would change nothing."""
        began, before = time.perf_counter(), (knowledge.bound, knowledge.value)
        methods = [method for method in HIERARCHY if method.name != ChargeBound.name or not _dense(knowledge)]
        run_hierarchy(knowledge, methods, seconds)
        return before == (knowledge.bound, knowledge.value) and time.perf_counter() - began < 0.5 * seconds

    def _search(self, search: SlicingSearch, knowledge: Knowledge) -> None:
        """Annealing and the search over downsets in turn."""
        turn, alive = TURN_S, not _dense(knowledge)
        while not self.done and self._anneal(turn, alive):
            seconds = self._search_downsets(search, knowledge) if alive else 0.0
            alive = seconds >= 0
            turn = max(TURN_S, seconds)

    def _anneal(self, seconds: float, alive: bool) -> bool:
        """A slice of annealing; false if nothing is left to do."""
        annealing, found = self.annealing, self.incumbent.answer
        if annealing is None or annealing.closed:
            return alive
        if not alive and self._bounds_ended and annealing.number >= ROUNDS:
            return False
        if found is not None:
            annealing.offer(self._labels(found))
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
            forced = np.zeros(self.view.instance.nets, dtype=bool)
            forced[knowledge.uniform.kept] = charged.parts.forced
            items = ChargedItems(charged.target, charged.work, forced)
        closer.learn(items)
        closer.start()
        alive = not self.incumbent.infeasible and closer.advance()
        seconds = time.perf_counter() - began
        self.downsets_s += seconds
        return seconds if alive else -1.0

    def _alternate(self, search: SlicingSearch, knowledge: Knowledge) -> None:
        """With one thread: searches and bounds in turn, with more and more time."""
        alive, seconds = not _dense(knowledge), PASS_S / 4
        while not self.done and self._anneal(seconds / 2, alive):
            if alive:
                alive = self._search_downsets(search, knowledge) >= 0
            if not self.done and not self._bounds_ended:
                ended = self._pass(knowledge, min(seconds, self.monitor.remaining_s))
                self._bounds_ended = ended or knowledge.done
            seconds *= 1.5


def _dense(knowledge: Knowledge) -> bool:
    return knowledge.uniform.items > LARGE and len(knowledge.uniform.graph.succ) > DENSE
