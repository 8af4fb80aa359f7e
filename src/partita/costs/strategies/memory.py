"""What each device of a tensor-parallel group holds of a layer: weights, activations, working memory."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from partita.costs.strategies.modes import Mode, Modes, Splits


def parameter_shares(layer: int, modes: Modes) -> dict[int, float]:
    """Parameters of a layer with the largest part of each that its operators need."""
    result: dict[int, float] = {}
    for v in modes.splits.members[layer]:
        for place in modes.splits.view.parameters[v]:
            result[place] = max(result.get(place, 0.0), modes.parameter_share(v, place))
    return result


def saved_tensors(splits: Splits, layer: int) -> set[int]:
    """Tensors that the layer's backward operators need from the forward pass."""
    saved = splits.view.saved.items()
    return {place for place, readers in saved if any(splits.layer[v] == layer for v in readers)}


def kept_inputs(splits: Splits, operators: Collection[int]) -> set[int]:
    """Tensors that some forward operators need to run again: those that others make."""
    view = splits.view
    inside = set(operators)
    return {place for v in inside for place in view.inputs[v] if view.maker(place) not in inside}


def activation_bytes(layer: int, modes: Modes, places: Collection[int]) -> float:
    """What a device keeps of some forward tensors for the backward pass of a layer."""
    tensors = modes.splits.view.graph.tensors
    return sum(tensors[place].bytes * _kept_share(layer, modes, place) for place in places)


def _kept_share(layer: int, modes: Modes, place: int) -> float:
    splits = modes.splits
    producer, held = splits.view.maker(place), modes.holding(place)
    if held is Mode.SPLIT and producer is not None:
        return modes.share[producer]
    if held is Mode.TOKENS:
        # An operator that reads all tokens keeps them all.
        readers = splits.view.saved.get(place, ())
        reads_all = {Mode.WHOLE} if modes.again else {Mode.WHOLE, Mode.COLUMN}
        whole = any(modes.mode[v] in reads_all and splits.layer[v] == layer for v in readers)
        return 1.0 if whole else 1.0 / modes.degree
    return 1.0


def workspace_bytes(layer: int, modes: Modes, *, accumulates: bool) -> float:
    """The most bytes alive, beyond weights, gradients and what is kept, while an operator of the layer runs.

    Where it ``accumulates``, summing gradients over microbatches, that of one exists beside the sum while it is added.
    """
    view, members = modes.splits.view, modes.splits.members[layer]
    rank = {v: index for index, v in enumerate(members)}
    change = np.zeros(len(members) + 1)
    gathered = 0.0
    for place in sorted({place for v in members for place in (*view.inputs[v], *view.outputs[v])}):
        tensor = view.graph.tensors[place]
        if any(v in rank for v in view.saved.get(place, ())):
            readers = (v for v in view.saved[place] if v in rank)
            if (
                modes.again
                and modes.holding(place) is Mode.TOKENS
                and any(modes.mode[v] is not Mode.TOKENS for v in readers)
            ):
                gathered = max(gathered, tensor.bytes * (1.0 - 1.0 / modes.degree))
            continue
        if place in view.weight_gradients and not accumulates:
            continue
        makers = () if tensor.producer is None else (tensor.producer,)
        pins = [rank[v] for v in (*makers, *tensor.consumers) if v in rank]
        # Sums over the group are whole.
        size = tensor.bytes * min((modes.seen_share(v, place, writes=True) for v in makers), default=1.0)
        change[min(pins)] += size
        change[max(pins) + 1] -= size
    scratch = np.array([view.graph.operators[v].workspace_bytes * _scratch_share(v, modes) for v in members])
    return float((np.cumsum(change[:-1]) + scratch).max(initial=0.0)) + gathered


def _scratch_share(v: int, modes: Modes) -> float:
    """A device's part of an operator's scratch memory: of copies of packed weights what it has of these."""
    view = modes.splits.view
    if not view.graph.operators[v].unpacking_bytes:
        return modes.share[v]
    return min((modes.parameter_share(v, place) for place in view.parameters[v]), default=1.0)
