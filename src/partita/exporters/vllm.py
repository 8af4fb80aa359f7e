"""vLLM: how many layers each pipeline rank has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from partita.exporters.exporter import Exporter
from partita.exporters.rows import layer_counts
from partita.exporters.writing import write_lines
from partita.split import Split


class Vllm(Exporter):
    """A shell script that sets ``VLLM_PP_LAYER_PARTITION`` and serves the model that it is given.

    Source: vLLM, ``vllm/envs.py`` and ``vllm/distributed/utils.py: get_pp_indices``.
    """

    name = "vllm"

    def write(self, split: Split, path: str | Path, model: Any) -> list[str]:
        counts, first = layer_counts(split), split.stages[0]
        flags = [f"--pipeline-parallel-size {len(counts)}", f"--tensor-parallel-size {first.tensor}"]
        if first.replicas > 1:
            flags.append(f"--data-parallel-size {first.replicas}")
        return write_lines(
            path,
            [
                "#!/bin/sh",
                f"# {' '.join(split.model.split())}, as planned by partita; give the model's name or folder, and "
                "further arguments of vllm serve.",
                f"export VLLM_PP_LAYER_PARTITION={','.join(map(str, counts))}",
                f'exec vllm serve "$@" {" ".join(flags)}',
            ],
        )
