"""What several pieces per accelerator are worth: the published latency files with q = 1, 2 and 4, in equal time.

    python benchmarks/latency_pieces.py [DATA] [--seconds 60] [--only NAME …] [--out results]

DATA is the folder with the latency files, ../shared/data/dnn-partitioning/latency by default. It fails if a plan with
more pieces is worse than one with fewer.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from _common import add_out, write

PIECES = (1, 2, 4)
#: Relative difference up to which two latencies are the same.
SAME = 1e-9


def main() -> int:
    import partita

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="?", type=Path, default=Path("../shared/data/dnn-partitioning/latency"))
    parser.add_argument("--seconds", type=float, default=60.0, help="of each run")
    parser.add_argument("--only", nargs="*", default=[], help="files whose names contain one of these")
    add_out(parser)
    arguments = parser.parse_args()
    paths = sorted(arguments.data.glob("*_inference.json"))
    if arguments.only:
        paths = [path for path in paths if any(part in path.stem for part in arguments.only)]
    if not paths:
        print(f"no latency files in {arguments.data}; give the folder with the published ones as an argument")
        return 2
    rows, wrong = [], 0
    for path in paths:
        problem = partita.read_problem(path, format="dnn-partitioning", problem="latency")
        before = None
        for pieces in PIECES:
            result = partita.solve(problem.replace(pieces=pieces), time_limit_s=arguments.seconds, explain=False)
            value, bound = result.objective, result.bound
            assert value is not None
            worse = before is not None and value > before * (1 + SAME)
            gained = 0.0 if before is None else 1 - value / before
            wrong += worse
            rows.append(
                {
                    "file": path.stem,
                    "pieces": pieces,
                    "latency": value,
                    "bound": None if bound is None else bound.value,
                    "gained": round(gained, 6),
                    "verdict": "WORSE" if worse else "better" if gained > SAME else "",
                    "seconds": round(result.runtime_s, 1),
                }
            )
            print(*rows[-1].values(), sep="  ", flush=True)
            before = value if before is None else min(before, value)
    write(arguments.out / "latency_pieces.csv", rows)
    print(f"{wrong} rows are worse with more pieces" if wrong else "more pieces are never worse")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
