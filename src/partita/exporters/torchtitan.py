"""torchtitan: the modules of every stage, as the ``parallelism`` section of its configuration."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from partita.exporters.exporter import Exporter
from partita.exporters.rows import list_of
from partita.exporters.schedule_names import TORCH_NAMES
from partita.exporters.writing import write_lines
from partita.split import Split

#: What torchtitan's own language models call their parts.
_EMBEDDING, _LAYERS, _HEAD = ("tok_embeddings",), "layers", ("norm", "output")


class TorchTitan(Exporter):
    """Lists of qualified names, virtual stages in pipeline order.

    torchtitan keeps the named children of the model, and elements of lists that are children. Where the model's layers
    are in a list deeper inside (transformers' decoders), the names are those of torchtitan's own language models:
    ``tok_embeddings``, ``layers.N``, ``norm``, ``output``. Source: torchtitan,
    ``torchtitan/distributed/pipeline_parallel.py: _split_module``, ``torchtitan/config/configs.py: Parallelism``.
    """

    name = "torchtitan"

    def reasons(self, split: Split) -> Iterator[str]:
        for number in range(len(split.stages)):
            if not split.layers_of(number):
                yield f"stage {number} has no module, and torchtitan runs nothing on such a stage"

    def write(self, split: Split, path: str | Path, model: Any) -> list[str]:
        first = split.stages[0]
        sharded = split.zero > 0
        lines = [
            "[parallelism]",
            f"pipeline_parallel_degree = {split.ranks}",
            f'pipeline_parallel_schedule = "{TORCH_NAMES[split.schedule]}"',
            f"tensor_parallel_degree = {first.tensor}",
            f"data_parallel_replicate_degree = {1 if sharded else first.replicas}",
            f"data_parallel_shard_degree = {first.replicas if sharded else 1}",
        ]
        if sharded:
            # Weights that are shared out only between steps stay whole between forward and backward.
            lines.append(f'fsdp_reshard_after_forward = "{"always" if split.zero == 3 else "never"}"')
        lines += ["module_fqns_per_model_part = ["]
        lines += [f"    {json.dumps(list(names))}," for names in module_names(split)]
        return write_lines(path, [*lines, "]"])


def module_names(split: Split) -> list[list[str]]:
    """The names of every stage, in the words of torchtitan's models where the model's own are not of its form."""
    parent = list_of(split)
    own = parent is not None and "." not in parent
    numbers = {layer.name: number for number, layer in enumerate(split.blocks)}
    held = {name for layer in split.layers for name in layer.modules}
    # What makes constants is needed wherever they are read.
    constants = [name for stage in split.stages for name in stage.modules if name not in held and "." not in name]
    found: list[list[str]] = []
    for number in range(len(split.stages)):
        names = list(constants) if own else []
        for layer in split.layers_of(number):
            if own:
                names += (layer.name,) if layer.part == "block" else layer.modules
            elif layer.part == "block":
                names.append(f"{_LAYERS}.{numbers[layer.name]}")
            else:
                names += _EMBEDDING if layer.part == "input" else _HEAD
        found.append(names)
    return found
