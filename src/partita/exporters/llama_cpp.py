"""llama.cpp: how many layers each card has."""

from __future__ import annotations

from typing import Any

from partita.exporters.cards import cards_of_split, cards_said, shell_lines
from partita.exporters.exporter import FileExporter, lines, read_arguments
from partita.exporters.facts import Facts, layer_counts
from partita.nouns.split import Split


class LlamaCpp(FileExporter):
    """A shell script that runs ``llama-server``, or what ``LLAMA`` names, with its own arguments and those it is given.

    The split is over the layers and, as one more, the output; shares that are numbers of these are met exactly, card
    after card as they are visible. The embedding stays in host memory, whatever the plan says. Layers of a first stage
    on the CPU are those that are not given to accelerators. Source: llama.cpp, ``src/llama-model.cpp: load_tensors``.
    """

    name = "llama.cpp"

    def content(self, split: Split, model: Any) -> bytes:
        shares = layer_counts(split)
        shares[-1] += 1
        if not split.stages[0].accelerator:
            del shares[0]
        flags = ["--split-mode layer", f"--n-gpu-layers {sum(shares)}"]
        if shares:
            flags.append(f"--tensor-split {','.join(map(str, shares))}")
        cards = cards_of_split(split)
        return lines(
            "#!/bin/sh",
            f"# {' '.join(split.model.split())}, as planned by partita; give --model FILE.gguf, and further arguments "
            "of llama-server, or of another program that LLAMA names.",
            *(shell_lines(cards, cards.by_stage(split), launched=False) if shares else []),
            f'exec "${{LLAMA:-llama-server}}" "$@" {" ".join(flags)}',
        )

    def said(self, content: bytes) -> Facts:
        text = content.decode()
        known = read_arguments(text.splitlines()[-1])
        shares = [int(part) for part in known["--tensor-split"].split(",")] if "--tensor-split" in known else []
        found: dict[str, Any] = {"data": 1, "tensor": 1, "context": 1, "expert": 1, "chunks": 1, **cards_said(text)}
        if shares:
            shares[-1] -= 1
            # Layers of the CPU are those of the model that are missing here, which the file does not say.
            found["blocks_of_cards"] = tuple(shares)
        return found
