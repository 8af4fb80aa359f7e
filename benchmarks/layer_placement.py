"""Layers on machines that differ: the published placements and random ones like them, proven, beside the baselines.

    python benchmarks/layer_placement.py [DATA] [--seconds 60] [--random 4] [--only NAME …] [--out results]

DATA is the folder with the published files, ../shared/data/serving/helix by default; without it only random ones are
solved. Rates are tokens per second. It fails if a plan is worth less than what is published.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from _common import add_out, write

#: Settings of random families, by name; seeds are counted from 0.
FAMILIES: dict[str, dict[str, Any]] = {
    "one region": {},
    "two regions": {"regions": 2, "kept": 0.8},
    "three regions": {"regions": 3, "kept": 0.7},
    "42 machines, 6 kinds": {"machines": 42, "kinds": 6},
    "42 machines, 3 regions": {"machines": 42, "kinds": 5, "regions": 3, "kept": 0.7},
    "ten machines, overlap": {"machines": 10, "kinds": 2, "overlap": True},
}
#: What is lost in the digits that are published.
DIGITS = 1e-5


def instances(data: Path, count: int, only: list[str]) -> Iterator[tuple[str, Any]]:
    """Names and problems."""
    import partita
    from partita.problems.layer_placement.generators import random_layer_placement

    stated = [(path.stem, path) for path in sorted(data.glob("*.json"))]
    drawn = [(f"{name} {seed}", (seed, fields)) for name, fields in FAMILIES.items() for seed in range(count)]
    for name, source in (*stated, *drawn):
        if not only or any(part in name for part in only):
            yield (
                name,
                partita.read_problem(source)
                if isinstance(source, Path)
                else random_layer_placement(source[0], **source[1]),
            )


def main() -> int:
    import partita

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="?", type=Path, default=Path("../shared/data/serving/helix"))
    parser.add_argument("--seconds", type=float, default=60.0, help="of each run")
    parser.add_argument("--random", type=int, default=4, help="seeds of each random family")
    parser.add_argument("--only", nargs="*", default=[], help="instances whose names contain one of these")
    add_out(parser)
    arguments = parser.parse_args()
    rows, worse = [], 0
    for name, problem in instances(arguments.data, arguments.random, arguments.only):
        # Processor time says more on a busy machine; that of HiGHS, in a process of its own, is not in it.
        started = time.process_time()
        result = partita.solve(problem, time_limit_s=arguments.seconds, explain=False)
        busy = time.process_time() - started
        flow = 0.0 if result.evaluation is None else result.evaluation.tokens_per_s
        published = None if problem.published is None else problem.published.objective
        others = {row.name: row.evaluation.tokens_per_s for row in partita.compare(problem) if row.feasible}
        best = max(others.values(), default=0.0)
        lost = published is not None and flow < published * (1 - DIGITS)
        worse += lost
        rows.append(
            {
                "instance": name,
                "machines": len(problem.machines),
                "layers": problem.layers,
                "tokens_per_s": flow,
                "bound": None if result.bound is None else 1 / result.bound.value,
                "gap": result.gap,
                "published": published,
                "best_baseline": best,
                "verdict": "WORSE" if lost else str(result.status),
                "seconds": round(result.runtime_s, 1),
                "processor_s": round(busy, 1),
            }
        )
        print(*rows[-1].values(), sep="  ", flush=True)
    write(arguments.out / "layer_placement.csv", rows)
    proven = sum(row["verdict"] == "optimal" for row in rows)
    print(f"{proven} of {len(rows)} proven, {worse} below what is published")
    return 1 if worse else 0


if __name__ == "__main__":
    raise SystemExit(main())
