"""DeepSpeed: a PipelineModule whose stages begin where the plan says, its mesh and its configuration."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import accumulate
from pprint import pformat
from typing import Any

from partita.exporters.cards import cards_of_split, cards_said, check_source, rank_lines
from partita.exporters.exporter import FileExporter, lines
from partita.exporters.facts import Facts
from partita.nouns.split import Split

_TEMPLATE = '''"""Where the stages of {model} begin: a pipeline of {stages} stages for DeepSpeed, planned by partita.

Give PlannedPipelineModule the layers in the order of LAYERS, as LayerSpec, and those that share a weight (TIED) as
TiedLayerSpec with one key; layers of a tensor-parallel group split themselves, by the module's own mpu():

    PlannedPipelineModule(layers=[...], loss_fn=...)
{remarks}"""
{imports}
from deepspeed.pipe import PipelineModule

LAYERS = {layers}

#: Stage s has LAYERS[PARTS[s]:PARTS[s + 1]].
PARTS = {parts}

#: Numbers in LAYERS of those that run again in the backward part.
RECOMPUTED = {recomputed}

#: By weight, the layers that share it.
TIED = {tied}

#: Stages, devices of a tensor-parallel group, replicas.
TOPOLOGY = {topology}

#: For deepspeed.initialize(config=...), beside the optimizer's own parameters.
CONFIG = {config}
{check}

class PlannedPipelineModule(PipelineModule):
    """Stages as planned, instead of equally many layers or parameters in each."""

    def __init__(self, layers, **options):
        from deepspeed.runtime.pipe.topology import PipeModelDataParallelTopology

{call}        options.setdefault("topology", PipeModelDataParallelTopology(**TOPOLOGY))
        options.setdefault("activation_checkpoint_interval", 1 if RECOMPUTED else 0)
        super().__init__(layers, **options)

    def _partition_layers(self, method="planned"):
        if len(self._layer_specs) != PARTS[-1]:
            raise ValueError(f"the plan is of {{PARTS[-1]}} layers, and there are {{len(self._layer_specs)}}")
        if self.num_stages != len(PARTS) - 1:
            raise ValueError(f"the plan is of {{len(PARTS) - 1}} stages, and there are {{self.num_stages}}")
        stage = self._topo.get_coord(self.global_rank).pipe
        self.parts = list(PARTS)
        self._set_bounds(start=PARTS[stage], stop=PARTS[stage + 1])

    def _is_checkpointable(self, funcs):
        first = self._local_start + next(n for n, known in enumerate(self.forward_funcs) if known is funcs[0])
        return all(first + n in RECOMPUTED for n in range(len(funcs)))'''

#: In a module of a host whose cards differ, before the modules of its stages are built.
_CHECK = """

#: Kind of the card of every rank.
CARDS = {wanted}


{source}


def check_cards_of_host():
    import os

    import torch

    rank = int(os.environ.get("RANK", "0"))
    local = int(os.environ.get("LOCAL_RANK", rank))
    if rank in CARDS:
        names = {{n: torch.cuda.get_device_name(n) for n in range(torch.cuda.device_count())}}
        check_cards({{local: CARDS[rank]}}, names)
"""

#: What its configuration calls optimizers.
_OPTIMIZERS = {"adam": "Adam", "adamw": "AdamW", "sgd": "SGD"}
_FORMATS = {"bfloat16": "bf16", "float16": "fp16"}
_SHORT = {"float32": "fp32", **_FORMATS}


class DeepSpeed(FileExporter):
    """Boundaries in the list of layers, in a subclass that uses them: partition methods of DeepSpeed itself balance.

    Source: DeepSpeed, ``deepspeed/runtime/pipe/module.py: PipelineModule._partition_layers, _is_checkpointable``,
    ``deepspeed/runtime/pipe/topology.py: PipeModelDataParallelTopology``.
    """

    name = "deepspeed"

    def reasons(self, split: Split) -> Iterator[str]:
        for number, names in enumerate(layer_names(split)):
            if not names:
                yield f"stage {number} has no module, and DeepSpeed's stages have at least one"

    def content(self, split: Split, model: Any) -> bytes:
        names = layer_names(split)
        flat = [name for stage in names for name in stage]
        first, cards = split.stages[0], cards_of_split(split)
        tied = {
            weight.name: sorted({name.rpartition(".")[0] for name in (weight.name, *weight.aliases)})
            for weight in split.weights
            if weight.aliases and not weight.buffer
        }
        again = {layer.name for layer in split.blocks if layer.recompute == "full"}
        order = cards.by_stage(split)
        remarks, wanted = rank_lines(cards, order), cards.wanted(order)
        text = _TEMPLATE.format(
            model=split.model,
            stages=len(names),
            remarks="".join(f"\n{text}" for text in remarks) + ("\n" if remarks else ""),
            imports="\nimport itertools\nimport re\n" if wanted else "",
            layers=pformat(flat, width=110),
            parts=list(accumulate(map(len, names), initial=0)),
            recomputed=[number for number, name in enumerate(flat) if name in again],
            tied=pformat(tied, width=110),
            topology={"num_pp": split.ranks, "num_mp": first.tensor, "num_dp": first.replicas},
            config=pformat(_config(split), width=110),
            check=_CHECK.format(wanted=wanted, source=_functions()) if wanted else "",
            call="        check_cards_of_host()\n" if wanted else "",
        )
        return lines(*text.splitlines())

    def said(self, content: bytes) -> Facts:
        text = content.decode()
        module = ast.parse(text)
        known = {
            target.id: ast.literal_eval(statement.value)
            for statement in module.body
            if isinstance(statement, ast.Assign)
            for target in statement.targets
            if isinstance(target, ast.Name)
        }
        mesh, config, parts = known["TOPOLOGY"], known["CONFIG"], known["PARTS"]
        narrow = next((name for name, short in _FORMATS.items() if short in config), "float32")
        groups = mesh["num_dp"]
        return {
            "ranks": mesh["num_pp"],
            "chunks": 1,
            "data": groups,
            "tensor": mesh["num_mp"],
            "context": 1,
            "expert": 1,
            "zero": config.get("zero_optimization", {}).get("stage", 0) if groups > 1 else None,
            "schedule": "1f1b" if len(parts) > 2 else None,
            "microbatches": config["gradient_accumulation_steps"],
            "samples": config["train_micro_batch_size_per_gpu"],
            "recompute": "full" if known["RECOMPUTED"] else "none",
            "weights": narrow,
            "optimizer": {name: own for own, name in _OPTIMIZERS.items()}[config["optimizer"]["type"]],
            **cards_said(text),
        }


def _functions() -> str:
    """The functions that compare cards, without their imports."""
    source = check_source()
    return source[source.index("def is_card") :]


def _config(split: Split) -> dict[str, Any]:
    formats, samples = split.formats, max(1, split.samples)
    assert formats is not None
    assert split.optimizer is not None
    config: dict[str, Any] = {
        "train_batch_size": samples * split.microbatches,
        "train_micro_batch_size_per_gpu": samples,
        "gradient_accumulation_steps": split.microbatches_of_replica,
        "optimizer": {"type": _OPTIMIZERS[split.optimizer]},
    }
    if split.groups > 1 and split.zero:
        config["zero_optimization"] = {"stage": split.zero}
    if formats.weights in _FORMATS:
        config[_FORMATS[formats.weights]] = {"enabled": True}
        config["data_types"] = {"grad_accum_dtype": _SHORT[formats.gradients]}
    return config


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
