"""What several benchmarks do: solve a published file in a process of its own, and write rows."""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

#: What a process runs: arguments are the file, the changes as JSON and the limit in seconds.
CHILD = """
import json, resource, sys
import msgspec
import partita
from partita.engines.search.monitor import Monitor
from partita.problems.throughput.evaluate import evaluate
from partita.problems.throughput.solvers.exact import Exact
from partita.problems.throughput.protocol import ThroughputOptions
from partita.problems.throughput.variants import split_evenly
problem = partita.read_problem(sys.argv[1], format="dnn-partitioning")
wanted = json.loads(sys.argv[2])
if "memory_factor" in wanted:
    memory = next(kind.memory_bytes for kind in problem.kinds if kind.accelerator)
    problem = problem.replace(memory_bytes=memory * wanted.pop("memory_factor"))
if "schedule" in wanted:
    wanted["schedule"] = msgspec.structs.replace(problem.schedule, name=wanted["schedule"])
groups = wanted.pop("groups", None)
problem = problem.replace(**wanted)
if groups is not None:
    problem = split_evenly(problem, groups, 0.1)
monitor = Monitor(float(sys.argv[3]))
outcome = Exact().solve(problem, ThroughputOptions(), monitor)
answer = evaluate(problem, outcome.plan)
assert answer.feasible, answer.violations
print(json.dumps({"objective": answer.objective, "bound": outcome.bound, "solver_s": monitor.elapsed_s,
                  "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))
"""


def add_out(parser: argparse.ArgumentParser) -> None:
    """The option that every benchmark has: where it writes its rows, in a file of its name."""
    parser.add_argument("--out", type=Path, default=Path("results"), help="folder of what is written")


def solve_apart(path: Path, limit_s: float, **wanted: Any) -> dict[str, Any] | str:
    """Objective, bound, seconds and memory of the best acyclic split of a changed file; the error if it fails."""
    command = [sys.executable, "-c", CHILD, str(path), json.dumps(wanted), str(limit_s)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return done.stderr.strip().splitlines()[-1]
    found: dict[str, Any] = json.loads(done.stdout)
    return found | {"gap": max(0.0, 1 - found["bound"] / found["objective"])}


def write(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Rows as CSV."""
    if not rows:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    print(f"written to {path}")
