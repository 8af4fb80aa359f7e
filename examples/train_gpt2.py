"""GPT-2 trained on two processes: from a profile over a plan to gradients that are checked.

    python examples/train_gpt2.py [--layers 4] [--width 128]

The model is built from its configuration, with random weights. It is profiled on this machine, planned with what was
measured, and run; outputs, loss and every gradient are compared with those of the model that is not split.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from partita.cli import main as command_line


def partita(*arguments: object) -> None:
    """Run the command line, as a person would, and stop if it fails."""
    words = [str(argument) for argument in arguments]
    print(f"\n$ partita {' '.join(words)}", flush=True)
    try:
        command_line(words)
    except SystemExit as done:
        if done.code:
            raise


def main(arguments: list[str] | None = None) -> int:
    """Profile, plan and run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=5, help="runs of the profile")
    given = parser.parse_args(arguments)
    settings = {"n_layer": given.layers, "n_embd": given.width, "n_head": 4, "vocab_size": 500}
    model = ["hf:gpt2", *(word for name, value in settings.items() for word in ("--set", f"{name}={value}"))]
    model += ["--sequence-length", given.tokens, "--batch-size", 2, "--dtype", "float32", "--training"]
    with tempfile.TemporaryDirectory() as folder:
        profile, result = Path(folder) / "profile.json", Path(folder) / "plan.json"
        partita("profile", *model, "--processes", 2, "--repeats", given.repeats, "--output", profile)
        plan = ["--costs", profile, "--objective", "throughput", "--microbatches", 4, "--time-limit", 10]
        partita("plan", *model, *plan, "--output", result)
        partita("run", result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
