"""What a tensor-parallel group exchanges while it runs a layer.

Columns need their input whole, and the gradient of that input is a sum over the group; rows make a sum over the group.
Without sequence parallelism each sum is an all-reduce; with it a reduce-scatter, and what comes before columns is
gathered (Korthikanti et al., 2022, §4.2.2).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator

from partita.costs.strategies.modes import Mode, Modes
from partita.costs.strategies.strategy import Collective
from partita.costs.strategies.view import LOSSES, numel, wide_bytes


def exchanges(layer: int, modes: Modes, apart: Container[int] = ()) -> tuple[Collective, ...]:
    """All exchanges for one microbatch of a layer, forward and backward.

    Gradients of the parameters that are ``apart`` are exchanged by other groups.
    """
    if modes.degree == 1:
        return ()
    view, forward = modes.splits.view, modes.splits.forward(layer)
    inside = set(forward)
    result: list[Collective] = []

    def exchange(place: int, found: Iterable[tuple[str, str]]) -> None:
        tensor = view.graph.tensors[place]
        # What products read may be stored more narrowly than the gradient of it.
        sizes = {"backward": wide_bytes(tensor)}
        result.extend(
            Collective(kind, phase, sizes.get(phase, float(tensor.bytes)), tensor.name) for kind, phase in found
        )

    for place in sorted({place for v in forward for place in view.inputs[v]}):
        readers = (v for v in view.readers(place) if v in inside)
        users = {modes.mode[v] for v in readers if v not in view.linears or view.linears[v].source == place}
        exchange(place, _entering(place, users, modes))
    for v in forward:
        mode = modes.mode[v]
        if mode is Mode.ROW:
            for place in view.outputs[v]:
                exchange(place, _leaving(place, modes))
        elif mode is Mode.SPLIT and view.names[v] in LOSSES:
            result += _loss(v, modes)
        if mode in (Mode.TOKENS, Mode.SPLIT) or (mode is Mode.ROW and modes.sequence):
            result += _partial_gradients(v, modes, apart)
    return tuple(result)


def _partial_gradients(v: int, modes: Modes, apart: Container[int]) -> list[Collective]:
    """Gradients of weights that all devices hold, but use for their own tokens or heads."""
    view = modes.splits.view
    mine = [p for p in view.parameters[v] if p not in apart and modes.parameter_share(v, p) == 1.0]
    held = [view.graph.parameters[p] for p in mine]
    return [
        Collective("all-reduce", "batch", float(parameter.bytes), parameter.name)
        for parameter in held
        if parameter.trainable and not parameter.buffer
    ]


def _entering(place: int, users: set[Mode], modes: Modes) -> Iterator[tuple[str, str]]:
    """What is exchanged, and when, of a tensor that operators of a layer read."""
    view, held = modes.splits.view, modes.holding(place)
    trained = place in view.trained
    # Each device has its part of a sum, over features or heads, for the gradient of what these read.
    parts = bool(users & {Mode.COLUMN, Mode.SPLIT}) and trained
    if held is Mode.TOKENS and users & {Mode.COLUMN, Mode.WHOLE, Mode.SPLIT}:
        yield "all-gather", "forward"
        if parts:
            yield "reduce-scatter", "backward"
        if modes.again and place in view.saved and Mode.WHOLE not in users:
            # Only a share of the tokens is kept; it is put together again beside the backward arithmetic.
            yield "all-gather", "overlapped"
    elif held is Mode.WHOLE:
        if parts:
            yield "all-reduce", "backward"
        if Mode.TOKENS in users and trained:
            yield "all-gather", "backward"


def _leaving(place: int, modes: Modes) -> Iterator[tuple[str, str]]:
    """What is exchanged, and when, for the sum of a product's or lookup's parts."""
    yield "reduce-scatter" if modes.sequence else "all-reduce", "forward"
    if modes.sequence and place in modes.splits.view.trained:
        yield "all-gather", "backward"


def _loss(v: int, modes: Modes) -> list[Collective]:
    """What each token's loss needs to know of all words: the largest logit, the sum of powers, the label's."""
    view = modes.splits.view
    largest = max((view.graph.tensors[place] for place in view.outputs[v]), key=numel)
    if len(largest.shape) < 2:
        return []
    size = float(largest.bytes // largest.shape[-1])
    return [Collective("all-reduce", "forward", size, largest.name)] * 3
