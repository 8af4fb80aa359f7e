"""Bounds as fractions of the best split: the table of the pipelined-inference paper, on graphs like its and on models.

    python benchmarks/throughput_bounds.py [--graphs 30] [--seconds 60] [--devices 2,4,8,16,32,64] [--plot FILE]
    python benchmarks/throughput_bounds.py --models gpt2,swin,resnet,t5,bert [--cluster-device A100-80GB]

Graphs are those of ``partita generate regal`` with seeds 0, 1, …: 50 to 200 operators of the four families that the
paper samples. Each graph and k gets so many seconds on two cores for everything: a search for splits, then the bounds,
cheapest first, each told what the others found. A column is what is proven when that method has ended. Published are
the geometric means of Archer et al., "Practical Performance Guarantees for Pipelined DNN Inference" (ICML 2024),
Table 3: up to an hour of a commercial solver for each program, on their own set. ``--all`` adds the paper's bottleneck
programs. ``--plot`` draws for each method the share of instances whose bound reaches a fraction of the best split.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from _common import add_out, write
from partita.problems.throughput.bounds.hierarchy import run_hierarchy
from partita.problems.throughput.bounds.knowledge import HierarchyBound, Knowledge
from partita.problems.throughput.bounds.programs.superblocks import BottleneckBound, GuessBound
from partita.problems.throughput.components import HIERARCHY
from partita.problems.throughput.contraction.blocks import uniform
from partita.problems.throughput.generators.regal import regal_problem
from partita.problems.throughput.orders.partition_search import PartitionSearch
from partita.problems.throughput.problem import ThroughputProblem

PUBLISHED = {
    "simple": (0.9579, 0.8795, 0.7911, 0.5821, 0.4087, 0.3336),
    "bottleneck": (0.9794, 0.8818, 0.7918, 0.5824, 0.4090, 0.3338),
    "bottleneck-guess": (0.9804, 0.8826, 0.7918, 0.5824, 0.4090, 0.3338),
    "exact": (0.9804, 0.9579, 0.9407, 0.8929, 0.5910, 0.3810),
}
PUBLISHED_DEVICES = (2, 4, 8, 16, 32, 64)
#: Part of the time for the search, and most seconds of it.
SEARCH_SHARE, SEARCH_S = 0.2, 8.0
#: Names of transformers' model types.
MODELS = {"gpt2": "gpt2", "swin": "swin", "resnet": "resnet", "t5": "t5", "bert": "bert"}


def graphs(arguments: argparse.Namespace) -> Iterator[ThroughputProblem]:
    """The generated graphs, or the models asked for."""
    if not arguments.models:
        for seed in range(arguments.first, arguments.first + arguments.graphs):
            yield regal_problem(seed, noise=arguments.noise)
        return
    from partita import Cluster, plain_problem, price
    from partita.frontends.models import load_model

    for name in arguments.models.split(","):
        graph = load_model(f"hf:{MODELS.get(name, name)}", dtype="bfloat16")
        cluster = Cluster.from_spec(f"8x{arguments.cluster_device}")
        yield plain_problem(price(graph, cluster, name=name))


def run(problem: ThroughputProblem, methods: list[HierarchyBound], seconds: float) -> Knowledge:
    """Search, then bounds; ``proven`` starts with the search's seconds."""
    started = time.perf_counter()
    relaxed = uniform(problem)
    knowledge = Knowledge(relaxed)
    search = PartitionSearch(relaxed._replace(devices=min(relaxed.devices, relaxed.items)), seed=0)
    search.run(seconds=min(SEARCH_SHARE * seconds, SEARCH_S))
    knowledge.offer(search.label, search.value, "annealing")
    knowledge.proven.append(("search", 0.0, time.perf_counter() - started))
    run_hierarchy(knowledge, methods, seconds - (time.perf_counter() - started))
    return knowledge


