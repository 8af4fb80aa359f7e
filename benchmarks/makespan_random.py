"""Random makespan problems: the best list-scheduling baseline, then objective, bound and gap in a minute.

    python benchmarks/makespan_random.py [--seconds 60] [--large] [--only NAME …] [--out results]

Graphs of 100 to 300 operators on 3 to 8 devices, few of them with separators; with --large, 5,000 operators on 8
devices. Every problem is solved in a process of its own; the peak of memory is of that and its children. It fails if
a baseline is better than the plan found.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from _common import add_out, write

#: Arguments of ``partita generate makespan``.
MEDIUM = (
    "--family layered --nodes 100 --devices 3",
    "--family layered --nodes 150 --devices 4 --communication 0.3 --room 1.3",
    "--family wide --nodes 100 --devices 4 --room 1.5",
    "--family branches --nodes 200 --devices 5 --skips 0.1",
    "--family series-parallel --nodes 250 --devices 6 --communication 0.5 --room 1.4",
    "--family layered --nodes 300 --devices 8 --room 1.2 --skips 0.1",
    "--family watts-strogatz --nodes 120 --devices 4 --communication 2",
    "--family barabasi-albert --nodes 200 --devices 8 --communication 0.2 --room 1.3",
)
LARGE = tuple(
    f"--family {family} --nodes 5000 --devices 8{room}"
    for room in ("", " --room 1.3")
    for family in ("layered", "branches", "series-parallel", "wide")
)

#: What a process runs: arguments are the file and the limit in seconds.
CHILD = """
import json, resource, sys
import partita
from partita.conductor.compare import run_baselines
from partita.problems import kind_of
problem = partita.read_problem(sys.argv[1])
result = partita.solve(problem, time_limit_s=float(sys.argv[2]), explain=False)
peak = sum(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
rows = run_baselines(problem, kind_of(problem).options())
found = [(row.evaluation.objective, row.name) for row in rows if row.evaluation and row.evaluation.feasible]
print(json.dumps({"best": min(found, default=[None, ""]), "objective": result.objective,
                  "bound": result.bound and result.bound.value, "seconds": result.runtime_s, "peak_mb": peak / 1024}))
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="of each run")
    parser.add_argument("--large", action="store_true", help="5,000 operators on 8 devices")
    parser.add_argument("--only", nargs="*", default=[], help="problems whose arguments contain one of these")
    add_out(parser)
    arguments = parser.parse_args()
    rows, wrong = [], 0
    for seed, made in enumerate(LARGE if arguments.large else MEDIUM):
        if arguments.only and not any(part in made for part in arguments.only):
            continue
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "p.json")
            generate = [sys.executable, "-m", "partita", "generate", "makespan", *made.split()]
            subprocess.run([*generate, "--seed", str(seed), "--output", path], check=True, capture_output=True)
            command = [sys.executable, "-c", CHILD, path, str(arguments.seconds)]
            found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        (best, name), value, bound = found["best"], found["objective"], found["bound"]
        worse = best is not None and (value is None or value > best)
        wrong += worse
        rows.append(
            {
                "problem": made,
                "baseline": name,
                "best_baseline": best,
                "objective": value,
                "bound": bound,
                "gap": None if value is None or bound is None else round(1 - bound / value, 4),
                "verdict": "WORSE" if worse else "",
                "seconds": round(found["seconds"], 1),
                "peak_mb": round(found["peak_mb"]),
            }
        )
        print(*rows[-1].values(), sep="  ", flush=True)
    write(arguments.out / f"makespan_random{'_large' if arguments.large else ''}.csv", rows)
    print(f"{wrong} baselines are better" if wrong else "no baseline is better")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
