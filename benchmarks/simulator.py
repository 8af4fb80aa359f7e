"""How fast the simulator is, beside its plain Python counterpart and the bounds that are known of each run.

    python benchmarks/simulator.py [--out results] [--largest 512]

Each row is run in a process of its own, so that its peak memory is its own: ranks × microbatches of equal stages with
transfers, under a schedule. Objective is the step, the bound is what the busiest device works for a batch, and the time
is that of making and running the program, after compiled code is loaded. The plain engine of the tests runs the small
row, too, as the comparison.
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
sys.path.insert(0, sys.argv[6])
from partita.simulator.program import Message
from partita.simulator.schedules import find_schedule
from partita.simulator.simulate import build, simulate
from partita.simulator.pipeline import PipelineStage, Pipeline, StageWork
from partita.simulator.stages import staged_program

ranks, microbatches, plain = int(sys.argv[1]), int(sys.argv[2]), sys.argv[5] == "1"
schedule, contention = sys.argv[3:5]

streams = "sum" if contention == "dedicated" else "overlap"

def pipeline(count):
    moved, last = 0.05, count - 1
    stages = tuple(
        PipelineStage(
            replicas=((f"device:{i}",),),
            forward=StageWork(1.0, moved * (i > 0), moved * (i < last)),
            backward=StageWork(2.0, moved * (i < last), moved * (i > 0)),
            in_flight=count - i, activation_bytes=1e6, memory={"state": 1e9},
        )
        for i in range(count)
    )
    steps = [(i, i + 1) for i in range(last)] + [(count + i + 1, count + i) for i in range(last)]
    messages = tuple(Message(a, b, moved) for a, b in steps)
    edges = (*steps, *((i, count + i) for i in range(count)))
    return Pipeline(name="equal stages", unit="s", stages=stages, edges=edges, messages=messages, streams=streams)

simulate(staged_program(pipeline(2), find_schedule("1f1b"), 2))
started = time.perf_counter()
program = staged_program(pipeline(ranks), find_schedule(schedule), microbatches, contention=contention)
if plain:
    from second_opinions.plain_engine import plain_run
    end = plain_run(build(program).graph).end
    step, count = max(end), len(end)
else:
    found = simulate(program)
    step, count = found.step_time, found.timeline.count
seconds = time.perf_counter() - started
memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({"objective": float(step), "slices": count, "seconds": seconds, "peak_mb": memory}))
"""

#: Ranks and microbatches, schedule, contention, and whether the plain engine runs it.
ROWS = (
    (8, 64, "1f1b", "dedicated", True),
    (8, 64, "1f1b", "dedicated", False),
    (64, 256, "1f1b", "dedicated", False),
    (64, 256, "zero-bubble", "dedicated", False),
    (64, 256, "interleaved", "dedicated", False),
    (64, 256, "1f1b", "shared", False),
    (64, 256, "1f1b", "serial", False),
    (512, 512, "gpipe", "dedicated", False),
    (512, 512, "1f1b", "dedicated", False),
)


def main() -> int:
    """Run every row up to the largest number of ranks, print the table, and write the CSV."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_out(parser)
    parser.add_argument("--largest", type=int, default=512, help="most ranks")
    given = parser.parse_args()
    tests = Path(__file__).resolve().parent.parent / "tests"
    rows = []
    print(f"{'instance':36} {'step':>10} {'bound':>10} {'gap':>7} {'seconds':>8} {'peak MB':>8} {'slices':>9}  engine")
    for ranks, microbatches, schedule, contention, plain in ROWS:
        if ranks > given.largest:
            continue
        arguments = [str(ranks), str(microbatches), schedule, contention, str(int(plain)), str(tests)]
        done = subprocess.run([sys.executable, "-c", CHILD, *arguments], capture_output=True, text=True, check=False)
        name = f"{ranks}x{microbatches} {schedule} {contention}"
        if done.returncode != 0:
            print(f"{name:36} {done.stderr.strip().splitlines()[-1]}")
            return 1
        found = json.loads(done.stdout)
        # Inner stages work and move 3 + 4 · 0.05 for each microbatch; transfers may hide where they are shared.
        bound = microbatches * (3.2 if contention == "dedicated" and ranks > 2 else 3.0)
        gap = 1 - bound / found["objective"]
        engine = "plain Python" if plain else "compiled"
        print(
            f"{name:36} {found['objective']:10.2f} {bound:10.2f} {gap:7.2%} {found['seconds']:8.2f} "
            f"{found['peak_mb']:8.0f} {found['slices']:9}  {engine}",
            flush=True,
        )
        rows.append({"instance": name, "engine": engine, **found, "bound": bound, "gap": gap})
    write(given.out / "simulator.csv", rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
