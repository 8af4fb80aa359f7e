"""What whole numbers of columns in islands have in common: rings, and cuts that they cross.

Source: own; see ``partita.problems.mapping.bounds.columns``.
"""

from __future__ import annotations

from collections.abc import Sequence

from partita.engines.mip.model import MixedProgram
from partita.problems.mapping.bounds.parts import Island
from partita.problems.mapping.bounds.passages import Blocked, Passages
from partita.problems.mapping.instance import MappingInstance

Terms = list[tuple[int, float]]
#: An island, those near to it with itself, and how many replicas there have both partners of their ring in these.
Need = tuple[int, Sequence[int], Terms]


class Shares:
    """Whole numbers that any mapping within a limit has; what counts columns, a subclass says."""

    def __init__(self, instance: MappingInstance, islands: list[Island], limit: float, *, closed: bool = True) -> None:
        self.model, self.instance, self.islands, self.limit = MixedProgram(), instance, islands, limit
        #: Whether rings lead back to the first column, and not on to columns that are not counted.
        self.closed = closed
        #: By stage, then island: replicas there.
        self.held: list[list[Terms]] = [[[] for _ in islands] for _ in range(instance.stages)]
        #: By pair of stages, then island: columns with both there.
        self.both: dict[tuple[int, int], list[Terms]] = {
            (s, t): [[] for _ in islands] for s in range(instance.stages) for t, _ in instance.exchanges(s)
        }
        #: By pair of stages, then pair of islands: columns with the one and the other there, as far as that is counted.
        self.moved: dict[tuple[int, int], dict[tuple[int, int], int]] = {}
        self.sides: list[int] = []  #: Variables for the sides of islands that rings cannot pass.

    def between(self, i: int, j: int) -> int:
        """A new variable for exchanges from one island to another."""
        room = min(len(self.islands[i].members), len(self.islands[j].members))
        return self.model.add_count(min(self.instance.replicas, room))

    def flow_of_ring(self, s: int, needs: Sequence[Need]) -> None:
        """Replicas of a stage by where the next one of the ring is; a need of the island alone is to stay inside."""
        count = len(self.islands)
        for i, near, terms in needs:
            if len(near) == 1:
                self._inside(s, i, terms)
        needs = [need for need in needs if len(self.islands[need[0]].costs) > 1]
        if not needs:
            return
        steps = {(i, j): self.between(i, j) for i in range(count) for j in range(count)}
        for i in range(count):
            for ends in ([steps[i, j] for j in range(count)], [steps[j, i] for j in range(count)]):
                self.model.add_row([*self.held[s][i], *((x, -1.0) for x in ends)], 0.0, 0.0)
        for i, near, terms in needs:
            ways = [(steps[i, j], -1.0) for j in near] + [(steps[j, i], -1.0) for j in near]
            self.model.add_row([*((x, 2.0 * c) for x, c in terms), *ways], upper=0.0)
        self._around(s, steps)

    def _around(self, s: int, steps: dict[tuple[int, int], int]) -> None:
        """A ring on both sides of a cut through the islands crosses it both ways.

        Cuts part nearer from further islands, as seen from the end of a row of them.
        """
        order, replicas = Passages(self.instance, self.islands).row, float(self.instance.replicas)
        for cut in range(1, len(order)):
            sides = order[:cut], order[cut:]
            used = []
            for side in sides:
                some = self.model.add_binary()
                used.append((some, -1.0))
                self.model.add_row([*(term for i in side for term in self.held[s][i]), (some, -replicas)], upper=0.0)
            for here, there in (sides, sides[::-1]):
                crossing = [(steps[i, j], 1.0) for i in here for j in there]
                self.model.add_row([*crossing, *used], lower=-1.0)

    def columns_in(self, stages: tuple[int, int], islands: Sequence[int]) -> Terms:
        """Columns with both stages in some islands, as far as they are counted."""
        moved = self.moved.get(stages, {})
        here = [term for i in islands for term in self.both[stages][i]]
        return [*here, *((moved[i, j], 1.0) for i in islands for j in islands if (i, j) in moved)]

    def one_side(self, blocked: Blocked) -> None:
        """No column has both stages on this side of some islands, or none has both on that side."""
        side, replicas = self.model.add_binary(), float(self.instance.replicas)
        self.sides.append(side)
        for islands, sign in ((blocked.before, 1.0), (blocked.behind, -1.0)):
            here = self.columns_in(blocked.stages, islands)
            self.model.add_row([*here, (side, -sign * replicas)], upper=0.0 if sign > 0 else replicas)

    def _inside(self, s: int, i: int, terms: Terms) -> None:
        """Rings that have to stay inside an island: unless all of it is there, runs have ends that do not."""
        room, replicas = len(self.islands[i].members), self.instance.replicas
        all_inside = self.closed and room >= replicas
        some = self.model.add_binary()
        most = replicas if all_inside else max(0, min(room, replicas) - 2)
        self.model.add_row([*terms, (some, -float(most))], upper=0.0)
        row = [*self.held[s][i], *((x, -c) for x, c in terms), (some, -2.0)]
        if all_inside:
            whole = self.model.add_binary()
            self.model.add_row([*self.held[s][i], (whole, -float(replicas))], lower=0.0)
            row.append((whole, 2.0))
        self.model.add_row(row, lower=0.0)
