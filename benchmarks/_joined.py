"""Two tables of one benchmark, joined row by row: what its figures were and are, and what became worse."""

from __future__ import annotations

import csv
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Row = dict[str, str]

#: What plans cost, by the names of columns: more is worse.
COSTS = {"objective", "latency", "makespan", "time_per_sample", "step", "placed", "busiest", "best"}
COSTS |= {"ours_s", "ours_ms", "optimum_ms"}
#: What plans bring: less is worse, and bounds beside it are from above.
YIELDS = {"tokens_per_s"}
BOUNDS = {"bound", "simple_bound"}
TIMES = {"s", "seconds", "CPU s", "wall_s", "time_s", "solver_s", "runtime_s", "processor_s", "traced_s", "measured_s"}
TIMES |= {"time_to_best_s", "time_to_proof_s", "made_s", "text_s", "time_line_s", "ready_s"}
MEMORY = {"MB", "peak_mb", "memory_mb", "memory_bytes", "grown_mb"}

#: Of values that are the same.
SAME = 1e-6
#: Times in rows below so many seconds, or longer by less than this share, say nothing.
LEAST_S, MORE = 0.5, 0.1

Role = Literal["cost", "yield", "bound", "gap", "time", "memory"]


def role_of(column: str) -> Role | None:
    """What the figures of a column are; None where it has none."""
    if column in COSTS:
        return "cost"
    if column in YIELDS:
        return "yield"
    if column in BOUNDS:
        return "bound"
    if column in TIMES or column.endswith((" seconds", "_planner_s")):
        return "time"
    if column in MEMORY:
        return "memory"
    return "gap" if column == "gap" or column.startswith("gap ") else None


