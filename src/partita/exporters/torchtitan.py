"""torchtitan: the modules of every stage, degrees, batch and memory options, as sections of its configuration."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from typing import Any

from partita.exporters.cards import cards_of_split, cards_said, rank_lines
from partita.exporters.exporter import FileExporter, lines
from partita.exporters.facts import Facts, list_of
from partita.nouns.split import Split

#: What torchtitan's own language models call their parts.
_EMBEDDING, _LAYERS, _HEAD = ("tok_embeddings",), "layers", ("norm", "output")

#: Schedules as ``torch.distributed.pipelining.schedules.get_schedule_class`` knows them.
_SCHEDULES = {
    "gpipe": "GPipe",
    "1f1b": "1F1B",
    "interleaved": "Interleaved1F1B",
    "looped-bfs": "LoopedBFS",
    "interleaved-zero-bubble": "InterleavedZeroBubble",
    "zero-bubble-v": "ZBVZeroBubble",
    "dualpipe-v": "DualPipeV",
}

#: What its configuration calls optimizers, and what blocks recompute.
_OPTIMIZERS = {"adam": "Adam", "adamw": "AdamW"}
_MODES = {"none": "none", "full": "full", "operators": "selective"}


class TorchTitan(FileExporter):
    """Sections of its configuration; the modules of every stage are lists of qualified names, in pipeline order.

    torchtitan keeps the named children of the model, and elements of lists that are children. Where the model's layers
    are in a list deeper inside (transformers' decoders), the names are those of torchtitan's own language models:
    ``tok_embeddings``, ``layers.N``, ``norm``, ``output``. Selective recomputation is its own by operator. Source:
    torchtitan, ``torchtitan/distributed/pipeline_parallel.py: _split_module``, ``torchtitan/config/job_config.py``.
    """

    name = "torchtitan"

    def reasons(self, split: Split) -> Iterator[str]:
        for number in range(len(split.stages)):
            if not split.layers_of(number):
                yield f"stage {number} has no module, and torchtitan runs nothing on such a stage"

    def content(self, split: Split, model: Any) -> bytes:
        first, formats, samples = split.stages[0], split.formats, max(1, split.samples)
        assert formats is not None
        assert split.optimizer is not None
        sharded = split.groups > 1
        cards = cards_of_split(split)
        found = [f"# {text}" for text in rank_lines(cards, cards.by_stage(split))]
        found += [
            "[parallelism]",
            f"pipeline_parallel_degree = {split.ranks}",
            f'pipeline_parallel_schedule = "{_SCHEDULES[split.schedule]}"',
            f"pipeline_parallel_microbatch_size = {samples}",
            f"tensor_parallel_degree = {first.tensor}",
            f"context_parallel_degree = {first.context}",
            # The sequence goes round in a ring.
            *(['context_parallel_rotate_method = "alltoall"'] if first.context > 1 else []),
            f"expert_parallel_degree = {first.expert}",
            f"data_parallel_replicate_degree = {split.state_copies}",
            f"data_parallel_shard_degree = {first.replicas // split.state_copies}",
        ]
        if sharded:
            # Weights that are shared out only between steps stay whole between forward and backward.
            found.append(f'fsdp_reshard_after_forward = "{"always" if split.zero == 3 else "never"}"')
        found += ["module_fqns_per_model_part = ["]
        found += [f"    {json.dumps(list(names))}," for names in module_names(split)]
        found += ["]", "", "[activation_checkpoint]"]
        way = split.ways[0] if split.ways else "none"
        found += [f'mode = "{_MODES[way]}"', *(['selective_ac_option = "op"'] if way == "operators" else [])]
        found += ["", "[training]"]
        # Without a pipeline gradients are added up over local batches of one microbatch.
        local = samples * (split.microbatches_of_replica if split.ranks > 1 else 1)
        found += [f"local_batch_size = {local}", f"global_batch_size = {samples * split.microbatches}"]
        found += [f"seq_len = {split.sequence}"] if split.sequence else []
        found += [
            'dtype = "float32"',
            f'mixed_precision_param = "{formats.weights}"',
            f'mixed_precision_reduce = "{formats.gradients}"',
            "",
            "[optimizer]",
            f'name = "{_OPTIMIZERS[split.optimizer]}"',
        ]
        return lines(*found)

    def said(self, content: bytes) -> Facts:
        text = content.decode()
        table = tomllib.loads(text)
        mesh, training = table["parallelism"], table["training"]
        stages = mesh["module_fqns_per_model_part"]
        ranks, data, samples = (
            mesh["pipeline_parallel_degree"],
            mesh["data_parallel_replicate_degree"] * mesh["data_parallel_shard_degree"],
            mesh["pipeline_parallel_microbatch_size"],
        )
        policy = mesh.get("fsdp_reshard_after_forward")
        zero = {"always": 3, "never": 1 if ranks > 1 else 2}.get(policy) if policy else None
        named = {name: known for known, name in _SCHEDULES.items()}
        return {
            "ranks": ranks,
            "chunks": -(-len(stages) // ranks),
            "data": data,
            "tensor": mesh["tensor_parallel_degree"],
            "context": mesh["context_parallel_degree"],
            "expert": mesh["expert_parallel_degree"],
            "zero": zero,
            "state_copies": mesh["data_parallel_replicate_degree"],
            "schedule": named[mesh["pipeline_parallel_schedule"]] if len(stages) > 1 else None,
            "microbatches": training["global_batch_size"] // (samples * data),
            "samples": samples,
            "sequence": training.get("seq_len"),
            "recompute": {mode: way for way, mode in _MODES.items()}[table["activation_checkpoint"]["mode"]],
            "weights": training["mixed_precision_param"],
            "gradients": training["mixed_precision_reduce"],
            "optimizer": {name: known for known, name in _OPTIMIZERS.items()}[table["optimizer"]["name"]],
            **cards_said(text),
        }


def module_names(split: Split) -> list[list[str]]:
    """The names of every stage, in the words of torchtitan's models where the model's own are not of its form."""
    parent = list_of(split)
    own = parent is not None and "." not in parent
    numbers = {layer.name: number for number, layer in enumerate(split.blocks)}
    held = {name for layer in split.layers for name in layer.modules}
    # What makes constants is needed wherever they are read; what holds layers is none of these.
    around = {name.partition(".")[0] for name in (*held, *(layer.name for layer in split.layers))}
    constants = [name for stage in split.stages for name in stage.modules if "." not in name and name not in around]
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
