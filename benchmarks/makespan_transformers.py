"""Makespans of generated transformers: the objective, the bound and the gap in a minute.

    python benchmarks/makespan_transformers.py [--seconds 60] [--only NAME …] [--out results]

Encoder and decoder layers on 4 devices of unlike speeds, joined by links of unlike bandwidths (``partita generate
transformer``): with cheap, even and dear links, with heads as operators of their own, and with memory that binds. Every
problem is solved in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from _common import add_out, write

#: Arguments of ``partita generate transformer``.
PROBLEMS = (
    "--seed 0",
    "--seed 1",
    "--seed 2",
    "--seed 3",
    "--seed 0 --communication 4",
    "--seed 1 --communication 4",
    "--seed 0 --communication 0.3",
    "--seed 1 --communication 0.3",
    "--seed 0 --encoders 0 --decoders 16",
    "--seed 0 --room 1.5",
    "--seed 1 --room 1.2",
    "--seed 0 --heads 8 --encoders 4 --decoders 4",
    "--seed 0 --heads 8 --encoders 4 --decoders 4 --room 1.3",
    "--seed 6 --communication 20 --room 1.3",
)

#: What a process runs: arguments are the file and the limit in seconds.
CHILD = """
import json, sys
import partita
result = partita.solve(partita.read_problem(sys.argv[1]), time_limit_s=float(sys.argv[2]), explain=False)
print(json.dumps({"objective": result.objective, "bound": result.bound and result.bound.value,
                  "by": result.bound and result.bound.method, "status": result.status.value,
                  "seconds": result.runtime_s}))
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="of each run")
    parser.add_argument("--only", nargs="*", default=[], help="problems whose arguments contain one of these")
    add_out(parser)
    arguments = parser.parse_args()
    rows = []
    for made in PROBLEMS:
        if arguments.only and not any(part in made for part in arguments.only):
            continue
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "p.json")
            generate = [sys.executable, "-m", "partita", "generate", "transformer", *made.split()]
            subprocess.run([*generate, "--output", path], check=True, capture_output=True)
            command = [sys.executable, "-c", CHILD, path, str(arguments.seconds)]
            found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        value, bound = found["objective"], found["bound"]
        rows.append(
            {
                "problem": made,
                "objective": value,
                "bound": bound,
                "gap": None if value is None or bound is None else round(1 - bound / value, 4),
                "status": found["status"],
                "proven_by": found["by"],
                "seconds": round(found["seconds"], 1),
            }
        )
        print(*rows[-1].values(), sep="  ", flush=True)
    write(arguments.out / "makespan_transformers.csv", rows)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
