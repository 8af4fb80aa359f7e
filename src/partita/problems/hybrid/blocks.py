"""Blocks that a model repeats, such as the layers of a transformer."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from partita.problems.hybrid.layer import Layer


@dataclass(frozen=True)
class LikeBlocks:
    """A model as a chain of like blocks."""

    #: Place in the order of layers at which each block starts; a block ends where the next one starts.
    starts: tuple[int, ...]
    end: int  #: Place at which the last block ends.
    layers: int  #: Number of layers; those before the first and after the last block are the model's ends.


def find_blocks(order: Sequence[Layer]) -> LikeBlocks:
    """Blocks that repeat: one starts at every layer of the most frequent shape, of equally frequent ones the first.

    Layers have the same shape if they hold as many bytes of weights at every degree, where that is known, otherwise if
    their configurations differ in nothing but measured time. Layers between two starts
    belong to the block before. If no shape is that of half of the layers that take time, or of four layers, the model
    does not repeat and every layer is a block. ``order`` is a topological order of the layers.
    """
    shapes = [_shape(layer) for layer in order]
    busy = [any(c.time > 0 for row in layer.configurations.values() for c in row) for layer in order]
    counted = Counter(shape for shape, takes in zip(shapes, busy, strict=True) if takes)
    shape, times = max(counted.items(), key=lambda item: (item[1], -shapes.index(item[0])), default=((), 0))
    size = len(shapes)
    if times < 2 or (2 * times < sum(busy) and times < 4):
        return LikeBlocks(tuple(range(size)), size, size)
    starts = [place for place, other in enumerate(shapes) if other == shape]
    # The last block is as long as the others, so that the model's head is not part of it.
    lengths = Counter(after - before for before, after in itertools.pairwise(starts))
    length = lengths.most_common(1)[0][0]
    return LikeBlocks(tuple(starts), min(size, starts[-1] + length), size)


def _shape(layer: Layer) -> tuple[object, ...]:
    """What blocks that repeat have in common: the first one may save other tensors, for nobody needs its gradient."""
    weights = tuple((degree, state.parameter_bytes) for degree, state in sorted(layer.states.items()))
    return weights if any(size > 0 for _, size in weights) else choices_of(layer, timed=False)


def choices_of(layer: Layer, *, timed: bool = True) -> tuple[object, ...]:
    """What the layer offers, whatever its neighbours are called."""
    return tuple(
        (degree, tuple(sorted((c.id, *c.figures[0 if timed else 1 :]) for c in choices)))
        for degree, choices in sorted(layer.configurations.items())
    )


def divisors(number: int) -> list[int]:
    """All divisors, ascending."""
    small = [k for k in range(1, math.isqrt(number) + 1) if number % k == 0]
    return sorted({*small, *(number // k for k in small)})
