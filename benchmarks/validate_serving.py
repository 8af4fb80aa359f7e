"""Measured serving runs against what the planner says of them: time to the first token, and per token after it.

    python benchmarks/validate_serving.py [DATA] [--out results] [--quiet]

DATA is the folder with the measured runs, ../shared/data/serving/measured by default; without it nothing is done, and
that is said. Prints a row for every run and what the errors come to, by model, system and engine; writes the rows to
``results`` unless told otherwise.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import _common
import _serving
from _serving import Compared

DATA = Path("../shared/data/serving/measured")

#: Errors that count as near.
NEAR = 0.25


def compared(data: Path) -> Iterator[Compared]:
    """All rows there are; files that are missing are said."""
    for name, rows in (
        ("aggregated.csv", _serving.closed_loops),
        ("splitwise-static-batches.csv", _serving.static_batches),
    ):
        if (data / name).exists():
            yield from rows(data / name)
        else:
            print(f"skipped: there is no {data / name}")
    logs = sorted(path for path in data.glob("vllm-*.csv") if path.with_suffix(".json").exists())
    if not logs:
        print(f"skipped: there is no log vllm-*.csv with its .json in {data}")
    for path in logs:
        yield _serving.log(path)


def line(found: Compared) -> str:
    """A row for people."""
    parts = []
    for what, predicted in found.predicted.items():
        measured = found.measured[what] * 1e3
        parts.append(f"{what} {measured:.4g} ms, predicted {predicted * 1e3:.4g} ({found.error(what):+.0%})")
    return f"{' '.join(value for value in found.labels.values() if value):74} {'; '.join(parts)}"


def row(found: Compared) -> dict[str, Any]:
    """A row for the file."""
    result: dict[str, Any] = {"kind": found.kind, "run": " ".join(v for v in found.labels.values() if v)}
    for what in ("tpot", "ttft", "prompt", "token", "latency", "tpot_p90"):
        has = what in found.predicted
        result[f"{what}_s"] = found.measured[what] if has else ""
        result[f"predicted_{what}_s"] = round(found.predicted[what], 6) if has else ""
        result[f"{what}_error"] = round(found.error(what), 4) if has else ""
    return result


def errors_line(title: str, rows: Sequence[Compared]) -> str:
    """What errors come to, by quantity."""
    parts = []
    for what in rows[0].predicted:
        errors = [abs(found.error(what)) for found in rows]
        near = sum(error <= NEAR for error in errors) / len(errors)
        parts.append(f"{what} median {statistics.median(errors):.1%}, {near:.0%} within {NEAR:.0%}")
    return f"{title} ({len(rows)}): {'; '.join(parts)}"


def summary(rows: Sequence[Compared]) -> list[str]:
    """What errors come to, group by group and all together."""
    said = []
    for kind, keys in (("closed loop", ("model", "system", "backend")), ("static batch", ("model", "hardware"))):
        mine = [found for found in rows if found.kind == kind]
        groups: dict[str, list[Compared]] = {}
        for found in mine:
            groups.setdefault(" ".join(found.labels[key] for key in keys), []).append(found)
        said += [errors_line(f"{kind}, {name}", members) for name, members in sorted(groups.items())]
        if kind == "closed loop" and mine:
            judged = [found for found in mine if found.number % _serving.SET_ON]
            if judged:
                said.append(errors_line("closed loop, rows on which no constant was set", judged))
        if mine:
            said.append(errors_line(f"{kind}, all", mine))
    for found in rows:
        if found.kind == "log":
            parts = ", ".join(f"{what} {found.error(what):+.1%}" for what in found.predicted)
            said.append(f"Log {' '.join(found.labels.values())}: {parts}")
    return said


def main(arguments: Sequence[str] | None = None) -> int:
    """Predict every row, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="?", default=DATA)
    _common.add_out(parser)
    parser.add_argument("--quiet", action="store_true", help="print what errors come to, not every row")
    asked = parser.parse_args(arguments)
    if not asked.data.is_dir():
        print(f"skipped: there is no folder {asked.data} with measured serving runs; name one as DATA")
        return 0
    started = time.perf_counter()
    rows = []
    for found in compared(asked.data):
        rows.append(found)
        if not asked.quiet:
            print(line(found), flush=True)
    print(*summary(rows), f"({time.perf_counter() - started:.0f} s)", sep="\n")
    _common.write(asked.out / "validate_serving.csv", [row(found) for found in rows])
    return 0


if __name__ == "__main__":
    sys.exit(main())
