"""Numbers of stages and replicas for traced models, against published planners.

    python benchmarks/stages_replicas.py [--limit 60] [--models gpt2,unet] [--topologies two-level] [--jobs 2]

Models are traced for training without weights, in half precision with Adam, and planned on 16 devices. Planners know
nothing of placement; as in the paper, their replicas go to neighbouring devices (the consecutive order), and all steps
are simulated alike:

- *PipeDream-like*: the cuts of PipeDream's planner for every number of stages that divides the devices, each stage on
  as many devices, 1F1B; the shortest step of these. So it is given the right numbers, which it does not search itself.
- *GPipe-like*: stages of equal time, under GPipe with recomputation, the same numbers.
- *ours*: the search over stages and replicas, schedule, recomputation and placement.

Both planners recompute where it does not fit otherwise. Columns: steps, what ours is, seconds of the planners, and
shapes that ours had to place of those there are. Every row is a process of its own. Written to
``results/stages_replicas.csv``; the end is an error if a planner's step is shorter than ours.

Source: Liu, Tian, Jiang and Young, "Parmesan", §VI and tables I and II.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from _common import add_out, write

HERE = Path(__file__).resolve().parent
_VISION = HERE.parent / "examples" / "vision_models.py"

#: Model, what else is asked of its trace, and samples of a microbatch.
MODELS: dict[str, tuple[str, dict[str, Any], int]] = {
    "resnet50": ("hf:resnet", {}, 8),
    "unet": (f"{_VISION}:unet", {}, 4),
    "semantic-fpn": (f"{_VISION}:semantic_fpn", {}, 2),
    "gpt2": ("hf:gpt2", {}, 4),
    "swin-t": ("hf:swin", {}, 8),
    "gpt2-large": ("hf:gpt2", {"n_layer": "36", "n_embd": "1280", "n_head": "20"}, 1),
}

TOPOLOGIES = {
    "two-level": "two-level:4x4:device=V100-32GB",
    "dgx1": "dgx1:2",
    "mesh": "mesh:4x4:device=V100-32GB",
}

#: Plans one model on one topology with all planners.
CHILD = """
import json, resource, sys, time
import numpy as np
import partita
from partita.engines.processes.pool import Pool
from partita.conductor.place import staged_plan, step_on
from partita.conductor.search import replicas_of, search_stages
from partita.frontends.models import load_model
from partita.problems import kind_of
from partita.engines.search.monitor import Monitor
from partita.nouns.topology import topology
spec, fields, samples, machine, microbatches, limit, jobs = json.loads(sys.argv[1])
where = topology(machine)
graph = load_model(spec, dtype="float16", batch_size=samples, set_fields=fields, training=True)
problem = partita.price(graph, where.cluster(), objective="throughput", microbatches=microbatches, optimizer="adam")
kind, facet = kind_of(problem), replicas_of(problem)
count = where.device_count


def planner(name, schedule, recompute):
    # The best numbers of stages and replicas for a planner's splits, placed in the consecutive order.
    solver = next(one for one in kind.baselines if one.name == name)
    best, seconds = None, 0.0
    shapes = [one for one in facet.shapes(problem) if one.stages * one.replicas == count]
    for again in recompute:
        for shape in shapes:
            if (shape.schedule, shape.recompute) != (schedule, again) and shape.stages > 1:
                continue
            if shape.recompute != again:
                continue
            began = time.perf_counter()
            plan = solver.solve(shape.problem, kind.options(), Monitor(60.0)).plan
            seconds += time.perf_counter() - began
            if plan is None:
                continue
            whole, spread = facet.spread(problem, shape, plan)
            if not kind.evaluate(whole, spread).feasible:
                continue
            staged, device = staged_plan(whole, spread), iter(range(count))
            layout = tuple(tuple((next(device),) for _ in one.replicas) for one in staged.ranks)
            step = step_on(staged, layout, where)
            if step is not None and (best is None or step.time < best[0]):
                best = (step.time, shape.name)
        if best is not None:
            break
    return {"step": best and best[0], "shape": best and best[1], "seconds": seconds}


found = {"operators": len(problem.operators)}
found["pipedream"] = planner("pipedream", "1f1b", (False, True))
found["gpipe"] = planner("equal-time", "gpipe", (True,))
began = time.perf_counter()
with Pool(jobs) as pool:
    searched = search_stages(problem, where, time_limit_s=limit, pool=pool)
best = searched.best
found["ours"] = {"step": best.step, "shape": best.name, "seconds": time.perf_counter() - began}
found["finished"], found["shapes"] = searched.finished, len(searched.explored)
found["placed"] = sum(one.outcome == "placed" for one in searched.explored)
found["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps(found))
"""


def rows(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """One for each model and topology."""
    for topology in options.topologies.split(","):
        for model in options.models.split(","):
            spec, fields, samples = MODELS[model]
            task = [spec, fields, samples, TOPOLOGIES[topology], options.microbatches, options.limit, options.jobs]
            done = subprocess.run(
                [sys.executable, "-c", CHILD, json.dumps(task)], capture_output=True, text=True, check=False
            )
            if done.returncode != 0:
                print(f"{model} on {topology}: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
                continue
            found = json.loads(done.stdout)
            row = {"model": model, "topology": topology, "operators": found["operators"]}
            for name in ("pipedream", "gpipe", "ours"):
                one = found[name]
                row |= {f"{name}_s": one["step"], f"{name}_shape": one["shape"], f"{name}_planner_s": one["seconds"]}
            yield row | {key: found[key] for key in ("finished", "shapes", "placed", "peak_mb")}


def main() -> int:
    """Print a line for each row as it comes, and write all as CSV."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=float, default=60.0, help="seconds of ours for a row")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--topologies", default=",".join(TOPOLOGIES))
    parser.add_argument("--microbatches", type=int, default=32, help="of a batch, over all replicas")
    parser.add_argument("--jobs", type=int, default=1, help="workers of ours")
    add_out(parser)
    options = parser.parse_args()
    started, found, worse = time.perf_counter(), [], []
    print(f"{options.microbatches} microbatches, 16 devices; steps in milliseconds")
    titles = ("PipeDream", "GPipe", "ours", "speed-up", "s", "s", "s", "placed", "MB")
    print(f"{'model':14}{'topology':12}" + "".join(f"{title:>10}" for title in titles) + "  ours")
    for row in rows(options):
        found.append(row)
        steps = [row[f"{name}_s"] for name in ("pipedream", "gpipe", "ours")]
        planners = [step for step in steps[:2] if step is not None]
        speed_up = min(planners) / steps[2] if planners else None
        if speed_up is not None and speed_up < 1 - 1e-9:
            worse.append(f"{row['model']} on {row['topology']}")
        line = "".join(f"{'—':>10}" if step is None else f"{1e3 * step:10.1f}" for step in steps)
        line += f"{'—':>10}" if speed_up is None else f"{speed_up:9.2f}x"
        line += "".join(f"{row[f'{name}_planner_s']:10.1f}" for name in ("pipedream", "gpipe", "ours"))
        placed = f"{row['placed']}/{row['shapes']}"
        print(
            f"{row['model']:14}{row['topology']:12}{line}{placed:>10}{row['peak_mb']:10.0f}  {row['ours_shape']}",
            flush=True,
        )
    print(f"{time.perf_counter() - started:.0f} s")
    write(options.out / "stages_replicas.csv", found)
    for one in worse:
        print(f"a planner is better than ours: {one}", file=sys.stderr)
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
