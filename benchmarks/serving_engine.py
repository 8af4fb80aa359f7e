"""How fast the engine of serving is: requests of a production trace on one unit, and how its memory grows.

    python benchmarks/serving_engine.py [--out results] [--trace FILE.csv] [--rate 5] [--requests 10000]

Each row is run in a process of its own, so that its peak memory is its own. The unit is like a small model on one card;
time is that of drawing the requests and simulating them, after compiled code is loaded. Objective is seconds per
request; the bound is the work that no schedule saves (``partita.problems.serving.work``). A tenth of the requests goes
first, so that the growth of memory can be seen.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

from _common import add_out, write

CHILD = """
import json, resource, sys, time
from partita.nouns.workload.files import read_requests
from partita.nouns.workload.workload import RequestWorkload
from partita.problems.serving.evaluate import evaluate
from partita.problems.serving.problem import (
    DevicePool,
    EngineRules,
    ServingPlan,
    ServingProblem,
    ServingUnit,
    UnitGroup,
)
from partita.problems.serving.samples import LOOP, sample_prices
from partita.problems.serving.work import least_duration

plan = ServingPlan(units=(UnitGroup(unit=0),))
evaluate(LOOP, plan)
workload = RequestWorkload(trace=read_requests(sys.argv[1]), rate_per_s=float(sys.argv[2]), requests=int(sys.argv[3]))
prices = sample_prices(1, cache_bytes=400_000.0)
unit = ServingUnit(kind="gpu", rules=EngineRules(requests=256, tokens=2048), prices=prices)
pools = (DevicePool(kind=unit.kind, machines=(1,)),)
problem = ServingProblem(name="trace", workload=workload, units=(unit,), pools=pools)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
started = time.perf_counter()
found = evaluate(problem, plan)
seconds = time.perf_counter() - started
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
bound = least_duration(problem, unit, 1, workload.drawn()) / found.requests
print(json.dumps({"objective": found.objective, "bound": bound, "seconds": seconds, "peak_mb": after,
                  "grown_mb": after - before, "steps": found.uses[0].steps, "in_flight": found.in_flight,
                  "preemptions": found.preemptions}))
"""

#: Where traces are, beside the repository.
TRACES = Path(__file__).resolve().parent.parent.parent / "shared" / "data" / "serving" / "traces"


def main() -> int:
    """Run the rows, print the table, and write the CSV; 1 if the large one takes longer than 3 s."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_out(parser)
    parser.add_argument("--trace", type=Path, default=TRACES / "azure-2023-conversation.csv")
    parser.add_argument("--rate", type=float, default=5.0, help="requests per second")
    parser.add_argument("--requests", type=int, default=10_000)
    given = parser.parse_args()
    if not given.trace.is_file():
        print(f"{given.trace} is not there; name a trace with --trace")
        return 0
    rows = []
    print(
        f"{'requests':>9} {'objective':>10} {'bound':>10} {'gap':>7} {'seconds':>8} {'peak MB':>8} {'grown':>9} steps"
    )
    for count in (given.requests // 10, given.requests):
        arguments = [str(given.trace), str(given.rate), str(count)]
        done = subprocess.run([sys.executable, "-c", CHILD, *arguments], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            print(done.stderr.strip().splitlines()[-1])
            return 1
        found = json.loads(done.stdout)
        gap = 1 - found["bound"] / found["objective"]
        print(
            f"{count:9} {found['objective']:10.4f} {found['bound']:10.4f} {gap:7.2%} {found['seconds']:8.2f} "
            f"{found['peak_mb']:8.0f} {found['grown_mb']:9.1f} {found['steps']:8}",
            flush=True,
        )
        rows.append({"requests": count, **found, "gap": gap})
    write(given.out / "serving_engine.csv", rows)
    return int(rows[-1]["seconds"] > 3.0)


if __name__ == "__main__":
    sys.exit(main())
