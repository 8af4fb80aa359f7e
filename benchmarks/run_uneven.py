"""Plans made from measured costs, run beside equal layers and balanced parameters, on models whose parts differ.

    python benchmarks/run_uneven.py [--out results] [--rounds 2]

Two processes with one thread each, 1F1B with eight microbatches. Every split runs once a round, the splits in turn; its
least batch counts, since whatever else the machine does only makes a batch longer. The last line counts models on which
the plan is as fast as both others, with 5 % for noise.
"""

from __future__ import annotations

import argparse
import sys

from _common import add_out, write
from _running import profiled, run
from partita.conductor.solve import options_of, run_solver
from partita.engines.search.monitor import Monitor
from partita.execution.run import Host
from partita.problems.throughput.baselines.rules import EqualLayers, EqualParameters
from partita.problems.throughput.descriptor import THROUGHPUT

MODELS = ("wide_table", "narrowing", "large_images", "hourglass", "one_giant")
MICROBATCHES, SCHEDULE, NOISE = 8, "1f1b", 1.05

#: Seconds for a plan.
LIMIT_S = 10.0


def main() -> int:
    """Plan, and run all splits of all models."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_out(parser)
    parser.add_argument("--rounds", type=int, default=2, help="runs of every split")
    arguments = parser.parse_args()
    rows = []
    won = 0
    options = options_of(THROUGHPUT, 0, 2, {})
    with Host() as host:
        for model in MODELS:
            subject = profiled(model)
            priced = subject.priced(MICROBATCHES, SCHEDULE)
            plan = run_solver(priced.problem, None, options, Monitor(LIMIT_S, None), explain=True).plan
            splits = {"planned": plan}
            for baseline in (EqualLayers(), EqualParameters()):
                splits[baseline.name] = baseline.solve(priced.problem, options, Monitor(LIMIT_S)).plan
            found = [
                {name: run(host, subject, priced, split, MICROBATCHES, SCHEDULE) for name, split in splits.items()}
                for _ in range(max(1, arguments.rounds))
            ]
            best = {name: min(outcomes[name].best_s for outcomes in found) for name in splits}
            ahead = best["planned"] <= NOISE * min(best.values())
            won += ahead
            for name in splits:
                rows.append(
                    {
                        "model": model,
                        "split": name,
                        "simulated_s": found[0][name].simulated_s,
                        "measured_s": best[name],
                        "against_planned": best[name] / best["planned"],
                        "one_process_s": min(outcomes[name].unsplit_s for outcomes in found),
                        "worst_relative_difference": max(outcomes[name].worst_error for outcomes in found),
                    }
                )
            told = ", ".join(f"{name} {best[name]:.4f} s ({best[name] / best['planned']:.2f}×)" for name in splits)
            print(f"{model:14}{'ahead' if ahead else 'BEHIND':8}{told}", flush=True)
    write(arguments.out / "run_uneven.csv", rows)
    print(f"the plan is as fast as the others on {won} of {len(MODELS)} models (all of them)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
