"""Starts of a search: topological orders cut into pieces that take least time together, within the memory limit."""

from __future__ import annotations

import numpy as np

from partita.engines.kernels.arrays import Floats, Ints
from partita.engines.kernels.graph_arrays import csr, graph_of
from partita.engines.kernels.latency.slicing import slice_order
from partita.ground.dags import directed_graph
from partita.problems.latency.view import View


def merged_classes(view: View) -> tuple[list[list[int]], set[tuple[int, int]]]:
    """Colocation classes in groups that depend on each other both ways, and which group is read by which.

    Only forward operators make edges; backward ones follow their class (NeurIPS 2020, Appendices E and F).
    """
    import rustworkx

    of, part = view.arrays.group.of.tolist(), view.arrays.part
    links = ((u, v) for v in range(view.count) for u in view.before[v] if part[u] == 0 and part[v] == 0)
    edges = {(of[u], of[v]) for u, v in links if of[u] != of[v]}
    graph = directed_graph(len(view.classes), sorted(edges))
    groups = [sorted(one) for one in rustworkx.strongly_connected_components(graph)]
    home = {number: i for i, one in enumerate(groups) for number in one}
    return groups, {(home[x], home[y]) for x, y in edges if home[x] != home[y]}


class PieceSlicer:
    """Cuts orders of a problem's colocation classes; classes that depend on each other both ways stay together.

    For training, forward operators are cut, and backward ones follow their class; those without one go to the CPU.
    """

    def __init__(self, view: View) -> None:
        self.view = view
        merged, edges = merged_classes(view)
        #: Forward operators of every group, in topological order, and the groups that each reads.
        self.groups = [sorted(v for n in one for v in view.classes[n] if view.arrays.part[v] == 0) for one in merged]
        self.after: list[set[int]] = [set() for _ in merged]
        self.before: list[set[int]] = [set() for _ in merged]
        for x, y in edges:
            self.after[x].add(y)
            self.before[y].add(x)

    def order(self, random: np.random.Generator) -> list[int]:
        """An order of the groups, found from the last to the first: constants come right before their readers."""
        waiting = [len(row) for row in self.after]
        priority = random.random(len(waiting))
        deep = random.random() < 0.75
        ready = sorted((g for g, left in enumerate(waiting) if left == 0), key=lambda g: priority[g])
        found: list[int] = []
        while ready:
            g = ready.pop() if deep else ready.pop(int(random.integers(len(ready))))
            found.append(g)
            opened = []
            for b in self.before[g]:
                waiting[b] -= 1
                if waiting[b] == 0:
                    opened.append(b)
            # Constants are next, so that they stand beside their reader.
            ready += sorted(opened, key=lambda b: (not self.before[b], priority[b]))
        return found[::-1]

    def cut(self, order: list[int]) -> Ints:
        """The best placement along an order, by the sum of times."""
        view, a = self.view, self.view.arrays
        rows = [self.groups[g] for g in order]
        ptr, flat = csr(rows)
        slot = np.full(view.count, view.slots, np.int32)
        if view.slots == 0:
            return slot
        cpu = np.array([sum(a.cpu[v] for v in row) for row in rows])
        if view.passes == 1:
            pieces = slice_order(a, flat, ptr, cpu, view.problem.accelerators, False)
            for row, j in zip(rows, pieces.tolist(), strict=True):
                if j >= 0:
                    slot[row] = j * view.problem.pieces
            return slot
        home = np.full(len(view.classes), -1)
        for row, j in zip(rows, self._training(rows, flat, ptr, cpu), strict=True):
            home[a.group.of[row]] = j
        placed = home[a.group.of]
        return np.where(placed >= 0, (placed * view.passes + a.part) * view.problem.pieces, slot).astype(np.int32)

    def _training(self, rows: list[list[int]], flat: Ints, ptr: Ints, cpu: Floats) -> list[int]:
        """As ``slice_order`` on the forward part, every operator with the memory and the times of its whole class."""
        view, a = self.view, self.view.arrays
        keep = np.full(view.count, -1, np.int64)
        keep[flat] = np.arange(len(flat))
        mem, acc = np.zeros(view.count), np.zeros(view.count)
        for group in view.classes:
            first = next((v for v in group if a.part[v] == 0), None)
            if first is not None:
                mem[first] = sum(a.mem[v] for v in group)
                acc[first] = sum(a.acc[v] for v in group)
        pairs = [(int(keep[u]), int(keep[v])) for v in flat.tolist() for u in view.before[v] if keep[u] >= 0]
        smaller = a._replace(
            graph=graph_of(pairs, len(flat)), cpu=a.cpu[flat], acc=acc[flat], comm=a.comm[flat], mem=mem[flat]
        )
        order = np.arange(len(flat), dtype=np.int32)
        return [int(j) for j in slice_order(smaller, order, ptr, cpu, view.problem.accelerators, False)]
