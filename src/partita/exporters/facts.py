"""What a plan decides, one fact a name, so that what an exported file says can be compared with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from partita.exporters.cards import cards_of_split
from partita.nouns.split import Split

#: Facts by name: numbers, texts and tuples of these.
Facts = Mapping[str, Any]


def facts_of(split: Split) -> dict[str, Any]:
    """Everything that a runtime can be told of a split, but for the names of modules.

    Schedules, tokens and stages of ZeRO are None where there is nothing that they decide: one stage, one device in a
    group, one group.
    """
    first, cards = split.stages[0], cards_of_split(split)
    formats = split.formats
    return {
        "blocks": tuple(layer_counts(split)),
        "blocks_of_cards": tuple(
            split.blocks_of(number) for number, stage in enumerate(split.stages) if stage.accelerator
        ),
        "ranks": split.ranks,
        "chunks": -(-len(split.stages) // split.ranks),
        "data": first.replicas,
        "tensor": first.tensor,
        "context": first.context,
        "expert": first.expert,
        "expert_tensor": (first.expert_tensor or first.tensor) if first.expert > 1 or first.expert_tensor else None,
        "zero": split.zero_of_groups if split.groups > 1 else None,
        "state_copies": split.state_copies,
        "schedule": split.schedule if len(split.stages) > 1 else None,
        "microbatches": split.microbatches_of_replica,
        "samples": max(1, split.samples),
        "sequence": split.sequence or None,
        "sequence_parallel": split.sequence_parallel if first.tensor > 1 else None,
        "overlap": split.overlap if split.groups > 1 else None,
        "recompute": split.ways[0] if split.ways else "none",
        "weights": None if formats is None else formats.weights,
        "gradients": None if formats is None else formats.gradients,
        "optimizer": split.optimizer,
        "optimizer_on_host": split.optimizer_on_host,
        "dtype": split.dtype or None,
        "cards_by_stage": cards.by_stage(split),
        "cards_by_replica": cards.by_replica(split),
        "hosts": tuple(not stage.accelerator for stage in split.stages),
    }


def layer_counts(split: Split) -> list[int]:
    """Layers of every stage, first stage first."""
    return [split.blocks_of(number) for number in range(len(split.stages))]


def list_of(split: Split) -> str | None:
    """The module list that holds all layers; None if there is not exactly one."""
    names = [layer.name.rpartition(".") for layer in split.blocks]
    parents = {parent for parent, _, _ in names}
    return parents.pop() if len(parents) == 1 and all(number.isdigit() for _, _, number in names) else None


def ends_tied(split: Split) -> bool:
    """Whether embedding and head are one weight."""
    return any(
        not weight.buffer and weight.aliases and {0, len(split.stages) - 1} == set(weight.stages)
        for weight in split.weights
    ) or (len(split.stages) == 1 and any(weight.aliases and not weight.buffer for weight in split.weights))


def differences(split: Split, said: Facts) -> list[str]:
    """What a file says otherwise than the split, a clause each."""
    meant = facts_of(split)
    return [
        f"{name} is {said[name]!r} in the file and {meant[name]!r} in the plan"
        for name in sorted(said)
        if said[name] != meant[name]
    ]
