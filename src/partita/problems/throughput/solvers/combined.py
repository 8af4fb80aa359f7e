"""One solver of acyclic splits over identical devices: searches for plans, bounds, and the decision search, together.

They share one set of items and tell each other what they find: every better split lowers the targets of all, every
bound raises the targets of the decision search, and charged work narrows it. First come what settles most problems in
a second: slicing, the node bound, and the race of both directions just under the incumbent. What is left open gets two
threads: one goes through the hierarchy of bounds, the other turns between annealing on partitions and the search over
ideals. All of it stops at once when told to.
"""

from __future__ import annotations

import math
import threading
import time

import numpy as np

from partita.kernels.throughput.arrays import Ints
from partita.problems.throughput.bounds import HIERARCHY
from partita.problems.throughput.bounds.forced_transfers import ChargeBound
from partita.problems.throughput.bounds.knowledge import Knowledge
from partita.problems.throughput.bounds.node import NodeBound
from partita.problems.throughput.bounds.protocol import HierarchyBound
from partita.problems.throughput.bounds.scheduler import run_hierarchy
from partita.problems.throughput.bounds.uniform import uniform_of, uniform_refusal
from partita.problems.throughput.contraction.sole_readers import memory_is_ample
from partita.problems.throughput.evaluate import evaluate
from partita.problems.throughput.orders.block_problem import blocks_over, blocks_refusal
from partita.problems.throughput.orders.partition_search import PartitionSearch
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.solvers.decision import ChargedItems
from partita.problems.throughput.solvers.driver import Driver
from partita.problems.throughput.solvers.incumbent import Incumbent
from partita.problems.throughput.solvers.prepared import Split
from partita.problems.throughput.solvers.protocol import Options
from partita.problems.throughput.solvers.two_way_race import Proof
from partita.problems.throughput.variants import variants_of
from partita.run.monitor import Monitor

__all__ = ["Combined", "combined_refusal"]

#: Name under which the search over ideals reports bounds.
IDEALS = "exact"
#: A bound this close below a plan closes the gap, as for the bounds.
CLOSED = 1e-7
#: Items above which annealing replaces slicing, and the search over ideals comes later.
LARGE = 3_000
#: Edges of large problems above which neither ideals nor charges are tried: they would not end in time.
DENSE = 500_000
#: Seconds of the first annealing before the bounds, and its share of the time at most.
OPENING_S, OPENING_SHARE = 2.0, 0.1
#: Seconds of the node bound before the first race.
NODE_S = 0.5
#: Most attempts of the first race.
RACE = 5
#: Seconds of the first annealing beside the bounds; later ones take as long as the search over ideals before.
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


