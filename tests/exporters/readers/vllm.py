"""vLLM: the variable of its pipeline's layers, and what ``vllm serve`` is called with."""

from __future__ import annotations

import re

from exporters.readers.plan import ReadPlan, visible_cards


def read(text: str, cards: int) -> ReadPlan:
    """The plan on a host with so many cards."""
    value = re.search(r"^export VLLM_PP_LAYER_PARTITION=(\S+)$", text, re.MULTILINE)
    assert value is not None
    blocks = [int(part) for part in value[1].split(",")]
    words = text.splitlines()[-1].partition('"$@" ')[2].split()
    given = dict(zip(words[::2], words[1::2], strict=True))
    assert set(given) <= {"--pipeline-parallel-size", "--tensor-parallel-size", "--data-parallel-size", "--dtype"}
    ranks, tensor = int(given["--pipeline-parallel-size"]), int(given["--tensor-parallel-size"])
    data = int(given.get("--data-parallel-size", "1"))
    assert len(blocks) == ranks
    visible = visible_cards(text)
    if visible is None:
        visible = list(range(cards))
    # Rank by rank of a replica: tensor-parallel ones first, then those of the pipeline.
    found = [
        [visible[(replica * ranks + rank) * tensor + t] for replica in range(data) for t in range(tensor)]
        if visible
        else []
        for rank in range(ranks)
    ]
    rest = {"ranks": ranks, "data": data, "tensor": tensor, "dtype": given.get("--dtype")}
    return ReadPlan(blocks=blocks, cards=found, rest=rest)
