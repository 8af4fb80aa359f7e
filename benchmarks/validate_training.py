"""Published training runs against what the planner says of their layouts: step, model FLOPs utilisation, memory.

    python benchmarks/validate_training.py [ROWS.json] [--out results] [--plot FILE]

Prints a row for every run and what the errors come to; writes both files to ``results`` unless told otherwise.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import _common
import _training
from _training import Prediction


def table(predictions: Sequence[Prediction]) -> list[dict[str, Any]]:
    """One row for each run, for people and for the CSV."""
    rows = []
    for found in predictions:
        row, measured = found.row, found.row["step_s"]
        memory = row.get("memory_mib")
        rows.append(
            {
                "run": row["name"],
                "device": row["device"],
                "devices": row["machines"] * row["per_machine"],
                "step_s": measured,
                "predicted_s": round(found.step_s, 4),
                "error": round(found.step_s / measured - 1, 4),
                "mfu": round(found.utilisation(measured), 4),
                "predicted_mfu": round(found.utilisation(found.step_s), 4),
                "memory_mib": "" if memory is None else memory,
                "predicted_memory_mib": round(found.memory_bytes / 2**20),
                "memory_error": "" if memory is None else round(found.memory_bytes / 2**20 / memory - 1, 4),
                "feasible": found.evaluation.feasible,
            }
        )
    return rows


def summary(predictions: Sequence[Prediction]) -> list[str]:
    """What the errors come to, sentence by sentence."""
    plain = [found for found in predictions if not _training.trend_only(found.row)]
    said = []
    if plain:
        errors = [abs(found.step_s / found.row["step_s"] - 1) for found in plain]
        said.append(f"Step: median error {_training.median(errors):.1%}, worst {max(errors):.1%} of {len(plain)} runs.")
    for device in sorted({found.row["device"] for found in plain}):
        errors = [abs(f.step_s / f.row["step_s"] - 1) for f in plain if f.row["device"] == device]
        said.append(f"Step on {device}: median error {_training.median(errors):.1%}, worst {max(errors):.1%}.")
    trends = [found for found in predictions if _training.trend_only(found.row)]
    if len(trends) > 2:
        order = _training.rank_correlation([f.step_s for f in trends], [f.row["step_s"] for f in trends])
        said.append(f"nanotron: rank correlation of steps {order:.2f} of {len(trends)} runs.")
    ratios = [f.memory_bytes / 2**20 / f.row["memory_mib"] - 1 for f in predictions if f.row.get("memory_mib")]
    if ratios:
        said.append(f"Memory: {min(ratios):+.1%} to {max(ratios):+.1%} of what {len(ratios)} runs reported.")
    return said


def draw(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Predicted against measured steps; without matplotlib nothing is drawn."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print("no plot: matplotlib is not installed (extra plot)", file=sys.stderr)
        return
    figure = Figure(figsize=(6.0, 5.5), layout="constrained")
    ax = figure.subplots()
    for device in sorted({row["device"] for row in rows}):
        mine = [row for row in rows if row["device"] == device]
        ax.loglog([row["step_s"] for row in mine], [row["predicted_s"] for row in mine], "o", label=device)
    ends = [min(row["step_s"] for row in rows) / 1.3, max(row["step_s"] for row in rows) * 1.3]
    ax.plot(ends, ends, "k-", linewidth=0.8)
    for factor in (0.85, 1.15):
        ax.plot(ends, [factor * end for end in ends], "k:", linewidth=0.8)
    ax.set(xlabel="measured step, s", ylabel="predicted step, s", title="Published training runs")
    ax.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    print(f"written to {path}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Predict every row, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="?", default=_training.ROWS, help="rows of published runs in JSON")
    _common.add_out(parser)
    parser.add_argument("--plot", type=Path, help="image; validate_training.png beside the rows unless named")
    asked = parser.parse_args(arguments)
    started = time.perf_counter()
    predictions = []
    print(f"{'run':28} {'step':>9} {'predicted':>9} {'error':>7} {'MFU':>6} {'pred.':>6}", end=" ")
    print(f"{'MiB':>7} {'pred.':>7} {'error':>7}")
    for row in _training.read_rows(asked.rows):
        predictions.append(_training.predict(row))
        (shown,) = table(predictions[-1:])
        memory = f"{shown['memory_error']:+7.1%}" if shown["memory_mib"] else ""
        print(
            f"{shown['run']:28} {shown['step_s']:9.3f} {shown['predicted_s']:9.3f} {shown['error']:+7.1%} "
            f"{shown['mfu']:6.1%} {shown['predicted_mfu']:6.1%} {shown['memory_mib']:>7} "
            f"{shown['predicted_memory_mib']:7} {memory} {'' if shown['feasible'] else 'does not fit'}",
            flush=True,
        )
    print(*summary(predictions), f"({time.perf_counter() - started:.0f} s)", sep="\n")
    rows = table(predictions)
    _common.write(asked.out / "validate_training.csv", rows)
    draw(rows, asked.plot or asked.out / "validate_training.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
