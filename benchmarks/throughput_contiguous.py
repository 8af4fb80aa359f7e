"""The published NeurIPS 2020 throughput files: optimal acyclic splits, proven, beside the published values.

    python benchmarks/throughput_contiguous.py [DATA] [--out results]

DATA is the folder with the files, ../shared/data/dnn-partitioning/throughput by default. Every file is solved in a
process of its own, so that its wall time includes the start of Python and its peak memory is its own.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from _common import add_out, solve_apart, write

#: Time per sample of the best contiguous split in the paper's Table 1, and its program's time.
PUBLISHED = {
    "operator-bert_l-3_inference": (27.92, "1 s"),
    "operator-bert_l-6_inference": (29.58, "5 s"),
    "operator-bert_l-12_inference": (147.48, "19 s"),
    "operator-bert_l-3_training": (65.30, "8 s"),
    "operator-bert_l-6_training": (72.86, "25 s"),
    "operator-resnet50_training": (255.19, "-"),
    "layer-bert24_inference": (17.79, "0-2 s"),
    "layer-resnet50_inference": (33.77, "0-2 s"),
    "layer-inceptionv3_inference": (51.55, "32 min"),
    "layer-gnmt_inference": (32.91, "29 s"),
    "layer-bert24_training": (41.75, "0-2 s"),
    "layer-resnet50_training": (78.63, "0-2 s"),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="?", type=Path, default=Path("../shared/data/dnn-partitioning/throughput"))
    add_out(parser)
    arguments = parser.parse_args()
    files = sorted(arguments.data.glob("*.json"))
    if not files:
        print(f"no files in {arguments.data}; give the folder with the published throughput files as an argument")
        return 2
    print(
        f"{'instance':32} {'objective':>10} {'bound':>10} {'gap':>8} {'solver s':>8} {'wall s':>6} {'MB':>5} published"
    )
    rows = []
    for path in files:
        # The first run compiles the kernels that no run before it needed.
        for _ in range(2):
            started = time.perf_counter()
            row = solve_apart(path, 60.0)
            wall = time.perf_counter() - started
        if isinstance(row, str):
            print(f"{path.stem:32} failed: {row}")
            continue
        value, seconds = PUBLISHED.get(path.stem, (None, "-"))
        print(
            f"{path.stem:32} {row['objective']:10.4f} {row['bound']:10.4f} {row['gap']:8.1e} "
            f"{row['solver_s']:8.2f} {wall:6.2f} {row['peak_mb']:5.0f}   {value} in {seconds}"
        )
        rows.append({"instance": path.stem, **row, "wall_s": wall, "published": value, "published_time": seconds})
    write(arguments.out / "throughput_contiguous.csv", rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
