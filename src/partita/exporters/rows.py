"""What runtimes of language models count: the layers of one list, how many of them each stage has."""

from __future__ import annotations

from partita.nouns.split import Split


def layer_counts(split: Split) -> list[int]:
    """Layers of every stage, first stage first."""
    return [split.blocks_of(number) for number in range(len(split.stages))]


def list_of(split: Split) -> str | None:
    """The module list that holds all layers; None if there is not exactly one."""
    parents = {name.rpartition(".")[0] for name in _names(split)}
    numbered = all(name.rpartition(".")[2].isdigit() for name in _names(split))
    return parents.pop() if len(parents) == 1 and numbered else None


def _names(split: Split) -> list[str]:
    return [layer.name for layer in split.blocks]


def ends_tied(split: Split) -> bool:
    """Whether embedding and head are one weight."""
    return any(
        not weight.buffer and weight.aliases and {0, len(split.stages) - 1} == set(weight.stages)
        for weight in split.weights
    ) or (len(split.stages) == 1 and any(weight.aliases and not weight.buffer for weight in split.weights))
