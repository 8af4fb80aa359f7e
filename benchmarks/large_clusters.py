"""Plans and placements of training on thousands to a hundred thousand devices: time and memory of the whole.

    python -m benchmarks large_clusters
    python benchmarks/large_clusters.py [--rows dense-131072,experts-131072]

Every row is a process of its own, which traces the model (or reads what was kept of an earlier trace), prices it for
several sizes of microbatches, plans the step with proof, and places the plan. *CPU* is what it computed, with all
threads; wall time is longer where other programs keep the machine busy. Steps in seconds: of the plan, placed, and
placed in the order of its ranks; gaps are those of the plan and of the mapping problem. Written to
``results/large_clusters.csv``; the end is an error if a row takes more than 2 minutes of CPU or 4 GB, or a placement is
worse than the order of the ranks.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from _common import write

RESULTS = Path("results")

#: Most CPU seconds and bytes of a row.
MOST_S, MOST_BYTES = 120.0, 4e9

#: Grattafiori et al., "The Llama 3 Herd of Models", 2024, table 3.
DENSE: dict[str, Any] = {
    "num_hidden_layers": 126,
    "hidden_size": 16384,
    "intermediate_size": 53248,
    "num_attention_heads": 128,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
}

#: Model with its fields, cluster, samples of a global batch, and tokens of each.
ROWS: dict[str, tuple[str, dict[str, Any], str, int, int]] = {
    "dense-2048": ("hf:llama", DENSE, "256x(8xH100-80GB):infiniband-ndr", 1024, 8192),
    "dense-16384": ("hf:llama", DENSE, "2048x(8xH100-80GB):infiniband-ndr", 2048, 8192),
    "dense-131072": ("hf:llama", DENSE, "16384x(8xH100-80GB):infiniband-ndr", 16384, 8192),
    "dense-131040-racks": ("hf:llama", DENSE, "gb300-nvl72:1820", 16380, 8192),
    "experts-131072": ("hf:deepseek_v3", {}, "16384x(8xH100-80GB):infiniband-ndr", 131072, 4096),
}

CHILD = """
import json, sys
import partita as pt
model, size, cluster, batch, tokens = json.loads(sys.argv[1])
answer = pt.plan(model, cluster, training=True, global_batch=batch, sequence_length=tokens, dtype="bf16", set=size,
                 time_limit_s=600)
stage, placed = answer.plan.stages[0], answer.placed
found = {"step": answer.objective, "gap": answer.gap, "why not": answer.not_placed,
         "plan": f"{len(answer.plan.stages)} x d{stage.data_parallel}·t{stage.tensor_parallel}"
                 f"·c{stage.context_parallel}·e{stage.expert_parallel}"}
if placed is not None:
    chosen, order = placed.chosen, placed.in_order
    found |= {"placed": chosen.step and chosen.step.time, "in order": order and order.step and order.step.time,
              "busiest": placed.result.objective, "busiest gap": placed.result.gap,
              "devices": sum(len(group) for row in chosen.layout for group in row)}
print(json.dumps(found))
"""


def measured(name: str) -> dict[str, Any]:
    """What a row found and what that took."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    command = [sys.executable, "-c", CHILD, json.dumps(ROWS[name])]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    # Of the largest child so far, which may be an earlier row.
    return {**found, "wall": time.monotonic() - started, "cpu": cpu, "peak": after.ru_maxrss * 1024.0}


def _shown(value: Any, digits: str = ".4g") -> str:
    return "" if value is None else f"{value:{digits}}"


def main() -> int:
    """Measure the rows; 1 if one is too slow, too large, or worse than the order of the ranks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default=",".join(ROWS), help="which of them, separated by commas")
    rows, wrong = [], []
    for name in parser.parse_args().rows.split(","):
        found = measured(name)
        late = found["cpu"] > MOST_S or found["peak"] > MOST_BYTES
        worse = found.get("placed") is not None and found["placed"] > (found["in order"] or float("inf"))
        if late or worse or "placed" not in found:
            wrong.append(f"{name}: {found['why not'] or ('worse than in order' if worse else 'too slow or too large')}")
        row = {
            "row": name,
            "cluster": ROWS[name][2],
            "plan": found["plan"],
            "step": _shown(found["step"]),
            "gap": _shown(found["gap"], ".2%"),
            "placed": _shown(found.get("placed")),
            "in order": _shown(found.get("in order")),
            "busiest": _shown(found.get("busiest")),
            "gap there": _shown(found.get("busiest gap"), ".2%"),
            "CPU s": f"{found['cpu']:.0f}",
            "s": f"{found['wall']:.0f}",
            "MB": f"{found['peak'] / 1e6:.0f}",
        }
        if not rows:
            print(" | ".join(row))
        print(" | ".join(row.values()), flush=True)
        rows.append(row)
    write(RESULTS / "large_clusters.csv", rows)
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
