"""Megatron-LM: the layout of the pipeline as a string, with the parallel sizes, the batch and the memory options."""

from __future__ import annotations

import re
from itertools import groupby
from typing import Any

from partita.exporters.cards import cards_of_split, cards_said, rank_lines
from partita.exporters.exporter import FileExporter, lines, read_arguments
from partita.exporters.facts import Facts, ends_tied, layer_counts
from partita.nouns.split import Split

#: Flags of number formats.
_FORMATS = {"bfloat16": "--bf16", "float16": "--fp16"}


class Megatron(FileExporter):
    """Arguments of ``pretrain_gpt.py``, one on a line; lines that begin with ``#`` say on which cards ranks have to be.

    In the layout ``E`` is the embedding, ``t`` a layer, ``L`` head and loss, ``|`` ends a stage, and ``*`` repeats;
    virtual stages come in pipeline order. Source:
    Megatron-LM, ``docs/user-guide/features/pipeline_parallel_layout.md``, ``megatron/training/arguments.py``,
    ``megatron/core/optimizer/cpu_offloading/README.md``.
    """

    name = "megatron"

    def content(self, split: Split, model: Any) -> bytes:
        counts, first, formats = layer_counts(split), split.stages[0], split.formats
        assert formats is not None
        found = [
            f"--num-layers {sum(counts)}",
            f"--tensor-model-parallel-size {first.tensor}",
            f"--pipeline-model-parallel-size {split.ranks}",
        ]
        if len(counts) > 1:
            found.append(f"--pipeline-model-parallel-layout {layout(counts)}")
        if first.context > 1:
            found.append(f"--context-parallel-size {first.context}")
        if first.expert > 1 or first.expert_tensor:
            found += [
                f"--expert-model-parallel-size {first.expert}",
                f"--expert-tensor-parallel-size {first.expert_tensor or first.tensor}",
            ]
        if first.tensor > 1 and split.sequence_parallel:
            found.append("--sequence-parallel")
        samples = max(1, split.samples)
        found += [f"--micro-batch-size {samples}", f"--global-batch-size {samples * split.microbatches}"]
        if split.sequence:
            found.append(f"--seq-length {split.sequence}")
        if not ends_tied(split):
            found.append("--untie-embeddings-and-output-weights")
        if (split.zero and split.groups > 1) or split.optimizer_on_host:
            # An optimizer on hosts is one that shares out states, also where nobody is there to.
            found.append("--use-distributed-optimizer")
        if split.groups > 1:
            if split.state_copies > 1:
                found.append(f"--num-distributed-optimizer-instances {split.state_copies}")
            found += ["--overlap-grad-reduce"] if split.overlap else []
            found += ["--overlap-param-gather"] if split.zero and split.overlap else []
        if split.optimizer_on_host:
            found += ["--use-precision-aware-optimizer", "--optimizer-cpu-offload", "--optimizer-offload-fraction 1.0"]
            found.append("--overlap-cpu-optimizer-d2h-h2d")
        way = split.ways[0] if split.ways else "none"
        if way == "full":
            found += ["--recompute-granularity full", "--recompute-method uniform", "--recompute-num-layers 1"]
        elif way == "attention":
            found += ["--recompute-granularity selective", "--recompute-modules core_attn"]
        if formats.weights in _FORMATS:
            found.append(_FORMATS[formats.weights])
            if formats.gradients == "float32":
                found.append("--accumulate-allreduce-grads-in-fp32")
            elif formats.gradients == "bfloat16":
                found.append("--grad-reduce-in-bf16")
        found += ["--optimizer sgd", "--sgd-momentum 0.0"] if split.optimizer == "sgd" else ["--optimizer adam"]
        cards = cards_of_split(split)
        return lines(*(f"# {text}" for text in rank_lines(cards, cards.by_stage(split))), *found)

    def said(self, content: bytes) -> Facts:
        text = content.decode()
        known = read_arguments(text)
        tensor, ranks = int(known["--tensor-model-parallel-size"]), int(known["--pipeline-model-parallel-size"])
        context, samples = int(known.get("--context-parallel-size", 1)), int(known["--micro-batch-size"])
        blocks = read_layout(known.get("--pipeline-model-parallel-layout", "t" * int(known["--num-layers"])))
        return {
            "blocks": blocks,
            "ranks": ranks,
            "chunks": len(blocks) // ranks,
            "tensor": tensor,
            "context": context,
            "expert": int(known.get("--expert-model-parallel-size", 1)),
            "state_copies": int(known.get("--num-distributed-optimizer-instances", 1)),
            "expert_tensor": int(known.get("--expert-tensor-parallel-size", 0)) or None,
            "samples": samples,
            "sequence": int(known["--seq-length"]) if "--seq-length" in known else None,
            "sequence_parallel": "--sequence-parallel" in known if tensor > 1 else None,
            "recompute": {"full": "full", "selective": "attention"}.get(
                known.get("--recompute-granularity", ""), "none"
            ),
            "optimizer_on_host": known.get("--optimizer-offload-fraction") == "1.0"
            and "--optimizer-cpu-offload" in known,
            "weights": next((name for name, flag in _FORMATS.items() if flag in known), "float32"),
            **cards_said(text),
        }


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


def read_layout(text: str) -> tuple[int, ...]:
    """Layers of every stage of a layout."""
    for pattern in (r"\(([^)]+)\)\*(\d+)", r"(.)\*(\d+)"):
        text = re.sub(pattern, lambda found: found[1] * int(found[2]), text)
    return tuple(stage.count("t") for stage in text.split("|"))
