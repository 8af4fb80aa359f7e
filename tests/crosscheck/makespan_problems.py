"""Random makespan problems for checking solvers and bounds against one another, most of them with separators.

Each draw is of one family: a *shape* (a chain of blocks, a chain whose blocks repeat, a graph without separators, the
relays of a model), a *kind of numbers* (small integers, where everything ties; halves with zeros; thirds; ratios of up
to 10¹²; a few long operators among short ones), and *limits* (devices an operator cannot run on, memory that binds,
classes within blocks and across them, pairs and flows past separators, switches).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from partita.problems.makespan.problem import Device, MakespanFlow, MakespanOperator, MakespanProblem

__all__ = ["FAMILIES", "TINY", "problems"]

#: What operators say they are, for those who fuse them.
TYPES = ("conv", "relu", "add", "")

Row = tuple[float | None, ...]
Table = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Family:
    """What a draw is like.

    Attributes
    ----------
    shape
        ``blocks``, ``repeated``, ``relays`` or ``graph``.
    numbers
        A name of ``NUMBERS``.
    blocked
        How likely it is that an operator cannot run on a device; separators twice as likely.
    memory, classes, past, switches
        Whether there are limits that bind, colocation classes, pairs and flows past separators, and switches off.
    most
        Operators of the largest draw, about.
    """

    shape: str = "blocks"
    numbers: str = "small"
    blocked: float = 0.0
    memory: bool = False
    classes: bool = False
    past: bool = False
    switches: bool = False
    most: int = 12


#: Times of operators and flows by kind of numbers.
NUMBERS: dict[str, Callable[[random.Random], float]] = {
    "small": lambda rng: float(rng.randint(1, 9)),
    "ties": lambda rng: float(rng.choice((1, 1, 1, 2))),
    "zeros": lambda rng: rng.choice((0.0, 0.0, 0.5, 1.0, 1.5)),
    "thirds": lambda rng: rng.randint(0, 9) / 3,
    "real": lambda rng: rng.lognormvariate(0.0, 1.0),
    "ratios": lambda rng: 10.0 ** rng.uniform(-6.0, 6.0),
    "powers": lambda rng: rng.choice((0.0, 1e-6, 1.0, 1e3, 1e6)) * rng.randint(1, 3),
    "giants": lambda rng: rng.choice((1.0, 2.0, 3.0, 1e12)),
    "seconds": lambda rng: rng.uniform(1e-7, 1e-4),
}

_FAMILIES: dict[str, Family] = {
    "blocks": Family(),
    "repeated": Family(shape="repeated", blocked=0.3, most=16),
    "repeated ties": Family(shape="repeated", numbers="ties", blocked=0.4, most=16),
    "repeated zeros": Family(shape="repeated", numbers="zeros", blocked=0.3, past=True, most=14),
    "repeated real": Family(shape="repeated", numbers="real", blocked=0.2, switches=True, most=14),
    "repeated memory": Family(shape="repeated", blocked=0.15, memory=True, classes=True, most=12),
    "zeros": Family(numbers="zeros", blocked=0.2, switches=True),
    "ties": Family(numbers="ties", blocked=0.2, switches=True),
    "thirds": Family(numbers="thirds", blocked=0.1, past=True),
    "ratios": Family(numbers="ratios", blocked=0.1, switches=True),
    "powers": Family(numbers="powers", blocked=0.2, past=True),
    "giants": Family(numbers="giants", blocked=0.2, most=10),
    "seconds": Family(numbers="seconds", memory=True, classes=True),
    "memory": Family(blocked=0.1, memory=True, classes=True),
    "memory real": Family(numbers="real", memory=True, switches=True),
    "classes": Family(numbers="zeros", blocked=0.1, classes=True, past=True, switches=True),
    "past": Family(shape="repeated", numbers="small", past=True, switches=True),
    "relays": Family(shape="relays", numbers="small", blocked=0.1, memory=True, classes=True),
    "relays real": Family(shape="relays", numbers="real", blocked=0.2, classes=True),
    "graph": Family(shape="graph", blocked=0.1, switches=True, most=9),
    "graph memory": Family(shape="graph", numbers="thirds", blocked=0.1, memory=True, classes=True, most=9),
    "graph ratios": Family(shape="graph", numbers="ratios", memory=True, switches=True, most=8),
    "graph zeros": Family(shape="graph", numbers="zeros", blocked=0.2, classes=True, switches=True, most=9),
    "tiny": Family(blocked=0.3, numbers="zeros", memory=True, classes=True, past=True, switches=True, most=5),
    "tiny ratios": Family(numbers="ratios", blocked=0.2, memory=True, classes=True, past=True, switches=True, most=5),
    "tiny repeated": Family(shape="repeated", numbers="small", blocked=0.4, most=7),
}


#: Of those the ones that are small enough to try everything slowly.
TINY = ("tiny", "tiny ratios", "tiny repeated")


def problems(rng: random.Random) -> MakespanProblem:
    """One problem of a family that is drawn, too; its name says which."""
    return FAMILIES[rng.choice(list(FAMILIES))](rng)


def _drawn(name: str, rng: random.Random) -> MakespanProblem:
    return _Draw(_FAMILIES[name], rng).made(name)


FAMILIES: dict[str, Callable[[random.Random], MakespanProblem]] = {name: partial(_drawn, name) for name in _FAMILIES}


@dataclass
class _Draw:
    """A problem in the making: operators, edges that are flows or pairs, and the ends of blocks."""

    family: Family
    rng: random.Random
    times: list[Row] = field(default_factory=list)
    flows: list[tuple[int, int, Table]] = field(default_factory=list)
    pairs: list[tuple[int, int]] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    parts: list[list[int]] = field(default_factory=list)

    def made(self, name: str) -> MakespanProblem:
        rng, family = self.rng, self.family
        self.width = rng.choice((2, 2, 3, 3, 4)) if family.most > 6 else rng.choice((2, 2, 3))
        {"blocks": self._blocks, "repeated": self._repeated, "relays": self._relays, "graph": self._graph}[
            family.shape
        ]()
        if family.past:
            self._past()
        count = len(self.times)
        classes = self._classes() if family.classes else [None] * count
        memory, limits = self._memory(classes) if family.memory else ([0.0] * count, [None] * self.width)
        ids = rng.sample(range(2 * count), count) if rng.random() < 0.3 else list(range(count))
        switches = [not family.switches or rng.random() < 0.6 for _ in range(3)]
        if family.switches and rng.random() < 0.1:
            switches = [False] * 3
        return MakespanProblem(
            name=name,
            unit="ms",
            devices=tuple(Device(name=f"d{d}", memory=limit) for d, limit in enumerate(limits)),
            operators=tuple(
                MakespanOperator(id=ids[v], times=row, memory=memory[v], colocation=classes[v], type=rng.choice(TYPES))
                for v, row in enumerate(self.times)
            ),
            flows=tuple(
                MakespanFlow(id=f, source=ids[u], target=ids[v], times=table)
                for f, (u, v, table) in enumerate(self.flows)
            ),
            precedence=tuple((ids[u], ids[v]) for u, v in self.pairs),
            sender_congestion=switches[0],
            receiver_congestion=switches[1],
            serial_operators=switches[2],
        )

    def _time(self) -> float:
        return NUMBERS[self.family.numbers](self.rng)

    def _row(self, blocked: float) -> Row:
        row: list[float | None] = [None if self.rng.random() < blocked else self._time() for _ in range(self.width)]
        if all(time is None for time in row):
            row[self.rng.randrange(self.width)] = self._time()
        return tuple(row)

    def _table(self) -> Table:
        if self.rng.random() < 0.1:
            return ((0.0,) * self.width,) * self.width
        return tuple(tuple(0.0 if a == b else self._time() for b in range(self.width)) for a in range(self.width))

    def _operator(self, row: Row) -> int:
        self.times.append(row)
        return len(self.times) - 1

    def _separator(self) -> int:
        """An operator between blocks; now and then it takes no time."""
        row = self._row(min(0.9, 2 * self.family.blocked))
        if self.rng.random() < 0.25:
            row = tuple(None if time is None else 0.0 for time in row)
        self.ends.append(self._operator(row))
        return self.ends[-1]

    def _inside(self) -> tuple[list[Row], list[tuple[int, int, Table | None]]]:
        """A block: operators, and edges between them, of the entry (−1) and of the exit (their number)."""
        rng, count = self.rng, self.rng.choice((0, 1, 1, 2, 2, 3, 4))
        rows = [self._row(self.family.blocked) for _ in range(count)]
        shared = self._table() if rng.random() < 0.4 else None

        def table() -> Table | None:
            return None if rng.random() < 0.1 else shared or self._table()

        edges: list[tuple[int, int, Table | None]] = []
        for v in range(count):
            before = [u for u in range(v) if rng.random() < 0.35]
            edges += [(u, v, table()) for u in before or [-1]]
        closed = {u for u, _, _ in edges}
        edges += [(v, count, table()) for v in range(count) if v not in closed]
        if not count or rng.random() < 0.2:
            edges.append((-1, count, table()))
        return rows, edges

    def _join(self, inside: tuple[list[Row], list[tuple[int, int, Table | None]]]) -> None:
        """A block and the separator after it."""
        rows, edges = inside
        entry = self.ends[-1]
        members = [self._operator(row) for row in rows]
        self.parts.append(members)
        exit_ = self._separator()
        place = {-1: entry, len(rows): exit_} | dict(enumerate(members))
        for u, v, table in edges:
            if table is None:
                self.pairs.append((place[u], place[v]))
            else:
                self.flows.append((place[u], place[v], table))

    def _blocks(self) -> None:
        self._separator()
        while len(self.times) < max(3, self.rng.uniform(0.4, 1.0) * self.family.most):
            self._join(self._inside())
        if self.rng.random() < 0.3:
            self._loose_end()

    def _loose_end(self) -> None:
        """Operators after the last separator."""
        members = []
        for _ in range(self.rng.randint(1, 2)):
            members.append(self._operator(self._row(self.family.blocked)))
            self.flows.append((self.ends[-1], members[-1], self._table()))
        self.parts.append(members)

    def _repeated(self) -> None:
        """Blocks of one or two kinds, between separators of their own."""
        kinds = [self._inside() for _ in range(self.rng.choice((1, 1, 2)))]
        self._separator()
        while len(self.times) < max(4, self.rng.uniform(0.5, 1.0) * self.family.most):
            kind = self.rng.choice(kinds)
            kinds = [self._inside()] if not kind[0] and len(kinds) == 1 else kinds
            self._join(kind)

    def _relays(self) -> None:
        """Blocks whose entry is handed on by operators without time, as those of models are."""
        self._separator()
        while len(self.times) < max(4, self.rng.uniform(0.4, 1.0) * self.family.most):
            entry, table = self.ends[-1], self._table()
            members = [self._operator(self._row(self.family.blocked)) for _ in range(self.rng.randint(2, 3))]
            relays = [self._operator((0.0,) * self.width) for _ in members[1:]]
            holder = entry
            for k, v in enumerate(members):
                if k < len(relays):
                    self.flows.append((holder, relays[k], table))
                    holder = relays[k]
                self.flows.append((holder, v, table))
            self.parts.append(members + relays)
            exit_ = self._separator()
            self.flows += [(v, exit_, self._table()) for v in members]

    def _graph(self) -> None:
        """Edges from earlier to later operators."""
        rng, count = self.rng, self.rng.randint(2, self.family.most)
        for _ in range(count):
            self._operator(self._row(self.family.blocked))
        self.parts.append(list(range(count)))
        for v in range(1, count):
            for u in rng.sample(range(v), min(v, rng.choice((0, 1, 1, 2)))):
                if rng.random() < 0.85:
                    self.flows.append((u, v, self._table()))
                else:
                    self.pairs.append((u, v))

    def _past(self) -> None:
        """Pairs past separators, which change nothing, and now and then a flow, which does."""
        for _ in range(self.rng.randint(1, 3)):
            u, v = sorted(self.rng.sample(range(len(self.times)), 2))
            if self.rng.random() < 0.75:
                self.pairs.append((self.rng.choice([u, *(e for e in self.ends if e < v)]), v))
            elif self._reaches(u, v):
                self.flows.append((u, v, self._table()))
        # Operators of a later block come later in the list, but some of one block do not follow each other.
        self.pairs = [(u, v) for u, v in self.pairs if u < v and not self._reaches(v, u)]

    def _reaches(self, u: int, v: int) -> bool:
        after: dict[int, list[int]] = {}
        for source, target in [(a, b) for a, b, _ in self.flows] + self.pairs:
            after.setdefault(source, []).append(target)
        found, rest = {u}, [u]
        while rest:
            rest += (new := [w for w in after.get(rest.pop(), []) if w not in found])
            found.update(new)
        return v in found

    def _classes(self) -> list[int | None]:
        """Classes of a few operators: of one block, of several, with a separator, or two separators."""
        rng, found = self.rng, [None] * len(self.times)
        classes: list[int | None] = list(found)
        for number in range(rng.choice((0, 1, 1, 2, 3))):
            pool = rng.choice(
                (
                    list(range(len(self.times))),
                    rng.choice(self.parts) if self.parts else [],
                    self.ends,
                    [*self.ends[:1], *(rng.choice(self.parts) if self.parts else [])],
                )
            )
            for v in rng.sample(pool, min(len(pool), rng.choice((2, 2, 3)))):
                classes[v] = 7 * number
        return classes

    def _memory(self, classes: list[int | None]) -> tuple[list[float], list[float | None]]:
        """What operators hold, and limits that a random placement of theirs just keeps, or nearly does."""
        rng, count = self.rng, len(self.times)
        whole = rng.random() < 0.6
        unit = rng.choice((1.0, 1.0, 1e9, 1e-3))
        memory = [
            0.0 if rng.random() < 0.2 else (rng.randint(1, 6) if whole else rng.lognormvariate(0.0, 1.0)) * unit
            for _ in range(count)
        ]
        homes: dict[int | None, int] = {}
        held = [0.0] * self.width
        for v in range(count):
            able = [d for d, time in enumerate(self.times[v]) if time is not None]
            home = rng.choice(able)
            if classes[v] is not None:
                home = homes.setdefault(classes[v], home)
            held[home] += memory[v]
        slack = rng.choice((1.0, 1.0, 1.0, 1.2, 1.5, 0.95, 1 - 1e-9, 1 - 8e-10, 1 - 1e-7))
        limits = [None if rng.random() < 0.15 else h * slack for h in held]
        return memory, limits
