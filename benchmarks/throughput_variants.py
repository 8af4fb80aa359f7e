"""The variants of the throughput problem on the published files: optimal acyclic splits, proven.

    python benchmarks/throughput_variants.py [DATA] [--out results]

DATA is the folder with the files, ../shared/data/dnn-partitioning/throughput by default. Every file and variant is
solved in a process of its own, so that its peak memory is its own; its time is the solver's.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from _common import add_out, solve_apart, write

LIMIT_S = 30.0

#: Name, keyword arguments of the child, and whether it needs a training file.
VARIANTS: dict[str, tuple[dict[str, object], bool]] = {
    "overlap": ({"communication": "overlap"}, False),
    "duplex": ({"communication": "duplex"}, False),
    "gpipe": ({"schedule": "gpipe"}, True),
    "replicas 2": ({"max_replicas": 2}, False),
    "replicas 4": ({"max_replicas": 4}, False),
    "groups 2": ({"groups": 2}, False),
    "streaming": ({"streaming": True, "memory_factor": 0.5}, False),
}


def main() -> int:
    """Run every file and variant."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="?", type=Path, default=Path("../shared/data/dnn-partitioning/throughput"))
    add_out(parser)
    arguments = parser.parse_args()
    files = sorted(arguments.data.glob("*.json"))
    if not files:
        print(f"no files in {arguments.data}; give the folder with the published throughput files as an argument")
        return 0
    rows = []
    print(f"{'file':32}{'variant':12}{'objective':>12}{'bound':>12}{'gap':>9}{'solver s':>9}{'peak MB':>9}")
    for path in files:
        for name, (wanted, training) in VARIANTS.items():
            if training and "training" not in path.stem:
                continue
            answer = solve_apart(path, LIMIT_S, **wanted)
            if isinstance(answer, str):
                print(f"{path.stem:32}{name:12}failed: {answer}")
                return 1
            rows.append({"file": path.stem, "variant": name, **answer})
            print(
                f"{path.stem:32}{name:12}{answer['objective']:12.4f}{answer['bound']:12.4f}{answer['gap']:9.4%}"
                f"{answer['solver_s']:9.2f}{answer['peak_mb']:9.0f}",
                flush=True,
            )
    write(arguments.out / "throughput_variants.csv", rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