def plot(path: Path, ratios: dict[tuple[str, int], list[float]], names: list[str], counts: list[int]) -> None:
    """Performance profiles: share of the instances whose ratio is at least x."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3.4 * len(counts), 3.2), layout="constrained")
    for axes, k in zip(figure.subplots(1, len(counts), squeeze=False)[0], counts, strict=True):
        for name in names:
            values = sorted(ratios.get((name, k), []), reverse=True)
            if values:
                shares = [(i + 1) / len(values) for i in range(len(values))]
                axes.step([1.0, *values], [0.0, *shares], where="post", label=name)
        axes.set_title(f"k = {k}")
        axes.set_xlabel("bound ÷ best at least")
        axes.invert_xaxis()
    figure.axes[0].set_ylabel("share of the graphs")
    figure.axes[0].legend(fontsize="small")
    figure.savefig(path)
    print(f"written to {path}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--graphs", type=int, default=30)
    parser.add_argument("--first", type=int, default=0, help="seed of the first graph")
    parser.add_argument("--noise", default="graph", choices=["graph", "operator"], help="see docs/instances.md")
    parser.add_argument("--seconds", type=float, default=60.0, help="for each graph and k")
    parser.add_argument("--devices", default="2,4,8,16,32,64")
    parser.add_argument("--models", default="", help="model types between commas, instead of generated graphs")
    parser.add_argument("--cluster-device", default="A100-80GB", help="prices the models")
    parser.add_argument("--all", action="store_true", help="also the paper's bottleneck programs")
    parser.add_argument("--plot", type=Path, help="image of performance profiles")
    add_out(parser)
    arguments = parser.parse_args()
    counts = [int(word) for word in arguments.devices.split(",")]
    methods: list[HierarchyBound] = [*HIERARCHY]
    if arguments.all:
        methods[2:2] = [BottleneckBound(), GuessBound()]
    names = [method.name for method in methods]
    # Compiling is not part of anybody's time.
    run(regal_problem(0, nodes=20, devices=4), methods, 20.0)
    print(
        f"{'graph':34} {'n':>5} {'k':>3} {'best':>10} {'bound':>10} {'gap %':>6} {'s':>5} {'MB':>5}  methods",
        flush=True,
    )
    rows: list[dict[str, object]] = []
    ratios: dict[tuple[str, int], list[float]] = {}
    times: dict[tuple[str, int], list[float]] = {}
    for problem in graphs(arguments):
        for k in counts:
            started = time.perf_counter()
            knowledge = run(problem.replace(accelerators=k), methods, arguments.seconds)
            seconds = time.perf_counter() - started
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            proven = {name: (bound, spent) for name, bound, spent in knowledge.proven}
            value, reached, parts = knowledge.value, 0.0, []
            row: dict[str, object] = {"graph": problem.name, "operators": len(problem.operators), "devices": k}
            for name in names:
                bound, spent = proven.get(name, (0.0, 0.0))
                # A method that was not needed, or not worth its time, leaves what was known.
                reached = max(reached, bound / value)
                ratios.setdefault((name, k), []).append(reached)
                times.setdefault((name, k), []).append(spent)
                row |= {name: reached, f"{name} seconds": spent}
                if name in proven:
                    parts.append(f"{name} {reached:.4f} {spent:.1f} s")
            gap = 1 - knowledge.bound / value
            row |= {"best": value, "bound": knowledge.bound, "gap": gap, "seconds": seconds, "memory_mb": memory}
            rows.append(row)
            print(
                f"{problem.name[:34]:34} {len(problem.operators):5} {k:3} {value:10.5g} {knowledge.bound:10.5g}"
                f" {100 * gap:6.2f} {seconds:5.1f} {memory:5.0f}  {', '.join(parts)}",
                flush=True,
            )
        write(arguments.out / f"{Path(__file__).stem}.csv", rows)
    print(f"\ngeometric mean of bound ÷ best over {len(ratios[names[0], counts[0]])} graphs, mean seconds below")
    print(f"{'':18}" + "".join(f"{f'k = {k}':>10}" for k in counts))
    for name in names:
        print(f"{name:18}" + "".join(f"{statistics.geometric_mean(ratios[name, k]):10.4f}" for k in counts))
        print(f"{'':18}" + "".join(f"{f'{sum(times[name, k]) / len(times[name, k]):.1f} s':>10}" for k in counts))
    if not arguments.models:
        print("published, on the paper's own set:")
        for name, values in PUBLISHED.items():
            shown = dict(zip(PUBLISHED_DEVICES, values, strict=True))
            print(f"{name:18}" + "".join(f"{shown[k]:10.4f}" if k in shown else f"{'':10}" for k in counts))
    if arguments.plot:
        plot(arguments.plot, ratios, names, counts)
    return 0


if __name__ == "__main__":
    sys.exit(main())
