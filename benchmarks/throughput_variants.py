"""The variants of the throughput problem on the published files: optimal acyclic splits, proven.

    python benchmarks/throughput_variants.py [DATA] [--out results]

DATA is the folder with the files, ../shared/data/dnn-partitioning/throughput by default. Every file and variant is
solved in a process of its own, so that its peak memory is its own; its time is the solver's.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
from pathlib import Path

LIMIT_S = 30.0

#: Name, keyword arguments of the child, and whether it needs a training file.
VARIANTS: dict[str, tuple[dict[str, object], bool]] = {
    "overlap": ({"communication": "overlap"}, False),
    "duplex": ({"communication": "duplex"}, False),
    "gpipe": ({"schedule": "gpipe"}, True),
    "replicas 2": ({"max_replicas": 2}, False),
    "replicas 4": ({"max_replicas": 4}, False),
    "groups 2": ({"groups": 2}, False),
    "streaming": ({"streaming": True, "memory_factor": 0.5}, False),
}

#: What a child process runs.
CHILD = """
import json, resource, sys
import msgspec
import partita
from partita.run.monitor import Monitor
from partita.problems.throughput.evaluate import evaluate
from partita.problems.throughput.solvers.exact import Exact
from partita.problems.throughput.protocol import Options
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
outcome = Exact().solve(problem, Options(), monitor)
answer = evaluate(problem, outcome.plan)
assert answer.feasible, answer.violations
print(json.dumps({"objective": answer.objective, "bound": outcome.bound, "solver_s": monitor.elapsed_s,
                  "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))
"""


def main() -> int:
    """Run every file and variant."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="?", type=Path, default=Path("../shared/data/dnn-partitioning/throughput"))
    parser.add_argument("--out", type=Path, default=Path("results"))
    arguments = parser.parse_args()
    files = sorted(arguments.data.glob("*.json"))
    if not files:
        print(f"no files in {arguments.data}; give the folder with the published throughput files as an argument")
        return 0
    rows = []
    print(f"{'file':32}{'variant':12}{'objective':>12}{'bound':>12}{'gap':>9}{'solver s':>9}{'peak MB':>9}")
    for path in files:
        for name, (wanted, training) in VARIANTS.items():
            if training and "training" not in path.stem:
                continue
            command = [sys.executable, "-c", CHILD, str(path), json.dumps(wanted), str(LIMIT_S)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                print(f"{path.stem:32}{name:12}failed: {done.stderr.strip().splitlines()[-1]}")
                return 1
            answer = json.loads(done.stdout)
            gap = 1 - answer["bound"] / answer["objective"]
            rows.append({"file": path.stem, "variant": name, **answer, "gap": gap})
            print(
                f"{path.stem:32}{name:12}{answer['objective']:12.4f}{answer['bound']:12.4f}{max(0.0, gap):9.4%}"
                f"{answer['solver_s']:9.2f}{answer['peak_mb']:9.0f}",
                flush=True,
            )
    arguments.out.mkdir(parents=True, exist_ok=True)
    target = arguments.out / "throughput_variants.csv"
    with target.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    print(f"wrote {target}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
