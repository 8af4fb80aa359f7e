"""Batches simulated from measured costs beside the same batches run: plans of three models on two processes.

    python benchmarks/run_accuracy.py [--out results] [--repeats 5]

Models are cut into two stages at several places, and run under GPipe and 1F1B with several numbers of microbatches, one
thread each. The last lines say how well the simulation orders the plans (Spearman's rank correlation), how far it is
off, and what the pipeline of two gains over one process, each with what it should be. On a machine that does other
things, too, compare the last columns: how long the busiest process works as simulated, and its processor time.
"""

from __future__ import annotations

import argparse
import sys
import time
from statistics import median

import numpy as np

from _common import add_out, write
from _running import profiled, run
from partita.execution.run import Host

#: By model, the shares of its layers in the first stage, with schedule and microbatches.
PLANS = {
    "decoder": ((0.25, "1f1b", 4), (0.5, "1f1b", 8), (0.5, "gpipe", 4), (0.75, "gpipe", 8)),
    "residual": ((0.25, "gpipe", 8), (0.375, "1f1b", 4), (0.5, "1f1b", 8), (0.75, "1f1b", 6)),
    "layers": ((0.25, "1f1b", 8), (0.5, "gpipe", 8), (0.5, "1f1b", 12), (0.8, "1f1b", 6)),
}

#: The model with equal halves, whose speed-up counts.
BALANCED = ("decoder", 0.5)


def ranks(values: list[float]) -> np.ndarray:
    """The place of each value among all."""
    found = np.empty(len(values))
    found[np.argsort(values)] = np.arange(len(values))
    return found


def main() -> int:
    """Run all plans."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_out(parser)
    parser.add_argument("--repeats", type=int, default=5, help="batches that are timed")
    arguments = parser.parse_args()
    rows = []
    print(
        f"{'model':10}{'cut':>5}{'schedule':>10}{'m':>4}{'simulated':>12}{'measured':>12}{'error':>8}{'speed-up':>10}"
        f"{'busy':>12}{'processor':>12}"
    )
    with Host() as host:
        for model, plans in PLANS.items():
            began = time.perf_counter()
            subject = profiled(model)
            print(f"{model}: profiled in {time.perf_counter() - began:.0f} s", flush=True)
            for share, schedule, microbatches in plans:
                priced = subject.priced(microbatches, schedule)
                layer = max(1, round(share * subject.layers(priced)))
                plan = subject.cut(priced, layer)
                found = run(host, subject, priced, plan, microbatches, schedule, arguments.repeats)
                error = found.simulated_s / found.measured_s - 1
                rows.append(
                    {
                        "model": model,
                        "first_stage_layers": layer,
                        "schedule": schedule,
                        "microbatches": microbatches,
                        "simulated_s": found.simulated_s,
                        "measured_s": found.measured_s,
                        "one_process_s": found.unsplit_s,
                        "error": error,
                        "simulated_busy_s": found.simulated_busy_s,
                        "processor_s": found.processor_s,
                        "speed_up": found.unsplit_s / found.measured_s,
                        "worst_relative_difference": found.worst_error,
                        "balanced": (model, share) == BALANCED,
                    }
                )
                print(
                    f"{model:10}{layer:5}{schedule:>10}{microbatches:4}{found.simulated_s:11.4f}s{found.measured_s:11.4f}s"
                    f"{error:8.1%}{found.unsplit_s / found.measured_s:10.2f}"
                    f"{found.simulated_busy_s:11.4f}s{found.processor_s:11.4f}s",
                    flush=True,
                )
    write(arguments.out / "run_accuracy.csv", rows)
    simulated, measured = ([float(row[key]) for row in rows] for key in ("simulated_s", "measured_s"))
    correlation = float(np.corrcoef(ranks(simulated), ranks(measured))[0, 1])
    best = max((row for row in rows if row["balanced"]), key=lambda row: float(row["speed_up"]))
    print(f"rank correlation {correlation:.3f} (at least 0.9)")
    working = [float(row["simulated_busy_s"]) / float(row["processor_s"]) - 1 for row in rows]
    errors = [abs(float(row["error"])) for row in rows]
    print(f"median error {median(errors):.1%} (at most 10 %); of working time {median(map(abs, working)):.1%}")
    print(
        f"speed-up of balanced halves {best['speed_up']:.2f} (at least 1.5), "
        f"simulated within {abs(best['error']):.1%} (15 %)"
    )
    print(
        "largest difference from the model that is not split "
        f"{max(float(row['worst_relative_difference']) for row in rows):.1e}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
