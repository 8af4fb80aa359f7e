"""Models on large clusters: planned and placed in a process of its own, with what that takes."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from typing import Any

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

#: Interleaved plans, which unlike parts make best for some models, have no simulated step where they are placed.
CHILD = """
import json, sys
import partita as pt
model, size, cluster, batch, tokens = json.loads(sys.argv[1])
answer = pt.plan(model, cluster, training=True, global_batch=batch, sequence_length=tokens, dtype="bf16", set=size,
                 time_limit_s=600, uneven=False)
stage, placed = answer.plan.stages[0], answer.placed
found = {"step": answer.objective, "gap": answer.gap, "why not": answer.not_placed,
         "plan": f"{len(answer.plan.stages)} x d{stage.data_parallel}·t{stage.tensor_parallel}"
                 f"·c{stage.context_parallel}·e{stage.expert_parallel}"
                 + (f"·x{stage.expert_tensor_parallel}" if stage.expert_tensor_parallel else "")}
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
