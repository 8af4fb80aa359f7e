"""Free splits of the published throughput workloads beside the published values.

    python benchmarks/throughput_free.py [FOLDER] [--time-limit 60] [--only TEXT] [--out results]

FOLDER holds the workloads published with Tarnawski et al., NeurIPS 2020.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import partita as pt
from _common import add_out, write

#: Best published free (non-contiguous) time per sample in ms (Table 1 of the paper), by file.
PUBLISHED = {
    "operator-bert_l-3_inference": 21.91,
    "operator-bert_l-6_inference": 28.33,
    "operator-bert_l-12_inference": 130.03,
    "operator-bert_l-3_training": 54.21,
    "operator-bert_l-6_training": 71.64,
    "operator-resnet50_training": 255.19,
    "layer-bert24_inference": 17.71,
    "layer-resnet50_inference": 33.31,
    "layer-inceptionv3_inference": 51.52,
    "layer-gnmt_inference": 31.68,
    "layer-bert24_training": 39.79,
    "layer-resnet50_training": 76.65,
}

#: Widths of the printed columns.
WIDTHS = (9, 10, 10, 7, 7, 7, 6)


def measure(path: Path, time_limit_s: float, threads: int) -> dict[str, object]:
    """One row."""
    problem = pt.read_problem(path, format="dnn-partitioning", problem="throughput")
    result = pt.solve(problem, contiguity="free", time_limit_s=time_limit_s, threads=threads)
    events = result.statistics.events
    best = [e.time_s for e in events if e.objective == result.statistics.events[-1].objective]
    proof = [e.time_s for e in events if e.bound == result.statistics.events[-1].bound]
    return {
        "file": path.stem,
        "published": PUBLISHED.get(path.stem),
        "objective": result.objective,
        "bound": None if result.bound is None else result.bound.value,
        "gap": result.gap,
        "time_to_best_s": round(best[0], 2) if best else None,
        "time_to_proof_s": round(proof[0], 2) if proof else None,
        "runtime_s": round(result.runtime_s, 2),
        "status": str(result.status),
    }


def main() -> None:
    """Measure every workload of a folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("../shared/data/dnn-partitioning/throughput"))
    parser.add_argument("--time-limit", type=float, default=60.0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", default="", help="files whose name contains one of these words (commas between)")
    add_out(parser)
    options = parser.parse_args()
    rows = []
    heads = ["published", "objective", "bound", "gap %", "best s", "bound s", "s"]
    print(f"{'file':32} " + " ".join(f"{head:>{width}}" for head, width in zip(heads, WIDTHS, strict=True)))
    for path in sorted(options.folder.glob("*.json")):
        if not any(word in path.stem for word in options.only.split(",")):
            continue
        row = measure(path, options.time_limit, options.threads)
        rows.append(row)
        print(
            f"{row['file']:32} {row['published'] or '':>9} {row['objective']:10.4f} {row['bound']:10.4f}"
            f" {100 * float(str(row['gap'])):7.3f} {row['time_to_best_s']:7.1f} {row['time_to_proof_s']:7.1f}"
            f" {row['runtime_s']:7.1f}",
            flush=True,
        )
    write(options.out / "throughput_free.csv", rows)


if __name__ == "__main__":
    main()
