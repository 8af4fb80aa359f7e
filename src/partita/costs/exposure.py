"""What a device waits for when exchanges go on behind its work, layer by layer, in any unit of time."""

from __future__ import annotations

from collections.abc import Sequence


def exposed_reductions(backward: Sequence[float], reduce: Sequence[float]) -> float:
    """What is left of the exchange of gradients when the backward part ends.

    Parameters
    ----------
    backward, reduce
        By layer in the order of the forward part: its backward part, and what exchanging its gradients takes. Layers
        exchange one after the other, each once its backward part has ended.
    """
    left = 0.0
    for work, exchange in zip(reversed(backward), reversed(reduce), strict=True):
        left = max(0.0, left - work) + exchange
    return left


def exposed_gathers(forward: Sequence[float], gather: Sequence[float]) -> float:
    """How much later the forward part ends when the weights of each layer are gathered ahead of it, one after the other.

    Parameters
    ----------
    forward, gather
        By layer in the order of the forward part: its work, and what gathering its weights takes.
    """
    there = end = 0.0
    for work, exchange in zip(forward, gather, strict=True):
        there += exchange
        end = max(end, there) + work
    return end - sum(forward)
