"""Whole numbers of parts of columns in islands, of reaches, and of exchanges between islands.

Source: own; see ``partita.problems.mapping.bounds.columns``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from partita.problems.mapping.bounds.parts import Column, Island, Reach
from partita.problems.mapping.bounds.passages import Passages
from partita.problems.mapping.bounds.shares import Need, Shares, Terms


class PartProgram(Shares):
    """Parts, and the reaches of their members."""

    def __init__(
        self,
        column: Column,
        islands: list[Island],
        limit: float,
        stopping: Callable[[], bool],
        *,
        closed: bool = True,
    ) -> None:
        super().__init__(column.instance, islands, limit, closed=closed)
        self.column = column
        #: By stage, then island: replicas with their reach.
        self.reaching: list[list[list[tuple[frozenset[int], Reach, Terms]]]] = [
            [[] for _ in islands] for _ in range(self.instance.stages)
        ]
        #: By island, how often it has each part; and columns by the parts that they consist of.
        self.having: list[dict[frozenset[int], int]] = [{} for _ in islands]
        self.split: dict[tuple[frozenset[int], ...], int] = {}
        for i in range(len(islands)):
            if stopping():
                return
            self._fill(i)
        for row in self.held:
            self.model.add_row(
                [term for terms in row for term in terms], self.instance.replicas, self.instance.replicas
            )
        self._splits()
        for s, t in self.both:
            if s < t:
                self._exchanges(s, t)
        for one in Passages(self.instance, islands).blocked(limit):
            self.one_side(one)
        for s in range(self.instance.stages):
            if self.instance.partners[s]:
                self.flow_of_ring(s, list(self._in_ring(s)))

    def _fill(self, i: int) -> None:
        """Parts of an island, and the reaches of their members."""
        instance, island, room = self.instance, self.islands[i], len(self.islands[i].members)
        filled: Terms = []
        known: dict[tuple[int, frozenset[int]], tuple[Reach, ...]] = {}
        members: dict[tuple[int, frozenset[int]], tuple[tuple[Reach, ...], Terms]] = {}
        for part in self.column.parts or ():
            if len(part) > room:
                continue
            reaches: dict[int, tuple[Reach, ...]] = {}
            for s in part:
                key = s, part & self.column.partners[s]
                if key not in known:
                    known[key] = self.column.reaches(island, s, part, self.limit)
                if not known[key]:
                    break
                reaches[s] = known[key]
            if len(reaches) < len(part):
                continue
            z = self.model.add_count(min(instance.replicas, room // len(part)))
            self.having[i][part] = z
            filled.append((z, len(part)))
            for s in part:
                self.held[s][i].append((z, 1.0))
                inside = part & self.column.partners[s]
                members.setdefault((s, inside), (reaches[s], []))[1].append((z, 1.0))
                for t in inside:
                    self.both[s, t][i].append((z, 1.0))
        every = instance.devices == instance.count
        self.model.add_row(filled, room if every else -math.inf, room)
        for (s, inside), (reaches_of, terms) in members.items():
            if len(reaches_of) == 1:
                self.reaching[s][i].append((inside, reaches_of[0], terms))
                continue
            ways = []
            for reach in reaches_of:
                y = self.model.add_count(min(instance.replicas, room))
                ways.append((y, -1.0))
                self.reaching[s][i].append((inside, reach, [(y, 1.0)]))
            self.model.add_row([*terms, *ways], 0.0, 0.0)

    def _splits(self) -> None:
        """Parts make whole columns, in whichever islands they are."""
        those = {part for having in self.having for part in having}
        splits = self.column.splits(those)
        if splits is None:
            return
        uses: dict[frozenset[int], Terms] = {part: [] for part in those}
        for split in splits:
            n = self.split[split] = self.model.add_count(self.instance.replicas)
            for part in split:
                uses[part].append((n, -1.0))
        for part, terms in uses.items():
            self.model.add_row([*terms, *((row[part], 1.0) for row in self.having if part in row)], 0.0, 0.0)

    def _exchanges(self, s: int, t: int) -> None:
        """Replicas of two stages whose exchange leads from one island to another."""
        needs = [*self._needs(s, t), *self._needs(t, s)]
        if not needs:
            return
        count = len(self.islands)
        moved = {(i, j): self.between(i, j) for i in range(count) for j in range(count) if i != j}
        self.moved[s, t] = moved
        for i in range(count):
            others = [j for j in range(count) if j != i]
            for stage, ways in ((s, [moved[i, j] for j in others]), (t, [moved[j, i] for j in others])):
                ends = [(x, -1.0) for x in ways] + [(z, -c) for z, c in self.both[s, t][i]]
                self.model.add_row(self.held[stage][i] + ends, 0.0, 0.0)
        for stage, i, near, terms in needs:
            ways = [moved[i, j] if stage == s else moved[j, i] for j in near]
            self.model.add_row([*terms, *((x, -1.0) for x in ways)], upper=0.0)

    def _needs(self, s: int, t: int) -> Iterator[tuple[int, int, list[int], Terms]]:
        """By island and class short of the last: replicas of s whose partner in t, outside, has to be within it."""
        for i, island in enumerate(self.islands):
            near: list[int] = []
            for k in range(1, len(island.costs)):
                near = [*near, *island.classes[k - 1]]
                terms: Terms = []
                for inside, reach, those in self.reaching[s][i]:
                    outside = [u for u, _ in self.column.outside(s, inside)]
                    if t in outside and reach.partners[outside.index(t)] <= k:
                        terms += those
                if terms:
                    yield s, i, near, terms

    def _in_ring(self, s: int) -> Iterator[Need]:
        """By island and class short of the last: replicas of a stage whose ring has to be within it."""
        for i, island in enumerate(self.islands):
            near = [i]
            for k in range(len(island.costs)):
                terms = [term for _, reach, those in self.reaching[s][i] if reach.ring <= k for term in those]
                if terms:
                    yield i, near, terms
                near = [*near, *island.classes[k]]
