"""Acyclic splits of random graphs as a user gets them: objective, bound, and the bound as a fraction of the best.

    python benchmarks/throughput_families.py [--families layered,preferential,chain] [--nodes 100,300,1000]
        [--devices 2,4,8,16,32,64] [--seeds 0,1] [--weights even,operator] [--seconds 60]

Families are those of ``partita generate regal``. ``even`` weights are times drawn from 1 to 10 and transfers from 0.2
to 2, each as likely as any other; ``operator`` and ``graph`` are that generator's own (``--noise``), with transfers as
dear as a third of the work, and with hardly any. Every problem is solved by the default solver in a process of its own,
so that seconds are those of the search, CPU seconds and memory those of the process.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from _common import add_out, write
from partita.ground.random_dags import random_dag
from partita.problems.throughput.devices import DeviceKind
from partita.problems.throughput.generators.regal import regal_problem
from partita.problems.throughput.problem import MovedTensor, ThroughputProblem, TimedOperator

WEIGHTS = ("even", "operator", "graph")
#: What a process runs: arguments are the case and the limit in seconds.
CHILD = """
import json, resource, sys
sys.path.insert(0, sys.argv[1])
import partita
from throughput_families import problem_of
problem = problem_of(*json.loads(sys.argv[2]))
result = partita.solve(problem, time_limit_s=float(sys.argv[3]))
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({"objective": result.objective, "bound": result.bound.value, "proven_by": result.bound.method,
                  "seconds": result.runtime_s, "cpu_s": used.ru_utime + used.ru_stime, "mb": used.ru_maxrss / 1024}))
"""


def problem_of(family: str, nodes: int, weights: str, devices: int, seed: int) -> ThroughputProblem:
    """The problem of a case; the same for the same numbers."""
    if weights != "even":
        noise: Any = weights
        return regal_problem(seed, family=family, nodes=nodes, devices=devices, noise=noise)
    rng = np.random.default_rng(seed)
    edges = random_dag(rng, family, nodes)
    times, sizes = rng.uniform(1, 10, nodes).round(3), rng.uniform(0.2, 2, nodes).round(3)
    readers: list[list[int]] = [[] for _ in range(nodes)]
    for u, v in edges:
        readers[u].append(v)
    return ThroughputProblem(
        name=f"{family} n={nodes} seed={seed}",
        unit="ms",
        kinds=(DeviceKind(name="device", count=devices),),
        operators=tuple(TimedOperator(id=v, times=(time,)) for v, time in enumerate(times.tolist())),
        tensors=tuple(
            MovedTensor(producer=v, consumers=tuple(readers[v]), size=size) for v, size in enumerate(sizes.tolist())
        ),
    )


def solved(case: tuple[str, int, str, int, int], seconds: float) -> dict[str, Any] | str:
    """What a process of its own found; its last line of error if it failed."""
    command = [sys.executable, "-c", CHILD, str(Path(__file__).parent), json.dumps(case), str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return (done.stderr.strip().splitlines() or ["no message"])[-1]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--families", default="layered,preferential,chain")
    parser.add_argument("--nodes", default="100,300,1000")
    parser.add_argument("--devices", default="2,4,8,16,32,64")
    parser.add_argument("--seeds", default="0,1")
    parser.add_argument("--weights", default="even,operator", help=f"of {', '.join(WEIGHTS)}")
    parser.add_argument("--seconds", type=float, default=60.0, help="for each problem")
    add_out(parser)
    arguments = parser.parse_args()
    nodes, devices, seeds = (
        [int(word) for word in text.split(",")] for text in (arguments.nodes, arguments.devices, arguments.seeds)
    )
    families, weights = arguments.families.split(","), arguments.weights.split(",")
    # The first run compiles the kernels that no run before it needed.
    solved(("layered", 40, "even", 4, 0), 5.0)
    print(
        f"{'family':14} {'n':>5} {'weights':9} {'seed':>4} {'k':>3} {'objective':>10} {'bound':>10} {'ratio':>7}"
        f" {'s':>6} {'CPU s':>6} {'MB':>5}  proven by",
        flush=True,
    )
    rows: list[dict[str, Any]] = []
    for family, n, weighed, seed, k in itertools.product(families, nodes, weights, seeds, devices):
        if k > n:
            continue
        found = solved((family, n, weighed, k, seed), arguments.seconds)
        head = f"{family:14} {n:5} {weighed:9} {seed:4} {k:3}"
        if isinstance(found, str):
            print(f"{head} failed: {found}", flush=True)
            continue
        ratio = found["bound"] / found["objective"]
        rows.append(
            {"family": family, "nodes": n, "weights": weighed, "seed": seed, "devices": k, "ratio": ratio} | found
        )
        print(
            f"{head} {found['objective']:10.3f} {found['bound']:10.3f} {ratio:7.4f} {found['seconds']:6.1f}"
            f" {found['cpu_s']:6.1f} {found['mb']:5.0f}  {found['proven_by']}",
            flush=True,
        )
    write(arguments.out / f"{Path(__file__).stem}.csv", rows)
    print("\ngeometric mean of bound ÷ best, and the least")
    for k in devices:
        ratios = [row["ratio"] for row in rows if row["devices"] == k]
        if ratios:
            print(f"k = {k:3}  {statistics.geometric_mean(ratios):.4f}  {min(ratios):.4f}  of {len(ratios)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
