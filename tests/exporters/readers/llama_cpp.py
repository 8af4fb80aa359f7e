"""llama.cpp: which card each layer goes to, computed as ``load_tensors`` does, in single precision."""

from __future__ import annotations

import numpy as np

from exporters.readers.plan import ReadPlan, visible_cards


def devices_of(arguments: dict[str, str], layers: int) -> list[int | None]:
    """The device of every layer and of the output, None for the CPU."""
    given = int(arguments["--n-gpu-layers"])
    shares = np.array([float(part) for part in arguments["--tensor-split"].split(",")], dtype=np.float32)
    ends = np.cumsum(shares, dtype=np.float32) / shares.sum(dtype=np.float32)
    first, active = max(layers + 1 - given, 0), min(given, layers + 1)
    return [
        None if row < first else int(np.searchsorted(ends, np.float32(row - first) / np.float32(active), side="right"))
        for row in range(layers + 1)
    ]


def read(text: str, layers: int, cards: int) -> ReadPlan:
    """The plan of a model of so many layers on a host with so many cards."""
    words = text.splitlines()[-1].partition('"$@" ')[2].split()
    given = dict(zip(words[::2], words[1::2], strict=True))
    assert given["--split-mode"] == "layer"
    visible = visible_cards(text) or list(range(cards))
    if "--tensor-split" not in given:
        return ReadPlan(blocks=[layers], cards=[[]], rest={"host": [True]})
    # Shares are of all visible cards.
    assert len(given["--tensor-split"].split(",")) == len(visible)
    row = devices_of(given, layers)
    assert row[layers] == row[layers - 1]
    order = list(dict.fromkeys(row))
    return ReadPlan(
        blocks=[row[:layers].count(device) for device in order],
        cards=[[] if device is None else [visible[device]] for device in order],
        rest={"host": [device is None for device in order]},
    )
