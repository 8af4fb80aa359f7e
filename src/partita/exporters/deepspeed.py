"""DeepSpeed: a PipelineModule whose stages begin where the plan says."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from pprint import pformat
from typing import Any

from partita.exporters.exporter import Exporter
from partita.exporters.writing import write_lines
from partita.split import Split

_TEMPLATE = '''"""Where the stages of {model} begin: a pipeline of {stages} stages for DeepSpeed, planned by partita.

Give PlannedPipelineModule the layers in the order of LAYERS, as LayerSpec, and those that share a weight (TIED) as
TiedLayerSpec with one key:

    PlannedPipelineModule(layers=[...], num_stages={stages}, loss_fn=...)
"""

from deepspeed.pipe import PipelineModule

LAYERS = {layers}

#: Stage s has LAYERS[PARTS[s]:PARTS[s + 1]].
PARTS = {parts}

#: By weight, the layers that share it.
TIED = {tied}

#: For deepspeed.initialize(config=...), beside optimizer and precision.
CONFIG = {config}


class PlannedPipelineModule(PipelineModule):
    """Stages as planned, instead of equally many layers or parameters in each."""

    def _partition_layers(self, method="planned"):
        if len(self._layer_specs) != PARTS[-1]:
            raise ValueError(f"the plan is of {{PARTS[-1]}} layers, and there are {{len(self._layer_specs)}}")
        if self.num_stages != len(PARTS) - 1:
            raise ValueError(f"the plan is of {{len(PARTS) - 1}} stages, and there are {{self.num_stages}}")
        stage = self._topo.get_coord(self.global_rank).pipe
        self.parts = list(PARTS)
        self._set_bounds(start=PARTS[stage], stop=PARTS[stage + 1])'''


class DeepSpeed(Exporter):
    """Boundaries in the list of layers, in a subclass that uses them: partition methods of DeepSpeed itself balance.

    Source: DeepSpeed, ``deepspeed/runtime/pipe/module.py: PipelineModule._partition_layers``.
    """

    name = "deepspeed"

    def reasons(self, split: Split) -> Iterator[str]:
        for number, names in enumerate(layer_names(split)):
            if not names:
                yield f"stage {number} has no module, and DeepSpeed's stages have at least one"

    def write(self, split: Split, path: str | Path, model: Any) -> list[str]:
        names = layer_names(split)
        tied = {
            weight.name: sorted({name.rpartition(".")[0] for name in (weight.name, *weight.aliases)})
            for weight in split.weights
            if weight.aliases and not weight.buffer
        }
        config: dict[str, Any] = {"gradient_accumulation_steps": split.microbatches_of_replica}
        if split.zero:
            config["zero_optimization"] = {"stage": split.zero}
        text = _TEMPLATE.format(
            model=split.model,
            stages=len(names),
            layers=pformat([name for stage in names for name in stage], width=110),
            parts=list(accumulate(map(len, names), initial=0)),
            tied=pformat(tied, width=110),
            config=pformat(config, width=110),
        )
        return write_lines(path, text.splitlines())


def layer_names(split: Split) -> list[list[str]]:
    """Modules of every stage in the model's order: of its ends module by module, of the rest whole layers."""
    return [
        [
            name
            for layer in split.layers_of(number)
            for name in (layer.modules if layer.part != "block" else (layer.name,))
        ]
        for number in range(len(split.stages))
    ]
