"""A model over devices that differ: two A100s in one machine, four T4s in another.

    python examples/mixed_cluster.py [--layers 24]

The plan gives slow devices less to do. Beside it stand what equal layers would take, and the same model on the A100s
alone: whether the T4s are worth it depends on the network between.
"""

from __future__ import annotations

import argparse
import sys

import partita as pt
from partita.frontends.models import load_model


def main(arguments: list[str] | None = None) -> int:
    """Plan the model on three clusters."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--time-limit", type=float, default=20.0)
    given = parser.parse_args(arguments)
    fields = {"num_hidden_layers": str(given.layers), "hidden_size": str(given.width)}
    graph = load_model("hf:llama", sequence_length=512, batch_size=4, dtype="float16", set_fields=fields)
    print(f"{graph.name}: {graph.parameter_count / 1e9:.2f} billion parameters, {len(graph.operators)} operators\n")
    print(f"{'cluster':38}{'per batch':>12}{'proven at least':>17}{'equal layers':>14}")
    for cluster in ("2xA100-40GB", "2xA100-40GB+4xT4", "2xA100-40GB+4xT4:infiniband-ndr"):
        answer = pt.plan(graph, pt.Cluster.from_spec(cluster), objective="throughput", time_limit_s=given.time_limit)
        result = answer.result
        equal = next(row.evaluation for row in answer.baselines if row.name == "equal-layers")
        bound = "" if result.bound is None else f"{1e3 * result.bound.value:.2f} ms"
        shown = "" if equal is None else f"{1e3 * equal.objective:.2f} ms"
        print(f"{cluster:38}{1e3 * result.objective:>9.2f} ms{bound:>17}{shown:>14}")
        for stage in result.plan.stages:
            print(f"    {stage.devices[0]:16}{len(stage.operators):6} operators")
    return 0


if __name__ == "__main__":
    sys.exit(main())
