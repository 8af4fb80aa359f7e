"""Layers on machines that differ, by what they serve: the plan beside those of the largest and of the published flow.

    python benchmarks/placement_serving.py [DATA] [--seconds 60] [--only NAME …] [--out results]

DATA is the folder with the published files, ../shared/data/serving/helix by default; besides, Llama-2-70B on
4 A100-40GB, 8 L4 and 12 T4 with priced steps. Rates are output tokens per second of a run; of the files, whose machines
say nothing of their memory, caches are taken to be as large as ``LAYER_REQUESTS`` says. It fails if a plan serves less
than another.
"""

from __future__ import annotations

import argparse
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from _common import add_out, write

#: Tokens of mean requests of the Azure traces that Helix is measured with.
PROMPT, OUTPUT = 763, 232
#: Requests whose caches of a layer take the memory of its weights, where only rates are known.
LAYER_REQUESTS = 40
#: Llama-2-70B.
FIELDS = {
    "num_hidden_layers": 80,
    "hidden_size": 8192,
    "intermediate_size": 28672,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "vocab_size": 32000,
}
CLUSTER = "4xA100-40GB+8xL4+12xT4"
#: Rows that are shown of those that a plan is compared with.
SHOWN = {"most flow": "most_flow", "published flow": "published_flow"}


def problems(data: Path, only: list[str]) -> Iterator[tuple[str, Any]]:
    """Names and problems of tokens served."""
    import partita as pt

    settings = {"worth": "served", "output_tokens": OUTPUT, "layer_requests": LAYER_REQUESTS}
    for path in sorted(data.glob("*.json")):
        if not only or any(part in path.stem for part in only):
            yield path.stem, pt.read_problem(path).replace(**settings)
    name = "Llama-2-70B, 24 machines"
    if not only or any(part in name for part in only):
        yield (
            name,
            pt.price(
                "hf:llama",
                CLUSTER,
                objective="layer_placement",
                set={key: str(value) for key, value in FIELDS.items()},
                prompt_tokens=PROMPT,
                output_tokens=OUTPUT,
                decode=8209,
                tensor=1,
                worth="served",
            ),
        )


def row_of(name: str, problem: Any, seconds: float) -> dict[str, Any]:
    """What a problem's plan serves, and what the others do."""
    import partita as pt

    result = pt.solve(problem, time_limit_s=seconds, explain=False)
    others = {row.name: row.evaluation for row in pt.compare(problem) if row.feasible}
    served = 0.0 if result.evaluation is None else result.evaluation.tokens_per_s
    best = max((one.tokens_per_s for one in others.values()), default=0.0)
    found: dict[str, Any] = {"instance": name, "machines": len(problem.machines), "tokens_per_s": served}
    found["flow"] = None if result.evaluation is None else result.evaluation.flow_tokens_per_s
    for other, column in SHOWN.items():
        one = others.get(other)
        found[f"{column}_serves"] = None if one is None else one.tokens_per_s
        found[f"{column}_flow"] = None if one is None else one.flow_tokens_per_s
    rules = [one.tokens_per_s for other, one in others.items() if other not in SHOWN]
    return found | {
        "best_rule": max(rules, default=None),
        "bound": None if result.bound is None else 1 / result.bound.value,
        "gap": result.gap,
        "seconds": round(result.runtime_s, 1),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "verdict": "WORSE" if served < best * (1 - 1e-9) else str(result.status),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="?", type=Path, default=Path("../shared/data/serving/helix"))
    parser.add_argument("--seconds", type=float, default=60.0, help="of each search")
    parser.add_argument("--only", nargs="*", default=[], help="instances whose names contain one of these")
    add_out(parser)
    arguments = parser.parse_args()
    rows = []
    for name, problem in problems(arguments.data, arguments.only):
        rows.append(row_of(name, problem, arguments.seconds))
        figures = [f"{value:.4g}" if isinstance(value, float) else str(value) for value in rows[-1].values()]
        if len(rows) == 1:
            print(*rows[0], sep="  ")
        print(*figures, sep="  ", flush=True)
    write(arguments.out / "placement_serving.csv", rows)
    worse = sum(row["verdict"] == "WORSE" for row in rows)
    print(f"{len(rows)} placements, {worse} serve less than a plan beside them")
    return 1 if worse else 0


if __name__ == "__main__":
    raise SystemExit(main())
