"""llama.cpp: how many layers each device has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from partita.exporters.exporter import Exporter
from partita.exporters.rows import layer_counts
from partita.exporters.writing import write_lines
from partita.split import Split


class LlamaCpp(Exporter):
    """Arguments of ``llama-server`` and ``llama-cli``, one on a line.

    The split is over the layers and, as one more, the output; shares that are numbers of these are met exactly. The
    embedding stays in host memory, whatever the plan says. Layers of a first stage on the CPU are those that are not
    given to accelerators. Source: llama.cpp, ``src/llama-model.cpp: load_tensors``.
    """

    name = "llama.cpp"

    def write(self, split: Split, path: str | Path, model: Any) -> list[str]:
        shares = layer_counts(split)
        shares[-1] += 1
        if not split.stages[0].accelerator:
            del shares[0]
        lines = ["--split-mode layer", f"--n-gpu-layers {sum(shares)}"]
        if shares:
            lines.append(f"--tensor-split {','.join(map(str, shares))}")
        return write_lines(path, lines)
