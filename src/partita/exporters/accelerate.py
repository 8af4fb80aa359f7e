"""accelerate: which device each module runs on, for ``device_map=``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from partita.documents.document import json_bytes
from partita.exporters.cards import cards_of_split
from partita.exporters.exporter import FileExporter
from partita.exporters.facts import Facts
from partita.nouns.split import Split


class Accelerate(FileExporter):
    """Modules to devices: number i is the cluster's i-th card, as a process sees them that may use all.

    Modules run where the map puts them, and their inputs are moved there; what a container of modules computes by
    itself runs where its inputs are. Source: accelerate, ``accelerate/big_modeling.py: dispatch_model``,
    ``accelerate/hooks.py: AlignDevicesHook``.
    """

    name = "accelerate"
    numbers = ("the map", "the model is dispatched")

    def reasons(self, split: Split) -> Iterator[str]:
        keys = set(_map(split))
        for weight in split.weights:
            owner = weight.name.rpartition(".")[0]
            # A tied weight may be called by its other names only.
            covered = any(_covered(name, keys) for name in (weight.name, *weight.aliases))
            # The model's own weights are moved to the first device of the map.
            if weight.stages and not covered and (owner or weight.stages != (0,)):
                yield f"{owner or 'the model'}, which has the weight {weight.name} itself, is on several devices"

    def content(self, split: Split, model: Any) -> bytes:
        found = _map(split)
        for weight in split.weights:
            # What nothing reads, or reads by this name, has to be somewhere as well.
            if not _covered(weight.name, set(found)):
                found[weight.name] = _devices(split)[min(weight.stages, default=0)]
        return json_bytes(found)

    def said(self, content: bytes) -> Facts:
        found = msgspec.json.decode(content, type=dict[str, int | str])
        # Modules are listed stage after stage.
        order = dict.fromkeys(device for device in found.values() if device != "cpu")
        return {"cards_by_stage": tuple(order)} if order else {}


def _map(split: Split) -> dict[str, int | str]:
    pairs = zip(split.stages, _devices(split), strict=True)
    return {name: device for stage, device in pairs for name in stage.modules}


def _devices(split: Split) -> list[int | str]:
    """By stage the number of its card, as the process sees them all in the cluster's order."""
    return [numbers[0] if numbers else "cpu" for numbers in cards_of_split(split).stages]


def _covered(name: str, keys: Sequence[str] | set[str]) -> bool:
    while name:
        name = name.rpartition(".")[0]
        if name in keys:
            return True
    return False
