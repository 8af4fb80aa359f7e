"""accelerate: which device each module runs on, for ``device_map=``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from partita.documents.document import write_json
from partita.exporters.exporter import Exporter
from partita.split import Split


class Accelerate(Exporter):
    """Modules to devices: number i is the plan's i-th device in pipeline order, as the process sees its accelerators.

    Modules run where the map puts them, and their inputs are moved there; what a container of modules computes by
    itself runs where its inputs are. Source: accelerate, ``accelerate/big_modeling.py: dispatch_model``,
    ``accelerate/hooks.py: AlignDevicesHook``.
    """

    name = "accelerate"

    def reasons(self, split: Split) -> Iterator[str]:
        keys = set(_map(split))
        for weight in split.weights:
            owner = weight.name.rpartition(".")[0]
            # The model's own weights are moved to the first device of the map.
            if weight.stages and not _covered(weight.name, keys) and (owner or weight.stages != (0,)):
                yield f"{owner or 'the model'}, which has the weight {weight.name} itself, is on several devices"

    def write(self, split: Split, path: str | Path, model: Any) -> list[str]:
        found = _map(split)
        for weight in split.weights:
            # What nothing reads has to be somewhere as well.
            if not _covered(weight.name, set(found)):
                found[weight.name] = found[next(iter(found))]
        write_json(path, found)
        return [str(path)]


def _map(split: Split) -> dict[str, int | str]:
    found: dict[str, int | str] = {}
    for stage in split.stages:
        for name in stage.modules:
            found[name] = stage.rank if stage.accelerator else "cpu"
    return found


def _covered(name: str, keys: Sequence[str] | set[str]) -> bool:
    while name:
        name = name.rpartition(".")[0]
        if name in keys:
            return True
    return False
