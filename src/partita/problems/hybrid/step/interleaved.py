"""The best plan of an interleaved mesh: equal parts, and the same ways to save memory in all parts of a stage."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from partita.engines.kernels.arrays import Floats, Longs
from partita.ground.rounding import UNIT
from partita.nouns.pipeline import Plan
from partita.problems.hybrid.blocks import LikeBlocks
from partita.problems.hybrid.layer import Configuration, Layer
from partita.problems.hybrid.room import Room, most_room
from partita.problems.hybrid.step.layout import equal_parts, uniform_plan
from partita.problems.hybrid.step.mesh import DeviceMesh

#: Layers at the same place in all parts of a stage, or one layer alone, with the configurations they may share.
Slot = tuple[tuple[tuple[int, int], ...], tuple[str, ...]]


def part_places(order: Sequence[Layer], blocks: LikeBlocks, parts: int) -> list[range]:
    """Places of the layers of parts with as equally many blocks as can be; the model's ends are outermost."""
    count = len(blocks.starts)
    return equal_parts(len(order), [0, *(blocks.starts[number * count // parts] for number in range(1, parts))])


def slots(order: Sequence[Layer], blocks: LikeBlocks, parts: Sequence[range], degree: int) -> list[Slot]:
    """What of a stage is decided at once, given the places of its parts.

    The j-th layers of the blocks of all parts take one configuration; the model's ends take their own.
    """
    inner = [[place for place in places if blocks.starts[0] <= place < blocks.end] for places in parts]
    ends = [(part, place) for part, places in enumerate(parts) for place in places if place not in inner[part]]
    found: list[Slot] = []
    longest = max(len(places) for places in inner)
    for j in range(longest):
        members = tuple((part, places[j]) for part, places in enumerate(inner) if j < len(places))
        names = [[choice.id for choice in order[place].configurations.get(degree, ())] for _, place in members]
        found.append((members, tuple(name for name in names[0] if all(name in other for other in names))))
    for part, place in ends:
        names_of = tuple(choice.id for choice in order[place].configurations.get(degree, ()))
        found.append((((part, place),), names_of))
    return found


def single_slots(order: Sequence[Layer], parts: Sequence[range], degree: int) -> list[Slot]:
    """The same where every layer takes a configuration of its own."""
    return [
        (((part, place),), tuple(choice.id for choice in order[place].configurations.get(degree, ())))
        for part, places in enumerate(parts)
        for place in places
    ]


def interleaved_plan(
    mesh: DeviceMesh, order: Sequence[Layer], blocks: LikeBlocks, room: Room = most_room
) -> Plan | None:
    """The plan of an interleaved mesh with the least time that fits into memory; None if none fits.

    ``room`` says how much of a device's memory is room.
    """
    parts = part_places(order, blocks, mesh.stages * mesh.chunks)
    return plan_of_parts(mesh, order, parts, lambda mine: slots(order, blocks, mine, mesh.tensor), room)


def plan_of_parts(
    mesh: DeviceMesh,
    order: Sequence[Layer],
    parts: Sequence[range],
    decided: Callable[[Sequence[range]], list[Slot]],
    room: Room,
    *,
    fits: bool = True,
) -> Plan | None:
    """The plan with these parts that takes least time within the memory; None if none fits.

    ``decided`` says what of a stage with some parts is decided at once. Without ``fits``, a stage where nothing fits
    has what needs least memory.
    """
    table = [{choice.id: choice for choice in layer.configurations.get(mesh.tensor, ())} for layer in order]
    # Points that are merged for rounding add to what sums are off by.
    limit = room(mesh.problem.memory_bytes, 4 * len(order))
    configurations: dict[int, str] = {}
    for rank in range(mesh.stages):
        mine = parts[rank :: mesh.stages]
        found = decided(mine)
        spaces = [
            [[(part, table[place][name]) for part, place in members] for name in names] for members, names in found
        ]
        state = mesh.reserve + mesh.exchanges.held([place for places in mine for place in places])
        chosen = least_choices(spaces, np.array(mesh.flying(rank), dtype=np.float64), limit - state)
        if chosen is None:
            if fits:
                return None
            # What needs least memory shows how much is missing.
            chosen = [min(range(len(space)), key=[_held(layers) for layers in space].__getitem__) for space in spaces]
        for (members, names), number in zip(found, chosen, strict=True):
            configurations |= {order[place].id: names[number] for _, place in members}
    return uniform_plan(mesh.problem, order, parts, configurations, mesh.layout)


def _held(layers: Sequence[tuple[int, Configuration]]) -> float:
    """Memory for every microbatch of some layers with configurations."""
    return sum(choice.memory_per_microbatch_bytes for _, choice in layers)


def least_choices(
    spaces: Sequence[Sequence[Sequence[tuple[int, Configuration]]]], counts: Floats, limit: float
) -> list[int] | None:
    """The choice in every space that takes least time within the limit, in bytes; None if there is none.

    ``spaces`` are every slot's options, each the parts and configurations of its layers; ``counts`` (R, parts) numbers
    of microbatches in flight, each row of which has to fit.
    """
    memory, time, history = np.zeros((1, len(counts))), np.zeros(1), []
    tables, kept_options = [], []
    for options in spaces:
        if not options:
            return None
        sizes = np.zeros((len(options), len(counts)))
        for number, layers in enumerate(options):
            for part, choice in layers:
                sizes[number] += counts[:, part] * choice.memory_per_microbatch_bytes + choice.memory_bytes
        times = np.array([sum(choice.time for _, choice in layers) for layers in options])
        # What does not fit alone would only drown what is left in rounding.
        alone = (sizes <= limit).all(axis=1)
        if not alone.any():
            return None
        tables.append((sizes[alone], times[alone]))
        kept_options.append(np.flatnonzero(alone))
    fastest = [int(np.lexsort((sizes.max(axis=1), times))[0]) for sizes, times in tables]
    if (sum(sizes[best] for (sizes, _), best in zip(tables, fastest, strict=True)) <= limit).all():
        return [int(numbers[best]) for numbers, best in zip(kept_options, fastest, strict=True)]
    left = sum(sizes.min(axis=0) for sizes, _ in tables)
    if (left > limit).any():
        return None
    for sizes, times in tables:
        left = np.maximum(0.0, left - sizes.min(axis=0))
        grown = (memory[:, None, :] + sizes[None, :, :]).reshape(-1, len(counts))
        slower = (time[:, None] + times[None, :]).ravel()
        kept = _front(grown, slower, limit - left, 4.0 * UNIT * (len(spaces) + 1))
        if not len(kept):
            return None
        history.append((kept // len(times), kept % len(times)))
        memory, time = grown[kept], slower[kept]
    place, chosen = int(time.argmin()), []
    for (parents, numbers), known in zip(reversed(history), reversed(kept_options), strict=True):
        chosen.append(int(known[numbers[place]]))
        place = int(parents[place])
    return chosen[::-1]


def _front(memory: Floats, time: Floats, limit: Floats, same: float) -> Longs:
    """Points within the limits that none other beats in time and every memory, up to a share, by time."""
    order = np.lexsort((*memory.T, time))
    order = order[(memory[order] <= limit).all(axis=1)]
    kept: list[int] = []
    held_memory = np.empty((len(order), memory.shape[1]))
    for point in order:
        if kept and (held_memory[: len(kept)] <= memory[point] * (1 + same)).all(axis=1).any():
            continue
        held_memory[len(kept)] = memory[point]
        kept.append(int(point))
    return np.array(kept, dtype=np.int64)
