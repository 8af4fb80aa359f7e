"""ResNet-50 through ONNX Runtime: planned for two devices, cut into two ONNX models, run one after the other.

    python examples/resnet_onnxruntime.py [--set FIELD=VALUE …]

The model is built from its configuration, with random weights. What the last stage gives is compared with what the
PyTorch model gives that is not split.
"""

from __future__ import annotations

import argparse
import json
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
    """Plan, export, run and compare."""
    import numpy as np
    import onnxruntime
    import torch

    from partita.exporters.module_inputs import wrapped_model
    from partita.problems.planned import read_split

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--set", dest="fields", action="append", default=[], metavar="FIELD=VALUE")
    given = parser.parse_args(arguments)
    settings = [word for entry in given.fields for word in ("--set", entry)]
    with tempfile.TemporaryDirectory() as name:
        result, folder = Path(name) / "plan.json", Path(name) / "stages"
        where = ["--cluster", "2xCPU", "--runtime", "onnx", "--time-limit", 10]
        partita("plan", "hf:resnet", *settings, "--dtype", "float32", *where, "--output", result)
        partita("export", result, "--to", "onnx", "--output", folder)
        listed = json.loads((folder / "stages.json").read_text())
        model, inputs = wrapped_model(read_split(result))
        known = dict(zip(listed["inputs"], (tensor.numpy() for tensor in inputs), strict=True))
        for stage in listed["stages"]:
            session = onnxruntime.InferenceSession(folder / stage["model"], providers=["CPUExecutionProvider"])
            found = session.run(stage["outputs"], {entry: known[entry] for entry in stage["inputs"]})
            known.update(zip(stage["outputs"], found, strict=True))
            shapes = ", ".join(str(list(array.shape)) for array in found)
            print(f"{stage['model']} gives {shapes}")
        with torch.no_grad():
            wanted = model(*inputs).numpy()
    error = float(np.abs(known[listed["outputs"][0]] - wanted).max() / np.abs(wanted).max())
    print(f"largest difference from the model that is not split: {error:.1e} of its largest output")
    return 0 if error < 1e-4 else 1


if __name__ == "__main__":
    sys.exit(main())
