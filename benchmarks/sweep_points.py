"""Sweeps of many points: how many of them are searched, and what the others take from those that they are bounded by.

    python benchmarks/sweep_points.py [--model hf:gpt2] [--points 1000] [--limit 2] [--only axis,grid,steps]

``axis`` is the model on four devices along that many bandwidths, each point of which relaxes all before it; ``grid`` is
device counts by memories by bandwidths; ``steps`` plans training along bandwidths and memories. A sweep is a process of
its own; seconds are wall time with the tracing of the model, gaps those of the worst point.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import partita
from _common import add_out, write

CASES = ("axis", "grid", "steps")
#: What a process runs: arguments are this folder, the case, the model, the points and the limit in seconds.
CHILD = """
import json, resource, sys, time
sys.path.insert(0, sys.argv[1])
from sweep_points import swept
start = time.perf_counter()
found = swept(sys.argv[2], sys.argv[3], int(sys.argv[4]), float(sys.argv[5]))
results = [point.result for point in found.points]
print(json.dumps({
    "points": len(results),
    "searched": sum(result.solver not in (None, "sweep") for result in results),
    "planned": sum(result.plan is not None for result in results),
    "optimal": sum(result.status == "optimal" for result in results),
    "infeasible": sum(result.status == "infeasible" for result in results),
    "gap": max((result.gap for result in results if result.gap is not None), default=None),
    "objective": sum(result.objective or 0.0 for result in results),
    "seconds": time.perf_counter() - start,
    "mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
}))
"""


def swept(case: str, model: str, points: int, limit: float) -> Any:
    """The sweep of a case, in this process."""
    job: dict[str, Any] = {"time_limit_s": limit, "sequence_length": 512, "dtype": "float16"}
    if case == "axis":
        return partita.sweep(model, "4xT4", bandwidth=[1 + step / 100 for step in range(points)], batch_size=1, **job)
    side = max(1, round((points / 10) ** 0.5))
    factors, memory = [1 + step / 10 for step in range(side)], [f"{1 + step / 2}GB" for step in range(side)]
    if case == "grid":
        grid: dict[str, Any] = {"devices": list(range(1, 11)), "memory": memory, "bandwidth": factors}
        return partita.sweep(model, "T4", batch_size=1, **grid, **job)
    more = [1 + step / 10 for step in range(10 * side)]
    return partita.sweep(model, "4xT4", training=True, batch_size=8, memory=memory, bandwidth=more, **job)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="hf:gpt2")
    parser.add_argument("--points", type=int, default=1000)
    parser.add_argument("--limit", type=float, default=2.0, help="seconds of each point")
    parser.add_argument("--only", default=",".join(CASES))
    add_out(parser)
    arguments = parser.parse_args()
    head = ("searched", "optimal", "no plan")
    print(f"{'case':6} {'points':>6}", *(f"{word:>8}" for word in head), f"{'worst gap':>9} {'seconds':>8} {'MB':>6}")
    rows: list[dict[str, Any]] = []
    for case in arguments.only.split(","):
        words = [str(Path(__file__).parent), case, arguments.model, str(arguments.points), str(arguments.limit)]
        done = subprocess.run([sys.executable, "-c", CHILD, *words], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            print(f"{case:6} failed: {(done.stderr.strip().splitlines() or ['no message'])[-1]}")
            return 1
        row = {"case": case} | json.loads(done.stdout.splitlines()[-1])
        rows.append(row)
        gap = "–" if row["gap"] is None else f"{row['gap']:.2%}"
        print(
            f"{case:6} {row['points']:6} {row['searched']:8} {row['optimal']:8} {row['points'] - row['planned']:8}"
            f" {gap:>9} {row['seconds']:8.1f} {row['mb']:6.0f}",
            flush=True,
        )
    write(arguments.out / f"{Path(__file__).stem}.csv", rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
