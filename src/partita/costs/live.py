"""How many bytes of tensors can exist at once, in whatever order and on however many devices a graph runs."""

from __future__ import annotations

from partita.nouns.graph import Graph


def live_bytes(graph: Graph) -> int:
    """An upper bound on the bytes of tensors that are held at any time of any schedule (inference).

    A tensor is held from the start of its producer (an input of the model: from the beginning) to the end of its last
    reader, what nobody reads to the end of the run. What a slice is taken from is held until the slice's readers have
    ended, and the slice counts, too. A tensor that lives in a stored array (``Tensor.stored``) takes no room of its
    own. A device holds at most one copy of each tensor, so the bound holds for every device by itself.

    At any time of a schedule let B be the operators that have started and E those that have ended; all that an operator
    of B reads from has ended. Readers without another reader behind them are the last ones; if a tensor is held, one
    of them is not in E. So no more is held than

        Σ over tensors and their last readers of bytes · ([producer in B] − [reader in E]),

    and the bound is at least the maximum of that over all such B and E. It is a maximum closure; a flow from every
    operator that makes something to operators before it that free something, within what they make and free, is a
    feasible solution of its dual. So all that is made without the flow's value is an upper bound. The flow is made
    greedily, what is freed last first.
    """
    count = len(graph.operators)
    before = [0] * count
    for tensor in graph.tensors:
        if tensor.producer is not None:
            for reader in tensor.consumers:
                before[reader] |= 1 << tensor.producer
    for v in range(count):
        direct, found = before[v], before[v]
        while direct:
            u = direct.bit_length() - 1
            # What comes before u is known, and need not be looked at again.
            found |= before[u]
            direct &= ~(before[u] | 1 << u)
        before[v] = found
    made, freed, given = [0] * count, [0] * count, 0
    readers = _readers(graph)
    for place, tensor in enumerate(graph.tensors):
        if tensor.stored is not None:
            continue
        reading = 0
        for reader in readers[place]:
            reading |= before[reader]
        last = [reader for reader in readers[place] if not reading >> reader & 1]
        size = tensor.bytes * max(1, len(last))
        if tensor.producer is None:
            given += size if last else 0
        else:
            made[tensor.producer] += size
        for reader in last:
            freed[reader] += tensor.bytes
    able = 0
    for v, size in enumerate(freed):
        able |= (size > 0) << v
    total = given
    for v, size in enumerate(made):
        left = size
        while left and (open_ := before[v] & able):
            u = open_.bit_length() - 1
            moved = min(left, freed[u])
            left -= moved
            freed[u] -= moved
            if not freed[u]:
                able &= ~(1 << u)
        total += left
    return total


def _readers(graph: Graph) -> list[list[int]]:
    """For every tensor who reads it, or through slices a part of it."""
    made_of: dict[int, list[int]] = {}
    for place, tensor in enumerate(graph.tensors):
        if tensor.producer is not None:
            made_of.setdefault(tensor.producer, []).append(place)
    found: list[list[int]] = [[] for _ in graph.tensors]
    # Slices come after what they are taken from.
    order = sorted(
        range(len(graph.tensors)), key=lambda place: -1 if (p := graph.tensors[place].producer) is None else p
    )
    for place in reversed(order):
        readers = set(graph.tensors[place].consumers)
        for reader in graph.tensors[place].consumers:
            if graph.operators[reader].free:
                for part in made_of.get(reader, ()):
                    readers.update(found[part])
        found[place] = sorted(readers)
    return found
