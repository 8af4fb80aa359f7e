"""Megatron-LM: the layout of the pipeline as a string, with the parallel sizes."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Any

from partita.exporters.exporter import Exporter
from partita.exporters.rows import ends_tied, layer_counts
from partita.exporters.writing import write_lines
from partita.split import Split


class Megatron(Exporter):
    """Arguments of ``pretrain_gpt.py``, one on a line.

    In the layout ``E`` is the embedding, ``t`` a layer, ``L`` head and loss, ``|`` ends a stage, and ``*`` repeats;
    virtual stages come in pipeline order. Source: Megatron-LM,
    ``docs/user-guide/features/pipeline_parallel_layout.md``.
    """

    name = "megatron"

    def write(self, split: Split, path: str | Path, model: Any) -> list[str]:
        counts, first = layer_counts(split), split.stages[0]
        lines = [
            f"--num-layers {sum(counts)}",
            f"--tensor-model-parallel-size {first.tensor}",
            f"--pipeline-model-parallel-size {split.ranks}",
        ]
        if len(counts) > 1:
            lines.append(f"--pipeline-model-parallel-layout {layout(counts)}")
        samples = 1 if split.source is None else split.source.settings.get("batch_size") or 1
        lines += [f"--micro-batch-size {samples}", f"--global-batch-size {samples * split.microbatches}"]
        if not ends_tied(split):
            lines.append("--untie-embeddings-and-output-weights")
        if split.zero:
            lines.append("--use-distributed-optimizer")
        return write_lines(path, lines)


def layout(counts: list[int]) -> str:
    """The string of stages with so many layers; equal ones between the first and the last are written once."""
    last = len(counts) - 1

    def stage(number: int) -> str:
        count = counts[number]
        layers = "t" * count if count < 3 else f"t*{count}"
        return ("E" if number == 0 else "") + layers + ("L" if number == last else "")

    if last == 0:
        return stage(0)
    middle = [stage(number) for number in range(1, last)]
    parts = [f"{stage(0)}|"]
    for text, same in groupby(middle):
        times = len(list(same))
        # A multiplication has no other one inside.
        parts.append(f"{text}|" * times if times == 1 or "*" in text or not text else f"({text}|)*{times}")
    return "".join(parts) + stage(last)
