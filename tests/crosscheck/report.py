"""What a run of the cross-check shows and keeps: a table, the components, and a file for every contradiction."""

from __future__ import annotations

import csv
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from crosscheck.workers import Checked, Minimised
from partita.documents.stated import write_problem
from partita.problems import find_kind

__all__ = ["Tally", "write_found"]

HEAD = ("problem", "instances", "tried whole", "runs", "compared", "refused", "contradictions")


@dataclass
class _Component:
    """What one component was asked, and said."""

    runs: int = 0
    refused: int = 0
    claims: int = 0
    plans: int = 0
    seconds: float = 0.0
    longest_s: float = 0.0
    longest_over_s: float = 0.0


@dataclass
class Tally:
    """Counts by problem and by component.

    ``whole`` counts instances on which everything was tried; ``refused`` what components refuse as they declare;
    ``wrong`` every contradiction, minimised or not. Instances that nobody was asked about are not counted.
    """

    instances: Counter[str] = field(default_factory=Counter)
    whole: Counter[str] = field(default_factory=Counter)
    runs: Counter[str] = field(default_factory=Counter)
    compared: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    families: Counter[tuple[str, str]] = field(default_factory=Counter)
    components: dict[tuple[str, str, str], _Component] = field(default_factory=dict)

    def add(self, checked: Checked) -> None:
        """Count one instance."""
        name = checked.instance.kind
        if not checked.said and not checked.wrong:
            return
        self.instances[name] += 1
        self.whole[name] += any(said.part.role == "everything" and said.claims for said in checked.said)
        self.families[name, checked.instance.family] += 1
        self.compared[name] += checked.compared
        self.wrong[name] += len(checked.wrong)
        for said in checked.said:
            one = self.components.setdefault((name, said.part.role, said.part.name), _Component())
            if said.refused:
                self.refused[name] += 1
                one.refused += 1
                continue
            self.runs[name] += 1
            one.runs += 1
            one.claims += len(said.claims)
            one.plans += len(said.plans)
            one.seconds += said.seconds
            one.longest_s = max(one.longest_s, said.seconds)
            one.longest_over_s = max(one.longest_over_s, said.seconds - said.part.limit_s)

    def rows(self) -> list[tuple[str, int, int, int, int, int, int]]:
        """By problem: instances, those tried whole, runs, claims compared with plans, refused, contradictions."""
        names = sorted(self.instances)
        tables = (self.instances, self.whole, self.runs, self.compared, self.refused, self.wrong)
        return [(name, *(table[name] for table in tables)) for name in names]

    def table(self) -> str:
        """The same for people."""
        lines = [HEAD, *(tuple(map(str, row)) for row in self.rows())]
        widths = [max(len(line[place]) for line in lines) for place in range(len(HEAD))]
        return "\n".join(
            "  ".join(
                text.ljust(width) if place == 0 else text.rjust(width)
                for place, (text, width) in enumerate(zip(line, widths, strict=True))
            )
            for line in lines
        )

    def write(self, folder: Path) -> None:
        """As ``summary.csv``, ``families.csv`` and ``components.csv``."""
        folder.mkdir(parents=True, exist_ok=True)
        _write(folder / "summary.csv", HEAD, self.rows())
        _write(
            folder / "families.csv",
            ("problem", "family", "instances"),
            [(*key, count) for key, count in sorted(self.families.items())],
        )
        _write(
            folder / "components.csv",
            (
                "problem",
                "role",
                "component",
                "runs",
                "refused",
                "claims",
                "plans",
                "seconds",
                "longest_s",
                "longest_over_limit_s",
            ),
            [
                (
                    *key,
                    one.runs,
                    one.refused,
                    one.claims,
                    one.plans,
                    f"{one.seconds:.2f}",
                    f"{one.longest_s:.2f}",
                    f"{one.longest_over_s:.2f}",
                )
                for key, one in sorted(self.components.items())
            ],
        )


def _write(
    path: Path, head: tuple[str, ...], rows: list[tuple[object, ...]] | list[tuple[str, int, int, int, int, int, int]]
) -> None:
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(head)
        writer.writerows(rows)


def write_found(folder: Path, found: Minimised) -> tuple[Path, str]:
    """The file of a minimised instance, which ``partita solve`` reads, and the line that says what is wrong with it."""
    folder.mkdir(parents=True, exist_ok=True)
    instance, wrong = found.instance, found.shown or found.wrong
    problem = msgspec.json.decode(found.problem, type=find_kind(instance.kind).problem)
    words = re.sub(r"[^a-z0-9]+", "-", f"{wrong.sort} {wrong.by}".lower()).strip("-")
    origin = Path(instance.path).stem or instance.kind
    path = folder / f"{origin}-{instance.seed}-{instance.number}-{words}.json"
    write_problem(path, problem.replace(name=path.stem) if hasattr(problem, "replace") else problem)
    note = "" if found.shown else " (not shown again: it depends on the clock; the file is the instance as drawn)"
    line = f"{instance}: {wrong}{note}"
    with (folder / "contradictions.txt").open("a") as stream:
        stream.write(f"{path.name}: {line}\n    as drawn: {found.wrong}\n")
    return path, line
