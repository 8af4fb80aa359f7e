"""What is said of an operator of ONNX Runtime: shapes of its outputs, and its arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from partita.frontends.onnx.arrays import Array
from partita.frontends.onnx.flops import Cost

Arrays = Sequence[Array | None]
Made = list[tuple[tuple[int, ...], int]]
Attributes = dict[str, Any]


@dataclass(frozen=True)
class Rule:
    """One operator.

    Attributes
    ----------
    outputs
        Shape and element type of its outputs, by place.
    cost
        Its arithmetic.
    """

    outputs: Callable[[Attributes, Arrays], Made]
    cost: Callable[[Attributes, Arrays], Cost] = lambda _, __: Cost()


def needed(inputs: Arrays, place: int = 0) -> Array:
    """An input that cannot be left out."""
    found = maybe(inputs, place)
    if found is None:
        raise ValueError(f"input {place} is missing")
    return found


def maybe(inputs: Arrays, place: int) -> Array | None:
    """An input, None where it is left out."""
    return inputs[place] if place < len(inputs) else None


def number_of(inputs: Arrays, place: int) -> int | None:
    """A whole number among the inputs, where it is known."""
    array = maybe(inputs, place)
    return None if array is None or array.known is None else int(np.asarray(array.known).reshape(-1)[0])
