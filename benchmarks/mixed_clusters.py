"""Training plans on clusters of several kinds of devices: the step, and how far the bound is from it after a minute.

    python -m benchmarks mixed_clusters
    python benchmarks/mixed_clusters.py [--rows llama-70b-halves,…] [--limit 60]

Every row prices a model in bfloat16 on two or three kinds of devices and solves the problem of a step. *Seconds* are of
the solver, without tracing, pricing and kernels that are compiled. Written to ``results/mixed_clusters.csv``; it ends
with an error if a gap is more than 2 % at the limit.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from _common import add_out, write

#: How figures are printed; they are written as they are.
FORMATS = {"step": ".5g", "bound": ".5g", "gap": ".2%", "s": ".1f"}

#: Largest gap.
MOST_GAP = 0.02

LLAMA_70B = {
    "num_hidden_layers": 80,
    "hidden_size": 8192,
    "intermediate_size": 28672,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
}
LLAMA_8B = LLAMA_70B | {
    "num_hidden_layers": 32,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
}
GPT2_XL = {"n_layer": 48, "n_embd": 1600, "n_head": 25}

#: Model with its fields, cluster, microbatches of a step, and tokens of each.
ROWS: dict[str, tuple[str, dict[str, Any], str, int, int]] = {
    "llama-70b-halves": ("hf:llama", LLAMA_70B, "2x(8xA100-80GB)+2x(8xH100-80GB)", 128, 8192),
    "llama-70b-quarter": ("hf:llama", LLAMA_70B, "1x(8xH100-80GB)+3x(8xA100-80GB)", 128, 8192),
    "llama-70b-three": ("hf:llama", LLAMA_70B, "1x(8xA100-80GB)+1x(8xH100-80GB)+1x(8xL40S)", 96, 8192),
    "llama-8b": ("hf:llama", LLAMA_8B, "1x(4xA100-80GB)+1x(8xL4)", 48, 4096),
    "gpt2-xl": ("hf:gpt2", GPT2_XL, "1x(2xH100-80GB)+1x(4xL4)", 24, 1024),
    "llama-70b-128": ("hf:llama", LLAMA_70B, "8x(8xA100-80GB)+8x(8xH100-80GB)", 512, 8192),
}


def _row(name: str, limit_s: float) -> tuple[dict[str, Any], float]:
    """A row of the table, and its gap."""
    import partita as pt

    model, fields, cluster, microbatches, tokens = ROWS[name]
    length = {} if tokens == 1024 else {"sequence_length": tokens}
    problem = pt.price(
        model, cluster, objective="hybrid", training=True, dtype="bf16", set=fields, microbatches=microbatches, **length
    )
    result = pt.solve(problem, time_limit_s=limit_s)
    stages = [] if result.plan is None else result.plan.stages
    kinds = list(dict.fromkeys(stage.kind for stage in stages))
    degrees = ", ".join(
        f"{sum(stage.kind == kind for stage in stages)} x d{first.data_parallel}·t{first.tensor_parallel} {kind}"
        for kind in kinds
        for first in [next(stage for stage in stages if stage.kind == kind)]
    )
    gap = 1.0 if result.gap is None else result.gap
    return {
        "row": name,
        "cluster": cluster,
        "stages": degrees,
        "step": result.objective,
        "bound": None if result.bound is None else result.bound.value,
        "gap": gap,
        "s": result.runtime_s,
    }, gap


def _shown(column: str, value: Any) -> str:
    return "" if value is None else f"{value:{FORMATS.get(column, '')}}"


def main() -> int:
    """Measure the rows; 1 if a gap is too large."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default=",".join(ROWS), help="which of them, separated by commas")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds of the solver")
    add_out(parser)
    arguments = parser.parse_args()
    rows: list[dict[str, Any]] = []
    wide = []
    for name in arguments.rows.split(","):
        row, gap = _row(name, arguments.limit)
        if not rows:
            print(" | ".join(row))
        print(" | ".join(_shown(*cell) for cell in row.items()), flush=True)
        rows.append(row)
        if gap > MOST_GAP:
            wide.append(name)
    write(arguments.out / "mixed_clusters.csv", rows)
    if wide:
        print(f"gaps of more than {MOST_GAP:.0%}: {', '.join(wide)}", file=sys.stderr)
    return 1 if wide else 0


if __name__ == "__main__":
    sys.exit(main())
