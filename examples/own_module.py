"""Bring your own module: any PyTorch module with example arguments is traced, planned, and asked about.

    python examples/own_module.py

The module below has a skip connection over all of its layers, which whole-layer planners know nothing of.
"""

from __future__ import annotations

import argparse
import sys
from itertools import pairwise
from typing import Any

import torch
from torch import nn

import partita as pt


class Skipping(nn.Module):
    """Layers of growing width, and a way from the first to the last."""

    def __init__(self, widths: tuple[int, ...]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))
        self.last = nn.Linear(widths[-1] + widths[0], 10)

    def forward(self, x: Any) -> Any:
        y = x
        for layer in self.layers:
            y = torch.relu(layer(y))
        return self.last(torch.cat([y, x], dim=-1))


def main(arguments: list[str] | None = None) -> int:
    """Trace, plan for two and four devices, and read the answer."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--width", type=int, default=1024)
    given = parser.parse_args(arguments)
    widths = tuple(given.width * factor for factor in (1, 2, 3, 4, 4, 3, 2, 1))
    # Built without data: its size is no limit.
    with torch.device("meta"):
        module, example = Skipping(widths), torch.empty(512, widths[0])
    graph = pt.trace(module, (example,), training=True)
    print(f"{len(graph.operators)} operators, {graph.parameter_count / 1e6:.1f} million parameters")
    for devices in (2, 4):
        cluster = pt.Cluster.from_spec(f"{devices}xL4")
        problem = pt.price(graph, cluster, objective="throughput", microbatches=8, optimizer="adam")
        result = pt.solve(problem, time_limit_s=10)
        gap = "" if result.gap is None else f", at most {result.gap:.1%} from the best possible"
        print(f"\n{devices} devices: {1e3 * result.objective:.3f} ms per microbatch, {result.status}{gap}")
        for stage in result.plan.stages:
            names = sorted({problem.operators[v].module for v in stage.operators} - {""})
            print(f"    {stage.devices[0]}: {', '.join(names)}")
        # What anyone can check: the objective of the plan, from the problem alone.
        assert pt.evaluate(problem, result.plan).objective == result.objective
    return 0


if __name__ == "__main__":
    sys.exit(main())
