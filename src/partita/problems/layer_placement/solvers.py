"""Rows of machines by annealing, chains, the arc-flow program, and the default: all of them beside the bounds."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from partita.engines.mip.solve import available, missing
from partita.engines.search.incumbent import Incumbent
from partita.engines.search.monitor import Monitor
from partita.ground.rounding import SUMMED
from partita.problems.kind import SearchOptions
from partita.problems.layer_placement.arc_flow import ArcFlow
from partita.problems.layer_placement.bounds.arc_flow import LARGEST, WITH_LINKS, ArcFlowBound
from partita.problems.layer_placement.bounds.area import LayerArea, most_by_area, seconds_per_token
from partita.problems.layer_placement.bounds.caches import CacheRoom, most_by_caches
from partita.problems.layer_placement.bounds.rows import Rows, SideBySide
from partita.problems.layer_placement.chains import FEW, any_row, best_chains, two_chains
from partita.problems.layer_placement.instance import LayerInstance
from partita.problems.layer_placement.local_search import PATIENCE, SHORT, LayerRowSearch
from partita.problems.layer_placement.options import Outcome, Solver
from partita.problems.layer_placement.problem import LayerPlacement, LayerPlacementProblem
from partita.problems.layer_placement.serving_search import ServingSearch
from partita.problems.outcome import searched

#: Chains that are tried, from the largest flow down.
_CHAINS = 12
#: Rounds of annealing before the slower proofs, and where the program with all links is as small as this.
_FIRST, _FEWER, _SMALL = 10, 3, 1_500
#: Variables up to which the program with all links may take all the time that there is.
_WITH_LINKS_AT_LAST = 40_000


class LayerPlacementSolver(Solver):
    """A solver that searches in the background, where counting does not show that there is no plan."""

    @abstractmethod
    def search(self, run: LayerPlacementRun) -> None:
        """Offer and prove what can be found, until the incumbent of the run is done."""

    def solve(self, problem: LayerPlacementProblem, options: SearchOptions, monitor: Monitor) -> Outcome:
        run = LayerPlacementRun(problem, options, monitor)

        def work() -> None:
            if problem.shortage() is None:
                self.search(run)
            else:
                run.best.refute("counting layers")

        outcome: Outcome = searched(run.best, monitor, work)
        monitor.statistics.counters["moves"] = run.annealing.trials
        return outcome


class LayerPlacementRun:
    """A problem, the best answer, and what solvers do with them; steps end early when the answer is done."""

    def __init__(self, problem: LayerPlacementProblem, options: SearchOptions, monitor: Monitor) -> None:
        self.instance, self.options, self.monitor = LayerInstance(problem), options, monitor
        self.best: Incumbent[LayerPlacement] = Incumbent()
        self.annealing = LayerRowSearch(self.instance, self.best, options.seed)

    @property
    def most(self) -> float:
        """The bound on the flow."""
        return 1.0 / self.best.bound if self.best.bound > 0 else most_by_area(self.instance)

    def prove(self, flow: float, by: str) -> None:
        """No plan has a larger flow."""
        value = seconds_per_token(flow)
        if math.isinf(value):
            self.best.refute(by)
        else:
            self.best.prove(value, by)

    def area(self) -> None:
        """The area bound."""
        self.prove(most_by_area(self.instance), LayerArea.name)

    def chains(self) -> None:
        """The best chains, until one is worth what it was made for."""
        for number, (flow, held) in enumerate(best_chains(self.instance)):
            worth = self.instance.offer(self.best, held, "chain")
            if self.best.done or number == _CHAINS or worth >= flow:
                break

    def chains_beside(self) -> None:
        """Two chains beside each other, where they have a larger flow than is known."""
        known = 0.0 if math.isinf(self.best.value) else 1.0 / self.best.value
        for number, (flow, held) in enumerate(two_chains(self.instance, known)):
            worth = self.instance.offer(self.best, held, "two chains")
            if self.best.done or number == _CHAINS or worth >= flow * (1 - SUMMED):
                break

    def apart(self) -> None:
        """Components of wide links beside each other: each by itself where it holds all layers, the others together."""
        instance, layers = self.instance, self.instance.layers
        parts = instance.components(self.most, range(instance.count))
        most = [sum(min(instance.problem.machines[i].most_layers, layers) for i in part) for part in parts]
        whole = [part for part, held in zip(parts, most, strict=True) if held >= layers]
        rest = [i for part, held in zip(parts, most, strict=True) if held < layers for i in part]
        if not self.best.done and len(whole) + bool(rest) > 1:
            self._beside([*whole, *([rest] if rest else [])], "components apart")

    def halves(self) -> None:
        """Two rows of machines beside each other, with half of the machines of every kind in every component each."""
        instance = self.instance
        halves: list[list[int]] = [[], []]
        for part in instance.components(self.most, range(instance.count)):
            for kind in instance.kinds:
                for place in sorted(set(part) & set(kind)):
                    halves[len(halves[0]) > len(halves[1])].append(place)
        if not self.best.done and halves[1]:
            self._beside(halves, "halves")

    def _beside(self, groups: list[list[int]], by: str) -> None:
        """Offer plans of groups of machines beside each other."""
        instance = self.instance
        held: dict[int, tuple[int, int]] = {}
        number = {name: place for place, name in enumerate(instance.names)}
        for members in groups:
            inside = LayerPlacementRun(instance.part(members), self.options, self.monitor)
            if inside.instance.problem.shortage() is not None:
                continue
            inside.area()
            inside.chains()
            inside.side_by_side()
            inside.annealing.run(lambda: self.best.done, rounds=_FIRST)
            if inside.best.answer is not None:
                held |= {number[one.name]: one.layers for one in inside.best.answer.machines}
        if held:
            instance.offer(self.best, held, by)

    def side_by_side(self) -> None:
        """The bound of machines side by side; it begins just above the best plan."""
        if available("highs") and not self.best.done:
            low = 0.0 if math.isinf(self.best.value) else 1.0 / self.best.value
            for flow in Rows(self.instance, lambda: self.best.done).falling(low, self.most):
                self.prove(flow, SideBySide.name)

    def any_flow(self) -> None:
        """Whether any tokens flow, where nothing was found and there are few machines."""
        if self.best.answer is None and self.instance.count <= FEW and not self.best.done:
            held = any_row(self.instance)
            if held is None:
                self.best.refute("all rows")
            else:
                self.instance.offer(self.best, held, "any row")

    def arc_flow(self, *, blind: bool) -> None:
        """The arc-flow program until it is solved."""
        if available("highs") and not self.best.done and self.most > 0:
            ArcFlow(self.instance, self.most, blind=blind).solve(
                self.monitor.remaining_s,
                lambda: self.best.done,
                lambda flow: self.prove(flow, ArcFlowBound.name),
                lambda held: self.instance.offer(self.best, held, "arc flow"),
                self.options.seed,
            )

    def flow_plan(self, problem: LayerPlacementProblem, left: int) -> LayerPlacement | None:
        """A plan of large flow of another problem, the first of so many; half of the time is for them all."""
        inside = LayerPlacementRun(problem, self.options, self.monitor)
        inside.quickly(lambda: self.best.done, self.monitor.remaining_s / 2 / left)
        return inside.best.answer

    def quickly(self, over: Callable[[], bool] = lambda: False, seconds: float = math.inf) -> None:
        """Plans of large flow, by chains and a little annealing."""
        if self.instance.problem.shortage() is not None:
            self.best.refute("counting layers")
            return
        self.area()
        self.chains()
        if not self.best.done:
            self.chains_beside()
        self.annealing.run(over, seconds=seconds, rounds=_FEWER)
        self.any_flow()

    def served(self) -> None:
        """Plans that serve most in their runs."""
        ServingSearch(self.instance, self.best, self.options.seed, self.flow_plan).search()


class LayerPlacementCombined(LayerPlacementSolver):
    """See ``search``."""

    name = "combined"
    summary = "chains, rows by annealing, bounds, and the arc-flow program: with all links for small problems"
    argument = (
        "machines side by side cost more than all have, branch and bound left no plan with a larger flow, or all rows "
        "of machines were tried"
    )

    def search(self, run: LayerPlacementRun) -> None:
        """The quick bounds and plans first; then the program beside the annealing, which has the other thread."""
        run.area()
        if run.instance.problem.worth == "served":
            run.prove(most_by_caches(run.instance), CacheRoom.name)
            run.side_by_side()
            run.served()
            return
        run.chains()
        run.side_by_side()
        if not run.best.done:
            run.chains_beside()
        size = ArcFlow.size(run.instance, blind=False)
        run.annealing.run(rounds=_FEWER if size <= _SMALL else _FIRST)
        run.any_flow()
        run.apart()
        if size > _SMALL:
            run.halves()
        run.side_by_side()
        if run.best.done:
            return
        if size <= WITH_LINKS:
            run.arc_flow(blind=False)
            return
        with ThreadPoolExecutor(1) as other:
            proof = other.submit(self._proof, run, size)
            run.annealing.run(patience=PATIENCE)
            proof.result()

    @staticmethod
    def _proof(run: LayerPlacementRun, size: int) -> None:
        if ArcFlow.size(run.instance, blind=True) <= LARGEST:
            run.arc_flow(blind=True)
        if size <= _WITH_LINKS_AT_LAST:
            run.arc_flow(blind=False)


class _LargestFlow(LayerPlacementSolver):
    """A part of the default that looks for the largest flow alone."""

    def supports(self, problem: LayerPlacementProblem, options: SearchOptions) -> str | None:
        return "it looks for the largest flow; use combined" if problem.worth == "served" else None


class LayerPlacementAnnealing(_LargestFlow):
    """See ``partita.problems.layer_placement.local_search``."""

    name = "row annealing"
    summary = "annealing on rows of machines, some side by side, for one flow after the other; proves nothing but area"
    argument = "all machines together do not pass as many tokens per second through as many layers"

    def search(self, run: LayerPlacementRun) -> None:
        run.area()
        run.annealing.run(patience=SHORT)


class LayerPlacementChain(_LargestFlow):
    """See ``partita.problems.layer_placement.chains``."""

    name = "chain"
    summary = "machines one after the other along wide links, at the largest rate that holds all layers"
    argument = "all machines together do not pass as many tokens per second through as many layers"

    def search(self, run: LayerPlacementRun) -> None:
        run.area()
        run.chains()


class LayerPlacementArcFlow(_LargestFlow):
    """See ``partita.problems.layer_placement.arc_flow``."""

    name = "arc flow"
    summary = "a mixed-integer program over positions between layers, with all links; exact, for small problems"
    argument = "branch and bound over who holds which layers left no plan with a larger flow"

    def supports(self, problem: LayerPlacementProblem, options: SearchOptions) -> str | None:
        other = super().supports(problem, options)
        if other is not None:
            return other
        size = ArcFlow.size(LayerInstance(problem), blind=False)
        if size > _WITH_LINKS_AT_LAST:
            return f"its program would have about {size} variables, and takes {_WITH_LINKS_AT_LAST}; use combined"
        return missing("highs")

    def search(self, run: LayerPlacementRun) -> None:
        run.area()
        run.chains()
        # The program may take long to its first plan.
        run.annealing.run(rounds=1)
        run.arc_flow(blind=False)
        run.any_flow()


#: The visible list.
DEFAULT_SOLVERS: tuple[Solver, ...] = (
    LayerPlacementCombined(),
    LayerPlacementAnnealing(),
    LayerPlacementChain(),
    LayerPlacementArcFlow(),
)
