"""What each device of a tensor-parallel group holds of a layer: weights, activations, working memory."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from partita.costs.menus.modes import Mode, Modes, Splits, holding, parameter_share, seen_share


def parameter_shares(splits: Splits, layer: int, modes: Modes) -> dict[int, float]:
    """Parameters of a layer with the largest part of each that its operators need."""
    result: dict[int, float] = {}
    for v in splits.members[layer]:
        for place in splits.view.parameters[v]:
            result[place] = max(result.get(place, 0.0), parameter_share(splits, v, place, modes))
    return result


def saved_tensors(splits: Splits, layer: int) -> set[int]:
    """Tensors that the layer's backward operators need from the forward pass."""
    saved = splits.view.saved.items()
    return {place for place, readers in saved if any(splits.layer[v] == layer for v in readers)}


def kept_inputs(splits: Splits, operators: Collection[int]) -> set[int]:
    """Tensors that some forward operators need to run again: those that others make."""
    view = splits.view
    inside = set(operators)
    read = {place for v in inside for place in view.inputs[v]}
    return {place for place in read if view.graph.tensors[place].producer not in inside}


def activation_bytes(splits: Splits, layer: int, modes: Modes, places: Collection[int]) -> float:
    """What a device keeps of some forward tensors for the backward pass of a layer."""
    tensors = splits.view.graph.tensors
    return sum(tensors[place].bytes * _kept_share(splits, layer, modes, place) for place in places)


def _kept_share(splits: Splits, layer: int, modes: Modes, place: int) -> float:
    producer = splits.view.graph.tensors[place].producer
    held = holding(splits.view, place, modes)
    if held is Mode.SPLIT and producer is not None:
        return modes.share[producer]
    if held is Mode.TOKENS:
        # An operator that reads all tokens keeps them all.
        readers = splits.view.saved.get(place, ())
        whole = any(modes.mode[v] is Mode.WHOLE and splits.layer[v] == layer for v in readers)
        return 1.0 if whole else 1.0 / modes.degree
    return 1.0


def workspace_bytes(splits: Splits, layer: int, modes: Modes, *, accumulates: bool) -> float:
    """The most bytes alive, beyond weights, gradients and what is kept, while an operator of the layer runs.

    Parameters
    ----------
    splits, layer, modes
        What runs, and how.
    accumulates
        Whether gradients are summed over microbatches: then that of one exists beside the sum while it is added.
    """
    view, graph = splits.view, splits.view.graph
    members = splits.members[layer]
    rank = {v: index for index, v in enumerate(members)}
    change = np.zeros(len(members) + 1)
    gathered = 0.0
    for place in sorted({place for v in members for place in (*view.inputs[v], *view.outputs[v])}):
        tensor = graph.tensors[place]
        if any(v in rank for v in view.saved.get(place, ())):
            if holding(view, place, modes) is Mode.TOKENS:
                gathered = max(gathered, tensor.bytes * (1.0 - 1.0 / modes.degree))
            continue
        if place in view.weight_gradients and not accumulates:
            continue
        maker = () if tensor.producer is None else (tensor.producer,)
        pins = [rank[v] for v in (*maker, *tensor.consumers) if v in rank]
        size = tensor.bytes * _life_share(splits, place, modes)
        change[min(pins)] += size
        change[max(pins) + 1] -= size
    scratch = np.array([graph.operators[v].workspace_bytes * modes.share[v] for v in members])
    return float((np.cumsum(change[:-1]) + scratch).max(initial=0.0)) + gathered


def _life_share(splits: Splits, place: int, modes: Modes) -> float:
    """The part of a tensor that a device holds while it is alive; sums over the group are whole."""
    producer = splits.view.graph.tensors[place].producer
    if producer is None:
        return 1.0
    return seen_share(splits, producer, place, modes, writes=True)
