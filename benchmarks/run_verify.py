"""Plans that run here, compared with the model that is not split: outputs, loss and every parameter's gradient.

    python benchmarks/run_verify.py [--out results] [--models gpt2,unet]

Small configurations of GPT-2, ResNet, T5, a U-Net with skip connections and a language model with a tied embedding are
planned for 2 and 4 devices, and run under GPipe and 1F1B, with one and with two replicas of the plan: 40 combinations
of training, and 10 of inference. The exit status is 1 if one of them is not verified (relative tolerance 1e-4).
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from _common import add_out, write
from partita.execution.report import run_document
from partita.execution.run import Host, run_plan
from partita.ground.errors import PartitaError

EXAMPLES = Path(__file__).resolve().parent.parent / "examples" / "models.py"

#: The command line of every model: small, because it is the numbers that are looked at.
MODELS = {
    "gpt2": "hf:gpt2 --batch-size 2 --sequence-length 32 --set n_layer=4 --set n_embd=64 --set n_head=4 "
    "--set vocab_size=211",
    "resnet": "hf:resnet --batch-size 2 --set depths=[1,1,1,1] --set hidden_sizes=[8,16,32,64] --set embedding_size=8 "
    "--set layer_type=basic",
    "unet": f"{EXAMPLES}:unet",
    "t5": "hf:t5 --batch-size 2 --sequence-length 16 --set d_model=32 --set d_kv=8 --set d_ff=64 --set num_layers=2 "
    "--set num_heads=4 --set vocab_size=211",
    "tied": f"{EXAMPLES}:tied",
}


def plan(arguments: str, devices: int, training: bool, path: Path, seconds: float) -> None:
    """Plan a model for its throughput, and write the result file."""
    command = [sys.executable, "-m", "partita", "plan", *arguments.split(), "--objective", "throughput"]
    command += ["--cluster", f"{devices}xH100-80GB", "--time-limit", str(seconds), "--output", str(path)]
    command += ["--training", "--microbatches", "4"] if training else []
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def main() -> int:
    """Print one row for every combination."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_out(parser)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--seconds", type=float, default=5.0, help="for each plan")
    asked = parser.parse_args()
    rows: list[dict[str, Any]] = []
    head = (
        f"{'model':8}{'':11}{'stages':>7}{'copies':>7}{'processes':>10}  {'schedule':10}{'output':>9}{'gradient':>10}"
    )
    print(head)
    with tempfile.TemporaryDirectory() as folder, Host() as host:
        for name in asked.models.split(","):
            for training in (True, False):
                for devices in (2, 4):
                    path = Path(folder) / f"{name}{devices}{training}.json"
                    plan(MODELS[name], devices, training, path, asked.seconds)
                    for copies in (1, 2) if training else (1,):
                        for schedule in ("gpipe", "1f1b") if training else ("forward",):
                            rows.append(run(host, name, training, path, copies, schedule))
    write(asked.out / "run_verify.csv", rows)
    wrong = [row for row in rows if not row["verified"]]
    print(f"{len(rows) - len(wrong)} of {len(rows)} combinations verified")
    return 1 if wrong else 0


def run(host: Host, name: str, training: bool, path: Path, copies: int, schedule: str) -> dict[str, Any]:
    """Run one combination."""
    started = time.perf_counter()
    try:
        first = run_plan(
            path, host=host, schedule=schedule, repeats=1, microbatches=4 * copies, **_copies(path, copies)
        )
        document = run_document(first)
    except PartitaError as error:
        document = {"verified": False, "processes": 0, "devices": [], "error": str(error)}
    row = {
        "model": name,
        "training": training,
        "stages": len({entry["stage"] for entry in document["devices"]}),
        "copies": copies,
        "processes": document["processes"],
        "schedule": schedule,
        "output_error": document.get("worst_output_error"),
        "gradient_error": document.get("worst_gradient_error"),
        "verified": document["verified"],
        "seconds": time.perf_counter() - started,
    }
    print(
        f"{name:8}{'training' if training else 'inference':11}{row['stages']:>7}{copies:>7}{row['processes']:>10}  "
        f"{schedule:10}{_error(row['output_error']):>9}{_error(row['gradient_error']):>10}  "
        f"{'verified' if row['verified'] else 'NOT VERIFIED ' + document.get('error', '')}",
        flush=True,
    )
    return row


def _copies(path: Path, copies: int) -> dict[str, int]:
    from partita.problems.planned import read_split

    split = read_split(path)
    own = sum({stage.rank: stage.replicas for stage in split.stages}.values())
    return {"processes": own * copies}


def _error(value: float | None) -> str:
    return "–" if value is None else f"{value:.1e}"


if __name__ == "__main__":
    sys.exit(main())
