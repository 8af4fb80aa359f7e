"""A researcher's contest on published instances: a solver of one's own beside those of the package.

    python examples/contest.py [FOLDER] [--time-limit 10]

FOLDER holds workloads of the format of Tarnawski et al. (NeurIPS 2020), the throughput problem; without the files, or
without a folder, a generated instance stands in for them. The solver below takes random topological orders and cuts
each at the best places; every answer is evaluated by the problem, and compared with the proven bound.
"""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path

import numpy as np

import partita as pt
from partita.problems.throughput.baselines.layers import plan_from_labels
from partita.problems.throughput.contraction.instance import build_instance
from partita.problems.throughput.generators.settings import GENERATORS
from partita.problems.throughput.problem import ThroughputProblem

#: Tries of the solver of one's own.
TRIES = 300


def own_solver(problem: ThroughputProblem, seed: int) -> float:
    """The best objective of random orders, each cut where the work before reaches its equal share."""
    draw = random.Random(seed)
    instance = build_instance(problem)
    work = np.nan_to_num(instance.work[:, 0], posinf=0.0)
    devices = problem.kinds[0].count
    best = float("inf")
    for _ in range(TRIES):
        rank = {item: draw.random() for item in range(instance.items)}
        label = np.zeros(instance.items, dtype=np.int64)
        left = np.diff(instance.graph.pred_ptr).tolist()
        ready = [v for v in range(instance.items) if not left[v]]
        done = 0.0
        while ready:
            item = min(ready, key=rank.__getitem__)
            ready.remove(item)
            label[item] = min(devices - 1, int(devices * done / work.sum()))
            done += work[item]
            for reader in instance.graph.succ[instance.graph.succ_ptr[item] : instance.graph.succ_ptr[item + 1]]:
                left[reader] -= 1
                if not left[reader]:
                    ready.append(int(reader))
        evaluation = pt.evaluate(problem, plan_from_labels(problem, instance, label))
        if evaluation.feasible:
            best = min(best, evaluation.objective)
    return best


def main(arguments: list[str] | None = None) -> int:
    """Compare on every instance."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=None)
    parser.add_argument("--time-limit", type=float, default=10.0)
    parser.add_argument("--only", default="*", help="a pattern of their names")
    given = parser.parse_args(arguments)
    files = [] if given.folder is None else sorted(given.folder.glob(f"{given.only}.json"))
    if files:
        problems = [(path.stem, pt.read_problem(path, format="dnn-partitioning")) for path in files]
    else:
        print("there are no published instances here; a generated one stands in for them")
        generator = GENERATORS[0]
        problems = [("generated", generator.make(generator.settings()))]
    print(f"{'instance':36}{'own solver':>14}{'partita':>14}{'proven bound':>14}{'own / best':>12}")
    for name, problem in problems:
        result = pt.solve(problem, time_limit_s=given.time_limit, contiguity="acyclic")
        own = own_solver(problem, seed=0)
        bound = float("nan") if result.bound is None else result.bound.value
        print(f"{name:36}{own:14.4f}{result.objective:14.4f}{bound:14.4f}{own / result.objective:12.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
