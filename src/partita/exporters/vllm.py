"""vLLM: how many layers each pipeline rank has, and on which cards."""

from __future__ import annotations

import re
from typing import Any

from partita.exporters.cards import cards_of_split, cards_said, shell_lines
from partita.exporters.exporter import FileExporter, lines, read_arguments
from partita.exporters.facts import Facts, layer_counts
from partita.nouns.split import Split

#: Number formats that it is asked for.
_FORMATS = ("float32", "float16", "bfloat16")


class Vllm(FileExporter):
    """A shell script that sets ``VLLM_PP_LAYER_PARTITION`` and serves the model that it is given.

    Ranks take the visible cards in order, tensor-parallel ones first, then those of the pipeline, then replicas.
    Source: vLLM, ``vllm/envs.py`` and ``vllm/distributed/utils.py: get_pp_indices``.
    """

    name = "vllm"

    def content(self, split: Split, model: Any) -> bytes:
        counts, first = layer_counts(split), split.stages[0]
        flags = [f"--pipeline-parallel-size {len(counts)}", f"--tensor-parallel-size {first.tensor}"]
        if first.replicas > 1:
            flags.append(f"--data-parallel-size {first.replicas}")
        if split.dtype in _FORMATS:
            flags.append(f"--dtype {split.dtype}")
        cards = cards_of_split(split)
        return lines(
            "#!/bin/sh",
            f"# {' '.join(split.model.split())}, as planned by partita; give the model's name or folder, and further "
            "arguments of vllm serve.",
            *shell_lines(cards, cards.by_replica(split)),
            f"export VLLM_PP_LAYER_PARTITION={','.join(map(str, counts))}",
            f'exec vllm serve "$@" {" ".join(flags)}',
        )

    def said(self, content: bytes) -> Facts:
        text = content.decode()
        known = read_arguments(text.splitlines()[-1])
        partition = re.search(r"^export VLLM_PP_LAYER_PARTITION=(\S+)$", text, re.MULTILINE)
        assert partition is not None
        return {
            "blocks": tuple(map(int, partition[1].split(","))),
            "ranks": int(known["--pipeline-parallel-size"]),
            "tensor": int(known["--tensor-parallel-size"]),
            "data": int(known.get("--data-parallel-size", 1)),
            "context": 1,
            "expert": 1,
            **({"dtype": known["--dtype"]} if "--dtype" in known else {}),
            **cards_said(text, "cards_by_replica"),
        }