def number(cell: str | None) -> float | None:
    """A figure; None where a cell is empty, or words."""
    text = cell or ""
    try:
        value = float(text.rstrip("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        return None
    return None if math.isnan(value) else value


def unit_of(cell: str) -> float:
    """What the last digit of a rounded figure stands for."""
    digits, _, power = cell.lower().partition("e")
    return 10.0 ** (int(power or 0) - len(digits.partition(".")[2]))


@dataclass(frozen=True)
class Pair:
    """A row of both tables, or of one; ``worse`` names its columns that became worse, ``slower`` those of times."""

    key: tuple[str, ...]
    before: Row | None
    now: Row | None
    worse: tuple[str, ...] = ()
    slower: tuple[str, ...] = ()


@dataclass(frozen=True)
class Joined:
    """Both tables: columns that say which row it is, columns of figures, and others whose cells differ, how often."""

    keys: tuple[str, ...]
    figures: tuple[str, ...]
    pairs: tuple[Pair, ...]
    others: dict[str, int]

    @property
    def worse(self) -> bool:
        """Whether an objective or a bound is worse, or a row is gone."""
        return any(pair.worse for pair in self.pairs)


def read(path: Path) -> list[Row]:
    """The rows of a CSV file; none where there is no file."""
    if not path.is_file():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def _measured(cells: Iterable[str]) -> bool:
    """Whether a column holds measurements: a number that is not whole."""
    return any(number(cell) is not None and not cell.strip().lstrip("+-").isdecimal() for cell in cells)


def keys_of(before: Sequence[Row], now: Sequence[Row]) -> tuple[str, ...]:
    """The first columns of words and whole numbers, as few as tell most rows of each table apart."""
    shared = [column for column in now[0] if column in before[0] and role_of(column) is None]
    shared = [column for column in shared if not _measured(row[column] for row in (*before, *now))]

    def told_apart(count: int) -> int:
        return sum(len({tuple(row[column] for column in shared[:count]) for row in rows}) for rows in (before, now))

    # Later columns may hold what was found, which tells a row from itself.
    return tuple(shared[: max(range(1, len(shared) + 1), key=told_apart, default=0)])


def _named(rows: Sequence[Row], keys: Sequence[str]) -> dict[tuple[str, ...], Row]:
    """Rows by their keys; of those with the same keys the first, the second, … belong together."""
    seen: Counter[tuple[str, ...]] = Counter()
    found = {}
    for row in rows:
        key = tuple(row[column] for column in keys)
        seen[key] += 1
        found[key if seen[key] == 1 else (*key, f"#{seen[key]}")] = row
    return found


def _is_worse(before: str, now: str, upwards: bool, rounded: bool) -> bool:
    """Whether a figure is worse; upwards: more is worse. ``rounded``: one of them may be written with few digits."""
    old, new = number(before), number(now)
    if old is None or new is None:
        return old is not None
    if math.isinf(old) or math.isinf(new):
        return new > old if upwards else new < old
    slack = SAME * abs(old) + (1.001 * max(unit_of(before), unit_of(now)) / 2 if rounded else 0.0)
    return (new - old if upwards else old - new) > slack


def judged(pair: Pair, figures: Sequence[str], rounded: bool) -> Pair:
    """What became worse in a row of both tables."""
    if pair.before is None or pair.now is None:
        return pair
    # A bound from above belongs to what plans bring.
    above = any(role_of(column) == "yield" for column in figures)
    worse, slower = [], []
    for column in figures:
        before, now, role = pair.before[column], pair.now[column], role_of(column)
        if role in ("cost", "yield", "bound"):
            if _is_worse(before, now, role == "cost" or (role == "bound" and above), rounded):
                worse.append(column)
        elif role == "time":
            old, new = number(before), number(now)
            if old is not None and new is not None and max(old, new) > LEAST_S and new > (1 + MORE) * old:
                slower.append(column)
    return Pair(pair.key, pair.before, pair.now, tuple(worse), tuple(slower))


def join(before: Sequence[Row], now: Sequence[Row], *, other_script: bool = False) -> Joined:
    """Join two tables, and judge what is in both.

    A row that is gone is worse, and so is a figure that is gone. Where the rows of before are of another script, they
    may be others and rounded: what is gone is then no loss, and values that may be rounded to the same are the same.
    """
    if not before or not now:
        keys = tuple((before or now)[0]) if before or now else ()
        keys = tuple(column for column in keys if role_of(column) is None)
    else:
        keys = keys_of(before, now)
    old, new = _named(before, keys), _named(now, keys)
    shared = [column for column in now[0] if column in before[0] and column not in keys] if before and now else []
    figures = tuple(column for column in shared if role_of(column) is not None)
    pairs = [judged(Pair(key, old.get(key), row), figures, other_script) for key, row in new.items()]
    gone = () if other_script else ("the row is gone",)
    pairs += [Pair(key, row, None, worse=gone) for key, row in old.items() if key not in new]
    both = [(pair.before, pair.now) for pair in pairs if pair.before is not None and pair.now is not None]
    others = {c: sum(a[c] != b[c] for a, b in both) for c in shared if c not in figures}
    return Joined(keys, figures, tuple(pairs), {column: count for column, count in others.items() if count})


def _shown(cell: str) -> str:
    value = number(cell)
    return (cell or "-") if value is None else f"{value:.6g}"


def verdict(pair: Pair) -> str:
    """What is to say of a row."""
    if pair.before is None:
        return "new"
    if pair.now is None and not pair.worse:
        return "only before"
    parts = [f"{word}: {', '.join(names)}" for word, names in (("WORSE", pair.worse), ("slower", pair.slower)) if names]
    return "; ".join(parts)


def lines(joined: Joined) -> list[str]:
    """The table for people, before | now in each cell, with sums of times and what else differs."""
    heads = [*joined.keys, *joined.figures, ""]
    table = [heads]
    for pair in joined.pairs:
        old, new = pair.before or {}, pair.now or {}
        cells = [f"{_shown(old.get(column, ''))} | {_shown(new.get(column, ''))}" for column in joined.figures]
        key = [*pair.key, *[""] * (len(joined.keys) - len(pair.key))]
        # What tells rows of the same key apart is beyond the columns.
        table.append([*key[: len(joined.keys)], *cells, " ".join([*key[len(joined.keys) :], verdict(pair)])])
    widths = [max(len(row[place]) for row in table) for place in range(len(heads))]
    said = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table]
    for column in joined.figures:
        pairs = [(p.before[column], p.now[column]) for p in joined.pairs if p.before and p.now]
        times = [(a, b) for a, b in ((number(a), number(b)) for a, b in pairs) if a is not None and b is not None]
        if role_of(column) == "time" and times:
            old_s, new_s = sum(a for a, _ in times), sum(b for _, b in times)
            change = f" ({new_s / old_s - 1:+.0%})" if old_s else ""
            said.append(f"sum of {column}: {old_s:.4g} before, {new_s:.4g} now{change}")
    said += [f"{column} differs in {count} of {len(joined.pairs)} rows" for column, count in joined.others.items()]
    return said


def as_rows(joined: Joined) -> list[dict[str, str]]:
    """The table for programs: figures before and now in columns of their own."""
    found = []
    for pair in joined.pairs:
        row = dict(zip(joined.keys, pair.key, strict=False))
        for column in joined.figures:
            for word, side in (("before", pair.before), ("now", pair.now)):
                row[f"{column} {word}"] = "" if side is None else side[column]
        found.append(row | {"verdict": verdict(pair)})
    return found