class Combined(Driver):
    """State of one run; see ``Driver``.

    Parameters
    ----------
    problem, options
        As in the solver protocol; ``combined_refusal`` has nothing against the problem.
    monitor
        Tells how much time there is.

    Attributes
    ----------
    knowledge
        What the bounds know, over the items of ``prepared.instance``; None before they are asked.
    proven_by, found_by
        Who proved the best bound, and found the best split.
    ideals_s
        Seconds of the search over ideals.
    """

    def __init__(self, problem: ThroughputProblem, options: Options, monitor: Monitor) -> None:
        super().__init__(problem, options)
        self.monitor = monitor
        self.knowledge: Knowledge | None = None
        self.search: PartitionSearch | None = None
        self.proof: Proof | None = None
        self.ample = True
        self.proven_by, self.found_by = "simple", ""
        self.ideals_s = 0.0
        self._bounds_ended = False
        self._finder = "slicing"
        self._lock = threading.RLock()

    @property
    def closed(self) -> bool:
        """Whether the bound meets the plan."""
        return self.bound >= self.value * (1 - CLOSED)

    @property
    def done(self) -> bool:
        """Whether to end."""
        return self.closed or bool(self.stop[0] != 0)

    @property
    def note(self) -> str:
        """Who is responsible for the answer."""
        plan = f", plan found by {self.found_by}" if self.found_by else ""
        return f"bound proven by {self.proven_by}{plan}"

    # Splits and bounds go to everyone who can use them.

    def take(self, value: float, split: Split) -> None:
        """Keep a split that the searches over orders and ideals found."""
        self._adopt(value, split, self._finder)

    def _adopt(self, value: float, split: Split, finder: str) -> None:
        with self._lock:
            if value >= self.value:
                return
            self.split, self.value, self.found_by = split, value, finder
        if self.knowledge is not None:
            self.knowledge.offer(self._labels(split), value)
            self._end_if_closed()

    def _take_labels(self, label: Ints, finder: str) -> None:
        """Keep a split given by blocks if it is better, and within memory."""
        assert self.prepared is not None
        split = self._split(label)
        value = float(self.prepared.loads(split).max())
        if value >= self.value:
            return
        if not self.ample and not evaluate(self.problem, self.prepared.plan(split)).feasible:
            return
        self._adopt(value, split, finder)

    def _split(self, label: Ints) -> Split:
        """The stages of (n,) blocks of the instance's items."""
        assert self.prepared is not None
        rank = np.argsort(self.prepared.original)
        rows = [np.flatnonzero(label == block) for block in range(int(label.max()) + 1)]
        split: Split = [(0, np.sort(rank[row]).astype(np.int32)) for row in rows if len(row)]
        return split[::-1] if self.prepared.backwards else split

    def _labels(self, split: Split) -> Ints:
        """(n,) blocks of the instance's items."""
        assert self.prepared is not None
        label = np.zeros(self.prepared.items, dtype=np.int32)
        for place, (_, items) in enumerate(reversed(split) if self.prepared.backwards else split):
            label[self.prepared.original[items]] = place
        return label

    def _prove(self, bound: float, method: str) -> None:
        with self._lock:
            if bound > self.bound:
                self.proven_by = method
            self.raise_bound(bound)
        if self.knowledge is not None:
            self._end_if_closed()

    def _end_if_closed(self) -> None:
        """Stop the searches of all threads."""
        if self.closed or self.infeasible:
            self.stop[0] = 1

    def _ideals_prove(self, bound: float) -> None:
        self._prove(bound, IDEALS)
        if self.knowledge is not None:
            self.knowledge.raise_bound(bound, IDEALS)

    def _meet(self) -> Knowledge:
        """What the bounds and the annealing need."""
        assert self.prepared is not None
        instance = self.prepared.instance
        self.ample = memory_is_ample(instance)
        knowledge = Knowledge(
            uniform_of(self.problem, instance),
            stop=lambda: self.done,
            on_bound=self._prove,
            on_split=lambda label, _: self._take_labels(label, "programs"),
            on_note=lambda note: self.monitor.report(note=note),
            threads=self.options.threads,
        )
        knowledge.raise_bound(self.bound, "simple")
        knowledge.proven.append(("simple", self.bound, 0.0))
        if self.split is not None:
            knowledge.offer(self._labels(self.split), self.value)
        if blocks_refusal(self.problem, self.options) is None:
            self.search = PartitionSearch(
                blocks_over(self.problem, instance),
                seed=self.options.seed,
                stop=self.stop,
                low=self.bound,
                report=lambda _, label: self._take_labels(label, "annealing"),
            )
        self.knowledge = knowledge
        return knowledge

    # What the worker does.

    def prove(self) -> None:
        """From what is quick to what is strong, until the gap is closed."""
        incumbent = self._open()
        if incumbent is None:
            return
        assert self.prepared is not None
        large = self.prepared.items > LARGE
        if not large and not self._slice(incumbent):
            return
        knowledge = self._meet()
        if large and self.search is not None:
            self.search.run(min(OPENING_S, OPENING_SHARE * self.monitor.remaining_s))
        elif large:
            incumbent.start()
        if self.done:
            return
        self._bound_by_nodes(knowledge)
        if not large and not self.done:
            self._race(incumbent)
        if self.done or self.infeasible:
            return
        if not large and self.search is not None:
            self._anneal(min(OPENING_S, OPENING_SHARE * self.monitor.remaining_s), True)
        if self.options.threads > 1:
            self._both(incumbent, knowledge)
        else:
            self._alternate(incumbent, knowledge)

    def _bound_by_nodes(self, knowledge: Knowledge) -> None:
        began = time.perf_counter()
        NodeBound().improve(knowledge, NODE_S)
        knowledge.proven.append((NodeBound.name, knowledge.bound, time.perf_counter() - began))

    def _race(self, incumbent: Incumbent) -> None:
        """The search over ideals just under the incumbent, as long as it promises an answer."""
        began = time.perf_counter()
        proof = self._new_proof(incumbent, self.options.threads)
        try:
            self.infeasible = proof.start()
            while not self.infeasible and proof.promising and proof.rounds < RACE:
                if not proof.advance(race_only=True):
                    break
        finally:
            proof.end()
            self._count(time.perf_counter() - began)

    def _new_proof(self, incumbent: Incumbent, threads: int) -> Proof:
        assert self.prepared is not None
        self._finder = "ideals"
        self.proof = Proof(self.prepared, incumbent, threads, self.bound, self._ideals_prove)
        return self.proof

    def _count(self, seconds: float) -> None:
        self.ideals_s += seconds
        if self.proof is not None:
            self.counters |= {"nodes": self.proof.nodes, "rounds": self.proof.rounds}

    def _both(self, incumbent: Incumbent, knowledge: Knowledge) -> None:
        """Bounds here, searches in a second thread."""
        failure: list[BaseException] = []

        def search() -> None:
            try:
                self._search(incumbent, knowledge)
            except BaseException as error:
                failure.append(error)
                self.stop[0] = 1

        thread = threading.Thread(target=search, name="partita-ideals", daemon=True)
        thread.start()
        try:
            self._go_through_bounds(knowledge)
        except BaseException:
            self.stop[0] = 1
            raise
        finally:
            self._bounds_ended = True
            thread.join()
        if failure:
            raise failure[0]

    @staticmethod
    def _methods(knowledge: Knowledge) -> list[HierarchyBound]:
        """The bounds worth running."""
        return [method for method in HIERARCHY if method.name != ChargeBound.name or not _dense(knowledge)]

    def _go_through_bounds(self, knowledge: Knowledge) -> None:
        """The hierarchy, again and again with more time, or with a better split."""
        seconds = PASS_S
        while not self.done and not knowledge.done:
            left = self.monitor.remaining_s
            allowed = seconds if math.isinf(left) else left
            began, before = time.perf_counter(), (knowledge.bound, knowledge.value)
            run_hierarchy(knowledge, self._methods(knowledge), allowed)
            if time.perf_counter() - began < 0.5 * allowed and before == (knowledge.bound, knowledge.value):
                return
            seconds *= GROWTH

    def _search(self, incumbent: Incumbent, knowledge: Knowledge) -> None:
        """Annealing and the search over ideals in turn."""
        turn, alive = TURN_S, not _dense(knowledge)
        while not self.done and self._anneal(turn, alive):
            seconds = self._search_ideals(incumbent, knowledge) if alive else 0.0
            alive = seconds >= 0
            turn = max(TURN_S, seconds)

    def _anneal(self, seconds: float, alive: bool) -> bool:
        """A slice of annealing; false if nothing is left to do."""
        if self.search is None or self.search.closed:
            return alive
        if not alive and self._bounds_ended and self.search.rounds >= ROUNDS:
            return False
        if self.split is not None:
            self.search.offer(self._labels(self.split))
        self.search.low = max(self.search.low, self.bound)
        self.search.run(seconds)
        return True

    def _search_ideals(self, incumbent: Incumbent, knowledge: Knowledge) -> float:
        """One attempt of the search over ideals; its seconds, negative once it has nothing left to do."""
        began = time.perf_counter()
        proof = self.proof or self._new_proof(incumbent, 1)
        if self.split is not None and self.value < incumbent.value:
            incumbent.offer(self.value, self.split)
        charged = knowledge.charged
        items = None
        if charged is not None and (proof.charged is None or charged.target < proof.charged.target * (1 - 1e-3)):
            forced = np.zeros(self.prepared.instance.nets if self.prepared else 0, dtype=bool)
            forced[knowledge.uniform.kept] = charged.forced
            items = ChargedItems(charged.target, charged.work, forced)
        proof.learn(self.bound, items)
        if incumbent.split is None:
            self.infeasible = proof.start()
            self._end_if_closed()
        alive = not self.infeasible and proof.advance()
        seconds = time.perf_counter() - began
        self._count(seconds)
        return seconds if alive else -1.0

    def _alternate(self, incumbent: Incumbent, knowledge: Knowledge) -> None:
        """With one thread: searches and bounds in turn, with more and more time."""
        alive, seconds = not _dense(knowledge), PASS_S / 4
        while not self.done and not self.infeasible and self._anneal(seconds / 2, alive):
            if alive:
                alive = self._search_ideals(incumbent, knowledge) >= 0
            if not self.done and not self._bounds_ended:
                began, before = time.perf_counter(), (knowledge.bound, knowledge.value)
                run_hierarchy(knowledge, self._methods(knowledge), min(seconds, self.monitor.remaining_s))
                same = before == (knowledge.bound, knowledge.value)
                self._bounds_ended = knowledge.done or (same and time.perf_counter() - began < 0.5 * seconds)
            seconds *= 1.5


def _dense(knowledge: Knowledge) -> bool:
    return knowledge.uniform.items > LARGE and len(knowledge.uniform.succ) > DENSE
