"""Searches for acyclic splits over identical devices at equal time: annealing, genetic, random orders, arrangement.

    python benchmarks/throughput_search.py [--graphs 6] [--seconds 10] [--devices 2,4,8,16,32,64] [--plot FILE]

Graphs are those of ``partita generate regal`` with seeds 0, 1, …: 50 to 200 operators of the four published families,
and one layered family if ``--family`` says so. Every method gets the same wall time on one thread; the genetic search
goes on beyond its published 100 generations while there is time. A value below is relative to the annealing's: above 1
the annealing is better. ``--plot`` draws the best value over time of the first graph, one panel for each k.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from _common import add_out, write
from partita.engines.kernels.throughput.blocks import BlockProblem
from partita.problems.throughput.contraction.blocks import make_blocks
from partita.problems.throughput.generators.regal import regal_problem
from partita.problems.throughput.orders.genetic import Genetic
from partita.problems.throughput.orders.order_run import Cutter
from partita.problems.throughput.orders.partition_search import PartitionSearch
from partita.problems.throughput.problem import ThroughputProblem

#: (seconds, value) of every improvement.
History = list[tuple[float, float]]


def annealing(blocks: BlockProblem, seconds: float, seed: int) -> tuple[History, int]:
    """History, and moves tried."""
    history: History = []
    started = time.perf_counter()
    search = PartitionSearch(
        blocks, seed=seed, report=lambda value, _: history.append((time.perf_counter() - started, value))
    )
    search.run(seconds=seconds)
    return history, search.trials


def genetic(blocks: BlockProblem, seconds: float, seed: int, *, arrange: bool = False) -> tuple[History, int]:
    """History, and orders decoded; an arrangement is cut whenever it is better."""
    history: History = []
    started = time.perf_counter()
    stop = np.zeros(1, dtype=np.int64)
    engine, cutter, value = Genetic(blocks, seed, stop, arrange=arrange), Cutter(blocks, stop), math.inf
    while time.perf_counter() - started < seconds and value > blocks.low * (1 + 1e-9):
        if engine.generation() and engine.order is not None:
            found = cutter.best(engine.order, value)
            if found is not None:
                value = found[0]
                history.append((time.perf_counter() - started, value))
    return history, engine.evaluations


def arrangement(blocks: BlockProblem, seconds: float, seed: int) -> tuple[History, int]:
    """History, and orders decoded."""
    return genetic(blocks, seconds, seed, arrange=True)


def random_orders(blocks: BlockProblem, seconds: float, seed: int) -> tuple[History, int]:
    """History, and orders cut."""
    history: History = []
    started = time.perf_counter()
    random, cutter, value = np.random.default_rng(seed), Cutter(blocks, np.zeros(1, dtype=np.int64)), math.inf
    while time.perf_counter() - started < seconds and value > blocks.low * (1 + 1e-9):
        found = cutter.best(cutter.order(random.random(blocks.items)), value)
        if found is not None:
            value = found[0]
            history.append((time.perf_counter() - started, value))
    return history, cutter.orders


METHODS: dict[str, Callable[[BlockProblem, float, int], tuple[History, int]]] = {
    "annealing": annealing,
    "genetic": genetic,
    "random": random_orders,
    "arrangement": arrangement,
}


def plot(path: Path, panels: dict[int, dict[str, History]], seconds: float) -> None:
    """Best value over time, relative to the best of all methods."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.0 * len(panels), 3.2), layout="constrained")
    for axes, (k, histories) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True):
        best = min(history[-1][1] for history in histories.values())
        for name, history in histories.items():
            times, values = [t for t, _ in history] + [seconds], [v / best for _, v in history]
            axes.step(times, [*values, values[-1]], where="post", label=name)
        axes.set_xscale("log")
        axes.set_title(f"k = {k}")
        axes.set_xlabel("seconds")
    figure.axes[0].set_ylabel("value ÷ best")
    figure.axes[0].legend(fontsize="small")
    figure.savefig(path)
    print(f"written to {path}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--graphs", type=int, default=6)
    parser.add_argument("--first", type=int, default=0, help="seed of the first graph")
    parser.add_argument("--seconds", type=float, default=10.0, help="per method, graph and k")
    parser.add_argument("--devices", default="2,4,8,16,32,64")
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--family", help="of the graphs; those of REGAL by seed if not given")
    parser.add_argument("--nodes", type=int, help="operators of each graph; 50 to 200 by seed if not given")
    parser.add_argument("--plot", type=Path, help="image of best values over time on the first graph")
    add_out(parser)
    arguments = parser.parse_args()
    names = arguments.methods.split(",")
    if "annealing" not in names or set(names) - set(METHODS):
        print(f"methods are {', '.join(METHODS)}, and annealing is the one to compare with", file=sys.stderr)
        return 2
    counts = [int(word) for word in arguments.devices.split(",")]
    for name in names:
        # Compiling is not part of anybody's time.
        METHODS[name](make_blocks(regal_problem(0, nodes=20, devices=2)), 0.01, 0)
    print(f"{'graph':36} {'k':>3} {'value':>10} {'÷ low':>7}" + "".join(f"{name:>12}" for name in names[1:]))
    rows: list[dict[str, object]] = []
    panels: dict[int, dict[str, History]] = {}
    ratios: dict[tuple[str, int], list[float]] = {}
    for seed in range(arguments.first, arguments.first + arguments.graphs):
        problem: ThroughputProblem = regal_problem(seed, family=arguments.family, nodes=arguments.nodes)
        for k in counts:
            blocks = make_blocks(problem.replace(accelerators=k))
            results = {name: METHODS[name](blocks, arguments.seconds, seed) for name in names}
            if seed == arguments.first:
                panels[k] = {name: history for name, (history, _) in results.items()}
            value = results["annealing"][0][-1][1]
            for name, (history, count) in results.items():
                ratio = history[-1][1] / value
                ratios.setdefault((name, k), []).append(ratio)
                rows.append(
                    {
                        "graph": problem.name,
                        "devices": k,
                        "method": name,
                        "objective": history[-1][1],
                        "simple_bound": blocks.low,
                        "ratio": ratio,
                        "evaluations": count,
                        "last_improvement_s": history[-1][0],
                    }
                )
            others = "".join(f"{results[name][0][-1][1] / value:12.4f}" for name in names[1:])
            print(f"{problem.name:36} {k:3} {value:10.1f} {value / blocks.low:7.4f}{others}", flush=True)
    for k in counts:
        means = "".join(f"{statistics.geometric_mean(ratios[name, k]):12.4f}" for name in names[1:])
        print(f"{'geometric mean':36} {k:3} {'':10} {'':7}{means}")
    write(arguments.out / "throughput_search.csv", rows)
    if arguments.plot is not None:
        plot(arguments.plot, panels, arguments.seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
