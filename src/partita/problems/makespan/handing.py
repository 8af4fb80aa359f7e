"""Who hands what to whom: the tensors of a graph as flows.

In a makespan problem every flow is moved by itself, so that a tensor with several readers on another device would be
sent there several times. A row of *relays*, operators that take no time and do nothing but have the tensor, hands it
on: the first relay reads the producer and feeds the first reader and the next relay, and so on; the last one feeds the
last two readers. A relay where a reader is costs one transfer there, and whoever comes after it on that device reads
it. With all relays at the producer every reader gets its own transfer, so no schedule is lost; and every schedule can
be run, since a device may send on what it was sent.
"""

from __future__ import annotations

from dataclasses import dataclass

from partita.nouns.graph import Graph


@dataclass(frozen=True)
class Handing:
    """Flows between operators and relays."""

    flows: tuple[tuple[int, int, int], ...]  #: Source, target and bytes; ids are places in the graph, or of relays.
    precedence: tuple[tuple[int, int], ...]  #: Source and target, where there are no bytes.
    relays: tuple[tuple[int, str], ...]  #: Id, and the name of the tensor; ids are those after the graph's places.


def hand_over(graph: Graph, homes: list[int], classes: list[int]) -> Handing:
    """The flows of a graph.

    ``homes`` has for every operator the one that it is part of, −1 for what is part of the inputs; ``classes`` a number
    that it shares with those on the same device.
    """
    flows: list[tuple[int, int, int]] = []
    precedence: set[tuple[int, int]] = set()
    relays: list[tuple[int, str]] = []
    for tensor in graph.tensors:
        if tensor.producer is None or homes[tensor.producer] < 0:
            continue
        maker = homes[tensor.producer]
        readers = sorted({homes[reader] for reader in tensor.consumers} - {maker})
        if not tensor.bytes:
            precedence.update((maker, reader) for reader in readers)
            continue
        near = [reader for reader in readers if classes[reader] == classes[maker]]
        far = [reader for reader in readers if classes[reader] != classes[maker]]
        flows += [(maker, reader, tensor.bytes) for reader in near]
        holder = maker
        for number, reader in enumerate(far):
            if number < len(far) - 1:
                relay = len(graph.operators) + len(relays)
                relays.append((relay, tensor.name))
                flows.append((holder, relay, tensor.bytes))
                holder = relay
            flows.append((holder, reader, tensor.bytes))
    return Handing(tuple(flows), tuple(sorted(precedence)), tuple(relays))
