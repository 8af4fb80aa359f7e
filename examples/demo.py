"""Plan two real models on two clusters, from their configurations alone: no weights, no network.

Run with ``make demo``. Result files go to ``results/demo``.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from pathlib import Path

RESULTS = Path("results/demo")

#: What to plan: name of the result, arguments of ``partita plan``.
RUNS = (
    (
        "gpt2-xl-homogeneous",
        "hf:gpt2 --set n_layer=48 --set n_embd=1600 --set n_head=25 --dtype float16 --cluster 4xL4",
    ),
    (
        "gpt2-xl-mixed-training",
        "hf:gpt2 --set n_layer=48 --set n_embd=1600 --set n_head=25 --dtype float16 "
        "--cluster 2xA100-40GB+4xT4 --training --microbatches 32",
    ),
    ("llama-7b-training", "hf:llama --cluster 8xA100-80GB --training --microbatches 32"),
    ("llama-7b-mixed", "hf:llama --dtype float16 --cluster 2xA100-40GB+4xT4"),
)


def main() -> int:
    """Run every plan through the command line, as a person would."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    for name, arguments in RUNS:
        output = RESULTS / f"{name}.json"
        print(f"\n$ partita plan {arguments} --output {output}", flush=True)
        started = time.perf_counter()
        command = [sys.executable, "-m", "partita", "plan", *shlex.split(arguments), "--output", str(output)]
        # Notes go to stderr; a demo wants them where it prints itself.
        code = subprocess.run(command, stderr=subprocess.STDOUT, check=False).returncode
        print(f"({time.perf_counter() - started:.0f} s)", flush=True)
        if code != 0:
            print(f"{name} ended with exit status {code}", file=sys.stderr)
            return code
    print(f"\nResult files: {', '.join(sorted(str(path) for path in RESULTS.glob('*.json')))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
