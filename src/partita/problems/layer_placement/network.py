"""The network of tokens that intervals make, and a largest flow in it, in whole numbers and so without rounding.

Every machine is an arc as wide as its table says; links are arcs where the rule lets tokens pass. The widths, which are
binary fractions, are multiplied by their common denominator. Shortest augmenting paths: Edmonds and Karp, "Theoretical
improvements in algorithmic efficiency for network flow problems" (Journal of the ACM 19, 1972).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import NamedTuple

from partita.problems.layer_placement.problem import SINK, SOURCE, LayerPlacementProblem

#: The layers of machines by name: the first, and the one behind the last.
Intervals = Mapping[str, tuple[int, int]]


class LargestFlow(NamedTuple):
    """A largest flow: its worth, what each link and each machine carries, and a least cut, all tokens per second."""

    worth: Fraction
    links: dict[tuple[str, str], Fraction]
    machines: dict[str, Fraction]
    cut_links: tuple[tuple[str, str], ...]  #: Those of a least cut, the one that is nearest to the source.
    cut_machines: tuple[str, ...]


def may_pass(problem: LayerPlacementProblem, held: Intervals, source: str, target: str) -> bool:
    """Whether tokens that leave one machine, or the source, may enter the next, or the sink."""
    if (source != SOURCE and source not in held) or (target != SINK and target not in held):
        return False
    end = 0 if source == SOURCE else held[source][1]
    if target == SINK:
        return end == problem.layers
    first, behind = held[target]
    return first <= end < behind if problem.overlap else first == end


def arcs(problem: LayerPlacementProblem, held: Intervals) -> Iterator[tuple[str, str, float]]:
    """The links that tokens may take, with what they carry."""
    for link in problem.links:
        if may_pass(problem, held, link.source, link.target):
            yield link.source, link.target, link.tokens_per_s


def rates(problem: LayerPlacementProblem, held: Intervals) -> dict[str, float]:
    """What every machine passes with the layers that it holds; nothing with a number that its table lacks."""
    machines = {machine.name: machine for machine in problem.machines}
    return {name: machines[name].passes(*layers, problem.layers) or 0.0 for name, layers in held.items()}


def largest_flow(problem: LayerPlacementProblem, held: Intervals) -> LargestFlow:
    """See the module."""
    passes = rates(problem, held)
    links = list(arcs(problem, held))
    widths = [*passes.values(), *(width for _, _, width in links)]
    scale = max((Fraction(width).denominator for width in widths), default=1)
    number: dict[str, int] = {SOURCE: 0, SINK: 1}
    for name in held:
        number[name] = 2 * len(number) - 2
    # Of a machine's two nodes the first takes in, the second hands on.
    network = _Network(2 * len(held) + 2)
    for name, rate in passes.items():
        network.add(number[name], number[name] + 1, int(Fraction(rate) * scale))
    for source, target, width in links:
        network.add(number[source] + (source != SOURCE), number[target], int(Fraction(width) * scale))
    worth = network.fill(0, 1)
    used = [Fraction(network.room[2 * arc + 1], scale) for arc in range(len(passes) + len(links))]
    near = network.reached(0)

    def cut(a: int, b: int) -> bool:
        return near[a] and not near[b]

    return LargestFlow(
        Fraction(worth, scale),
        {(s, t): flow for (s, t, _), flow in zip(links, used[len(passes) :], strict=True) if flow},
        dict(zip(passes, used, strict=False)),
        tuple((s, t) for s, t, _ in links if cut(number[s] + (s != SOURCE), number[t])),
        tuple(name for name in passes if cut(number[name], number[name] + 1)),
    )


class _Network:
    """Arcs in pairs, forth and back: the flow of the forward one is the room of the backward one."""

    def __init__(self, nodes: int) -> None:
        self.out: list[list[int]] = [[] for _ in range(nodes)]
        self.head: list[int] = []
        self.room: list[int] = []

    def add(self, tail: int, head: int, width: int) -> None:
        for a, b, room in ((tail, head, width), (head, tail, 0)):
            self.out[a].append(len(self.head))
            self.head.append(b)
            self.room.append(room)

    def _search(self, start: int) -> list[int]:
        """By node the arc that it is reached over on a shortest path, −1 for none, −2 for the start."""
        over = [-1] * len(self.out)
        over[start] = -2
        queue = deque([start])
        while queue:
            for arc in self.out[queue.popleft()]:
                if self.room[arc] and over[self.head[arc]] == -1:
                    over[self.head[arc]] = arc
                    queue.append(self.head[arc])
        return over

    def reached(self, start: int) -> list[bool]:
        return [arc != -1 for arc in self._search(start)]

    def fill(self, start: int, end: int) -> int:
        worth = 0
        while (over := self._search(start))[end] != -1:
            path, node = [], end
            while node != start:
                path.append(over[node])
                node = self.head[over[node] ^ 1]
            more = min(self.room[arc] for arc in path)
            for arc in path:
                self.room[arc] -= more
                self.room[arc ^ 1] += more
            worth += more
        return worth
