"""Published memory of fine-tuning with adapters against what the planner says of the same layouts.

    python benchmarks/adapter_memory.py [ROWS.json] [--out results]

Prints a row for every run: what was reported, what is predicted, and whether the plan fits the card.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import _common
import partita as pt
from _training import read_rows

FOLDER = Path(__file__).resolve().parent
ROWS = FOLDER / "adapter_runs.json"
PIECEWISE = FOLDER / "_adapters.py"

#: Sizes of Llama 2, Llama 3, Yi and the first Llama, by the names of fields in transformers' configuration.
SIZES: dict[str, dict[str, int]] = {
    "7B": {"num_key_value_heads": 32, "intermediate_size": 11008, "vocab_size": 32000},
    "8B": {"num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256},
    "33B": {
        "num_hidden_layers": 60,
        "hidden_size": 6656,
        "num_attention_heads": 52,
        "num_key_value_heads": 52,
        "intermediate_size": 17920,
    },
    "34B": {
        "num_hidden_layers": 60,
        "hidden_size": 7168,
        "num_attention_heads": 56,
        "num_key_value_heads": 8,
        "intermediate_size": 20480,
        "vocab_size": 64000,
    },
    "65B": {
        "num_hidden_layers": 80,
        "hidden_size": 8192,
        "num_attention_heads": 64,
        "num_key_value_heads": 64,
        "intermediate_size": 22016,
    },
    "70B": {
        "num_hidden_layers": 80,
        "hidden_size": 8192,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
        "intermediate_size": 28672,
    },
}
#: What the callable of a file names the same fields.
_CALLED = {
    "num_hidden_layers": "layers",
    "hidden_size": "hidden",
    "num_attention_heads": "heads",
    "num_key_value_heads": "kv_heads",
    "intermediate_size": "intermediate",
    "vocab_size": "vocabulary",
}


def predict(row: Mapping[str, Any]) -> pt.Answer:
    """The layout of a row, priced: one microbatch a card, states and gradients in the adapters' format."""
    size = SIZES[row["size"]]
    if row["model"] == "piecewise":
        model, fields = f"{PIECEWISE}:llama", {_CALLED[name]: value for name, value in size.items()}
    else:
        model, fields = "hf:llama", dict(size)
    return pt.plan(
        model,
        row["cluster"],
        training=True,
        lora=row["rank"],
        lora_targets=tuple(row["targets"]),
        weights=row["weights"],
        set=fields,
        batch_size=row["batch"],
        sequence_length=row["sequence"],
        layout=row["layout"],
        microbatches=int(row["cluster"].partition("x")[0]),
        optimizer="adamw",
        optimizer_dtype="parameter",
        gradient_dtype="parameter",
        baselines=False,
        time_limit_s=5.0,
    )


def shown(row: Mapping[str, Any]) -> dict[str, Any]:
    """One row of the table."""
    found = predict(row)
    predicted = max(stage.memory_bytes for stage in found.evaluation.stages) / 2**30
    reported = row["memory_gib"]
    return {
        "run": row["name"],
        "cards": row["cluster"],
        "reported_gib": "fits" if reported is None else reported,
        "predicted_gib": round(predicted, 2),
        "error": "" if reported is None else round(predicted / reported - 1, 3),
        "fits": found.evaluation.feasible,
        "source": row["source"],
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Predict every row, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="?", default=ROWS, help="rows of published runs in JSON")
    _common.add_out(parser)
    asked = parser.parse_args(arguments)
    print(f"{'run':34} {'cards':12} {'reported':>8} {'predicted':>9} {'error':>7}  fits")
    rows = []
    for row in read_rows(asked.rows):
        rows.append(shown(row))
        one = rows[-1]
        error = f"{one['error']:+.1%}" if one["error"] != "" else ""
        print(
            f"{one['run']:34} {one['cards']:12} {one['reported_gib']:>8} {one['predicted_gib']:9.2f} {error:>7}  "
            f"{'yes' if one['fits'] else 'no'}",
            flush=True,
        )
    _common.write(asked.out / "adapter_memory.csv", rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
