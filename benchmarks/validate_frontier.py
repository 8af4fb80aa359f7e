"""Training runs that were published since 2024 against what the planner says of their layouts, in tokens per second.

    python benchmarks/validate_frontier.py [ROWS.csv] [--out results]

Prints a row for every run, and what the errors come to: in all, and by system, precision, kind of model and runtime.
Rows
that cannot be predicted, and those whose layout is said not to fit, are counted and named.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from typing import Any

import _common
import _frontier
from _frontier import Prediction
from _training import median, rank_correlation
from partita.ground.errors import PartitaError


def planned(found: Prediction, seconds: float) -> dict[str, Any]:
    """What the planner chooses for a row in so many seconds, beside what was run; nothing where it finds no plan."""
    answer = _frontier.chosen(found, seconds)
    if answer.plan is None:
        return {"chosen": "", "faster": "", "chosen_gap": "", "chosen_plan": str(answer.status)}
    plan, tokens = answer.plan, found.tokens_of(answer.objective)
    first = plan.stages[0]
    degrees = {"p": len(plan.stages), "d": first.data_parallel, "t": first.tensor_parallel, "c": first.context_parallel}
    degrees |= {"e": first.expert_parallel, "x": first.expert_tensor_parallel, "v": plan.chunks, "z": plan.zero}
    told = {
        name: degree for name, degree in degrees.items() if degree > 1 or name in "pdt" or (name in "xz" and degree)
    }
    return {
        "chosen": round(tokens, 1),
        "faster": round(tokens / found.tokens_per_s - 1, 4),
        "chosen_gap": round(answer.gap or 0.0, 4),
        "chosen_plan": "·".join(f"{name}{degree}" for name, degree in told.items()),
    }


def shown(found: Prediction) -> dict[str, Any]:
    """What is printed and written of a row."""
    row = found.row
    return {
        "model": row["model"],
        "system": row["system"],
        "devices": row["devices"],
        "precision": row["precision"] + (" adapters" if found.adapters and "LoRA" not in row["precision"] else ""),
        "runtime": f"{row['framework']} {row['release']}",
        "measured": round(found.measured, 1),
        "predicted": round(found.tokens_per_s, 1),
        "error": round(found.tokens_per_s / found.measured - 1, 4),
        "memory": round(found.memory_share, 3),
        "fits": found.evaluation.feasible,
    }


def summary(predictions: Sequence[Prediction]) -> list[str]:
    """What the errors come to, group by group."""
    ways = {
        "all": lambda found: "all",
        "system": lambda found: found.row["system"],
        "precision": lambda found: _frontier.precision_of(found.row),
        "kind": lambda found: found.kind,
        "runtime": lambda found: f"{found.row['framework']} {found.row['release']}",
    }
    said = [f"{'group':24} {'rows':>4} {'median':>7} {'90 %':>7} {'mean':>7} {'order':>6}"]
    for name, way in ways.items():
        for group in sorted({way(found) for found in predictions}):
            mine = [found for found in predictions if way(found) == group]
            errors = [found.tokens_per_s / found.measured - 1 for found in mine]
            sizes = sorted(abs(error) for error in errors)
            order = ""
            if len(mine) > 2:
                pairs = [found.tokens_per_s for found in mine], [found.measured for found in mine]
                order = f"{rank_correlation(*pairs):.2f}"
            title = group if name == "all" else f"{name} {group}"
            said.append(
                f"{title:24} {len(mine):4} {median(sizes):7.1%} {sizes[int(0.9 * (len(sizes) - 1))]:7.1%} "
                f"{sum(errors) / len(errors):+7.1%} {order:>6}"
            )
    return said


def main(arguments: Sequence[str] | None = None) -> int:
    """Predict every row, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="?", default=_frontier.ROWS, help="rows of published runs in CSV")
    _common.add_out(parser)
    parser.add_argument(
        "--search", type=float, default=20.0, help="seconds for the planner's own plan of a row; 0: none"
    )
    asked = parser.parse_args(arguments)
    started = time.perf_counter()
    predictions, refused, written = [], [], []
    print(f"{'model':26} {'system':9} {'dev.':>4} {'precision':14} {'runtime':15}", end=" ")
    print(f"{'tok/s':>8} {'pred.':>8} {'error':>7} mem.", end=" ")
    print(f"{'chosen':>8} {'faster':>7}  plan" if asked.search else "")
    for row in _frontier.read_rows(asked.rows):
        try:
            found = _frontier.predict(row)
        except PartitaError as error:
            refused.append(f"{row['model']} on {row['devices']} {row['system']}: {error}")
            print(f"{row['model']:26} {row['system']:9} {row['devices']:>4} refused: {error}", flush=True)
            continue
        predictions.append(found)
        one = shown(found) | (planned(found, asked.search) if asked.search else {})
        written.append(one)
        beside = ""
        if one.get("chosen"):
            beside = f"{one['chosen']:8.0f} {one['faster']:+7.1%}  {one['chosen_plan']}"
        print(
            f"{one['model']:26} {one['system']:9} {one['devices']:>4} {one['precision']:14} {one['runtime']:15} "
            f"{one['measured']:8.0f} {one['predicted']:8.0f} {one['error']:+7.1%} {one['memory']:4.0%} "
            f"{beside}{'' if one['fits'] else ' does not fit'}",
            flush=True,
        )
    print(*summary(predictions), sep="\n")
    faster = [one["faster"] for one in written if one.get("chosen")]
    if faster:
        print(
            f"Of {len(faster)} plans of its own the planner says that half are {median(faster):.1%} faster than what "
            f"was run, {sum(one >= 0 for one in faster)} at least as fast, {min(faster):+.1%} to {max(faster):+.1%}."
        )
    wrong = [found for found in predictions if not found.evaluation.feasible]
    print(f"{len(refused)} rows are refused, {len(wrong)} are said not to run ({time.perf_counter() - started:.0f} s).")
    print(
        *(f"{found.row['model']} on {found.row['system']}: {found.evaluation.violations[0]}" for found in wrong),
        sep="\n",
    )
    _common.write(asked.out / "validate_frontier.csv", written)
    return 0


if __name__ == "__main__":
    sys.exit(main())
