"""The placement that serves most in its run: plans of large flow at the batches that paths leave, then moves on them.

The largest flow counts on full steps, but requests hold their caches at all machines of a path while they are at one:
on a path of D machines a step has a Dth of them. So the flow is looked for with rates of such steps, for several D,
with rates of full steps, and up to what is published; the rules of other systems give plans, too. All are simulated.
From the best, moves are tried that keep intervals in a row: a cut between layers shifts or goes, machines change
places, one joins others, leaves, or shares its layers with one of them. Few enough placements are all simulated.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator

import numpy as np

from partita.engines.search.incumbent import Incumbent
from partita.problems.layer_placement.instance import LayerInstance
from partita.problems.layer_placement.network import largest_flow
from partita.problems.layer_placement.pace import at_depth
from partita.problems.layer_placement.problem import LayerPlacement, LayerPlacementProblem
from partita.problems.layer_placement.rules import RULES
from partita.problems.layer_placement.served import served

#: Layers by machine.
Held = dict[int, tuple[int, int]]
_Key = tuple[tuple[int, tuple[int, int]], ...]

#: Placements that are simulated one and all.
_FEW = 5_000
#: Plans that moves begin from, moves in vain after which they end, and how far a cut shifts at most.
_STARTS, _PATIENCE, _FAR = 3, 400, 4
#: By how much shorter the requests of moves are.
_SHORTER = 5
#: Relative loss that a move may bring at first, and which part of it the next one may.
_LOSS, _SMALLER = 0.03, 0.99
#: Of the numbers of stages that flows are looked for with, the logarithms as parts of that of the machines.
_DEPTHS = (0.3, 0.5, 0.65, 0.8, 1.0)


class ServingSearch:
    """A search for the best answer of one problem.

    ``flow_plan`` finds a plan of a problem of the largest flow, or none, as the first of so many that are to come.
    """

    def __init__(
        self,
        instance: LayerInstance,
        best: Incumbent[LayerPlacement],
        seed: int,
        flow_plan: Callable[[LayerPlacementProblem, int], LayerPlacement | None],
    ) -> None:
        self.instance, self.best, self.flow_plan = instance, best, flow_plan
        #: By intervals what they serve, and what they seem to.
        self.known: dict[_Key, float] = {}
        self.seen: dict[_Key, float] = {}
        self.random = np.random.default_rng(seed)

    def worth(self, held: Held, by: str) -> float:
        """Tokens per second that intervals serve; they are offered."""
        key = tuple(sorted(held.items()))
        if key not in self.known:
            self.known[key] = self.instance.offer(self.best, held, by)
        return self.known[key]

    def search(self) -> None:
        """See the module."""
        if self.every():
            return
        starts = [(self.worth(held, by), by, held) for by, held in self.plans() if not self.best.done]
        starts.sort(key=lambda one: -one[0])
        for worth, _, held in starts[:_STARTS]:
            if worth > 0:
                self.moved(held)

    def every(self) -> bool:
        """Simulate all placements where they are few; whether they were."""
        layers = self.instance.layers
        choices = []
        for machine in self.instance.problem.machines:
            own = [(a, a + k) for k in machine.tokens_per_s if k <= layers for a in range(layers - k + 1)]
            choices.append([None, *own])
        if math.prod(len(own) for own in choices) > _FEW:
            return False
        for chosen in itertools.product(*choices):
            if self.best.done:
                return True
            self.worth({i: one for i, one in enumerate(chosen) if one is not None}, "all placements")
        if self.best.answer is None:
            self.best.refute("all placements")
        else:
            self.best.prove(self.best.value, "all placements")
        return True

    def plans(self) -> Iterator[tuple[str, Held]]:
        """Plans of rules, and of the largest flow with rates of several batches."""
        problem = self.instance.problem
        for one in RULES:
            yield one.name, dict(one.rule(self.instance))
        tried = [("largest flow", at_depth(problem, 1))]
        if problem.published is not None:
            tried.append(("flow as published", at_depth(problem, 1, problem.published.objective)))
        for part in self.faster():
            most = min(len(part.machines), self.instance.layers)
            depths = {max(2, round(most**share)) for share in _DEPTHS} | ({1} if part is not problem else set())
            tried += [(f"{depth} stages of {len(part.machines)}", at_depth(part, depth)) for depth in sorted(depths)]
        for left, (name, easier) in zip(range(len(tried), 0, -1), tried, strict=True):
            if self.best.done:
                return
            plan = self.flow_plan(easier, left)
            if plan is not None:
                number = {name: place for place, name in enumerate(self.instance.names)}
                yield name, {number[one.name]: one.layers for one in plan.machines}

    def faster(self) -> Iterator[LayerPlacementProblem]:
        """The problem, and those without the slowest kinds of machines that still hold all layers."""
        instance = self.instance
        kinds = sorted(instance.kinds, key=lambda own: -float(instance.rate[own[0]].max()))
        yield instance.problem
        for count in range(len(kinds) - 1, 0, -1):
            part = instance.part([i for own in kinds[:count] for i in own])
            if part.shortage() is None:
                yield part.replace(published=instance.problem.published)

    def glance(self, held: Held) -> float:
        """About the tokens per second that intervals serve, with shorter requests."""
        key = tuple(sorted(held.items()))
        if key not in self.seen:
            names = {self.instance.names[i]: layers for i, layers in held.items()}
            run = served(self.instance.problem, names, largest_flow(self.instance.problem, names), shorter=_SHORTER)
            self.seen[key] = 0.0 if run is None else run.tokens_per_s
        return self.seen[key]

    def moved(self, held: Held) -> None:
        """Moves from a plan, until many are in vain; small losses are taken at first."""
        worth = best = self.glance(held)
        loss, vain = _LOSS, 0
        while vain < _PATIENCE and not self.best.done:
            changed = self.move(held)
            vain += 1
            if changed is None:
                continue
            found = self.glance(changed)
            loss *= _SMALLER
            if found >= worth * (1 - loss):
                held, worth = changed, found
            if found > best:
                best, vain = found, 0
                self.worth(changed, "moves")

    def move(self, held: Held) -> Held | None:
        """A plan with one thing changed; None where the move drawn is not possible."""
        draw = self.random
        members = sorted(held)
        cuts = sorted({end for layers in held.values() for end in layers} - {0, self.instance.layers})
        kind = int(draw.integers(7))
        one, other = (members[n] for n in draw.integers(len(members), size=2).tolist())
        found = dict(held)
        if kind <= 1:
            if not cuts:
                return None
            cut = cuts[int(draw.integers(len(cuts)))]
            if kind == 0:
                new = cut + int(draw.integers(1, _FAR + 1)) * (1 if draw.integers(2) else -1)
                found = {i: (new if a == cut else a, new if b == cut else b) for i, (a, b) in held.items()}
            else:
                low = max((a for a, b in held.values() if b == cut), default=0)
                high = min((b for a, b in held.values() if a == cut), default=self.instance.layers)
                found = {i: (low if a == cut else a, high if b == cut else b) for i, (a, b) in held.items()}
        elif kind == 2:
            found[one], found[other] = held[other], held[one]
        elif kind == 3:
            joining = int(draw.integers(self.instance.count))
            found[joining] = held[one]
        elif kind == 4:
            del found[one]
        elif kind == 5:
            alike = next(own for own in self.instance.kinds if one in own)
            found = {i: layers for i, layers in held.items() if i not in alike}
        else:
            joining = int(draw.integers(self.instance.count))
            first, behind = held[one]
            if behind - first < 2 or joining == one:
                return None
            cut = int(draw.integers(first + 1, behind))
            found[one], found[joining] = (
                ((first, cut), (cut, behind))
                if draw.integers(2)
                else (
                    (cut, behind),
                    (first, cut),
                )
            )
        if found == held or any(a >= b for a, b in found.values()):
            return None
        machines, layers = self.instance.problem.machines, self.instance.layers
        fits = all(machines[i].passes(a, b, layers) for i, (a, b) in found.items())
        return found if fits else None
