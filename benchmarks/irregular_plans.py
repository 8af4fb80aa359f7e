"""Training plans of wide and irregular graphs: how far plan and bound are apart after half a minute.

    python benchmarks/irregular_plans.py [--seconds 30] [--models t5,whisper] [--clusters 4xL4,4xA100-80GB]

Encoder-decoders, mixtures of experts, U-Nets and a detector; planned for the time of a step with all kinds of
parallelism (``hybrid``), and as a pipeline alone (``throughput``). Each runs in a process of its own. Seconds are those
of the search; tracing and pricing come before. A model that does not fit on a cluster is proven infeasible. Prints a
table, writes CSV.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from _common import add_out, write

#: Name, and what is traced: a model type with fields of its configuration, or a function of ``_irregular``.
MODELS: dict[str, tuple[str, dict[str, str]]] = {
    "t5": ("hf:t5", {}),
    "t5-base": (
        "hf:t5",
        {"d_model": "768", "d_ff": "3072", "num_layers": "12", "num_decoder_layers": "12", "num_heads": "12"},
    ),
    "whisper": ("hf:whisper", {}),
    "bart": ("hf:bart", {}),
    "mixtral": ("hf:mixtral", {}),
    "mixtral-8": ("hf:mixtral", {"num_hidden_layers": "8"}),
    "switch": ("hf:switch_transformers", {}),
    "swin": ("hf:swin", {}),
    "detector": ("detector", {}),
    "unet": ("unet", {}),
    "sdxl": ("sdxl", {}),
}
CLUSTERS = "4xL4,4xA100-80GB,4xH100-80GB,2x(2xL4)"
OBJECTIVES = ("hybrid", "throughput")


def trace(name: str, path: Path) -> None:
    """Write the training graph of a model."""
    import _irregular
    from partita import trace as traced
    from partita import write_graph
    from partita.frontends.models import load_model

    what, fields = MODELS[name]
    if what.startswith("hf:"):
        graph = load_model(what, set_fields=fields, training=True)
    else:
        model, arguments, named = getattr(_irregular, what)()
        graph = traced(model, arguments, named, training=True, name=name)
    write_graph(path, graph)


def plan(path: Path, cluster: str, objective: str, seconds: float, answer: Any) -> None:
    """Price and search; put the row of the table into the queue."""
    from partita import read_cluster, read_graph
    from partita.conductor.plan import choose_problem, price_all
    from partita.conductor.solve import options_of, run_solver
    from partita.engines.search.monitor import Monitor

    graph, devices = read_graph(path), read_cluster(cluster)
    kind, _ = choose_problem(objective, devices, graph.workload)
    (priced,) = price_all(kind, graph, devices, {}, {})
    monitor = Monitor(seconds)
    result = run_solver(priced.problem, None, options_of(kind, 0, 2, {}), monitor, explain=False)
    answer.put(
        {
            "status": str(result.status),
            "objective": result.objective,
            "bound": None if result.bound is None else result.bound.value,
            "gap": result.gap,
            "seconds": round(monitor.elapsed_s, 2),
            "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        }
    )


def apart(work: Callable[..., None], *arguments: Any) -> int:
    """Run in a process of its own; its exit code."""
    process = multiprocessing.get_context("spawn").Process(target=work, args=arguments)
    process.start()
    process.join()
    return process.exitcode or 0


def main() -> int:
    """Trace every model once, and plan it on every cluster."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--clusters", default=CLUSTERS)
    parser.add_argument("--objectives", default=",".join(OBJECTIVES))
    add_out(parser)
    asked = parser.parse_args()
    chosen = asked.models.split(",")
    rows, worst = [], 0.0
    heads = ("model", 18), ("cluster", 12), ("objective", 11), ("status", 11)
    print(*(f"{head:{width}s}" for head, width in heads), "     value      gap      s     MB")
    with tempfile.TemporaryDirectory() as folder:
        for name in chosen:
            path, began = Path(folder) / f"{len(rows)}.json", time.perf_counter()
            if apart(trace, name, path) or not path.exists():
                print(f"{name:18s} is not traced: see above (sdxl needs diffusers)")
                continue
            traced_s = round(time.perf_counter() - began, 1)
            for cluster in asked.clusters.split(","):
                for objective in asked.objectives.split(","):
                    queue = multiprocessing.get_context("spawn").SimpleQueue()
                    if apart(plan, path, cluster, objective, asked.seconds, queue):
                        print(f"{name:18s} {cluster:12s} {objective:11s} ended with an error")
                        continue
                    row = {
                        "model": name,
                        "cluster": cluster,
                        "planned for": objective,
                        "traced_s": traced_s,
                    } | queue.get()
                    rows.append(row)
                    value = "" if row["objective"] is None else f"{row['objective'] * 1e3:.3f} ms"
                    gap = "" if row["gap"] is None else f"{row['gap']:.2%}"
                    unproven = row["gap"] is None and row["status"] != "infeasible"
                    worst = max(worst, 1.0 if unproven else row["gap"] or 0.0)
                    told = f"{row['status']:11s} {value:>10s} {gap:>8s} {row['seconds']:6.1f} {row['peak_mb']:6d}"
                    print(f"{name:18s} {cluster:12s} {objective:11s} {told}", flush=True)
    print(f"largest gap {worst:.2%} of {len(rows)} plans")
    write(asked.out / "irregular_plans.csv", rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
