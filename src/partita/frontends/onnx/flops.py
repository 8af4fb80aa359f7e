"""What one ONNX operator costs in arithmetic: products, convolutions, recurrences and attention, as for PyTorch.

Source of the operators' meaning: the ONNX operator schemas. A multiply-add counts two.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from partita.frontends.flops import attention_flops
from partita.frontends.onnx.arrays import Arrays, ArrayView
from partita.ground.errors import InputError

Shape = tuple[int, ...]
Shapes = Sequence[Shape]


@dataclass(frozen=True)
class Cost:
    """Arithmetic of one operator, as ``partita.frontends.records.RecordedCall`` has it."""

    flops: int = 0
    product: tuple[int, int, int, int] | None = None
    causal: bool = False


#: What counts an operator by its attributes and the shapes of its inputs and outputs.
Count = Callable[[dict[str, Any], Shapes, Shapes], Cost]


def cost_of(op: str, attributes: dict[str, Any], inputs: Shapes, outputs: Shapes) -> Cost:
    """The arithmetic of an operator by the shapes of its inputs (``()`` for one left out) and outputs."""
    count = _COSTS.get(op)
    return Cost() if count is None else count(attributes, inputs, outputs)


def matrix(batch: int, rows: int, columns: int, inner: int) -> Cost:
    """Products of ``rows`` × ``inner`` with ``inner`` × ``columns``, so many."""
    return Cost(2 * batch * rows * columns * inner, (batch, rows, columns, inner))


def matmul(a: Shape, b: Shape, out: Shape) -> Cost:
    """A product of arrays as numpy's ``matmul`` broadcasts them; with one matrix it is one product of all rows."""
    inner = a[-1]
    columns = b[-1] if len(b) > 1 else 1
    if len(b) <= 2:
        return matrix(1, math.prod(a[:-1]), columns, inner)
    rows = a[-2] if len(a) > 1 else 1
    return matrix(math.prod(out) // max(rows * columns, 1), rows, columns, inner)


def _gemm(attributes: dict[str, Any], inputs: Shapes, outputs: Shapes) -> Cost:
    rows, columns = outputs[0]
    return matrix(1, rows, columns, inputs[0][0 if attributes.get("transA") else 1])


def _convolution(weight: int = 1, *, transposed: bool = False) -> Count:
    """A convolution of the first input with that at a place."""

    def count(_: dict[str, Any], inputs: Shapes, outputs: Shapes) -> Cost:
        spatial = math.prod((inputs if transposed else outputs)[0][2:])
        # A weight holds only the channels of its group.
        return Cost(2 * inputs[0][0] * spatial * math.prod(inputs[weight]))

    return count


def _recurrent(_: dict[str, Any], inputs: Shapes, __: Shapes) -> Cost:
    # One step of a sample multiplies by the weights of inputs and of states once, in each direction.
    x, weights, states = inputs[:3]
    return Cost(2 * x[0] * x[1] * (math.prod(weights) + math.prod(states)))


def _attention(attributes: dict[str, Any], inputs: Shapes, outputs: Shapes) -> Cost:
    query, key, value = inputs[:3]
    if len(query) == 3:
        heads = (attributes[f"{name}_num_heads"] for name in ("q", "kv", "kv"))
        query, key, value = (
            (b, n, length, width // n) for (b, length, width), n in zip(inputs[:3], heads, strict=True)
        )
    past = inputs[4] if len(inputs) > 4 else ()
    if past:
        key = (*key[:2], key[2] + past[2], key[3])
    scores, values = attention_flops(query, key, value)
    return Cost(scores + values, causal=bool(attributes.get("is_causal", 0)) and not past)


def _linear_attention(attributes: dict[str, Any], inputs: Shapes, outputs: Shapes) -> Cost:
    # Every token adds keyᵀ·value to a state of each head and multiplies its query by that.
    query, key, value = inputs[:3]
    heads = attributes["kv_num_heads"]
    state = heads * (key[-1] // heads) * (value[-1] // heads)
    shared = attributes["q_num_heads"] / heads
    return Cost(int(2 * math.prod(query[:-1]) * state * (1 + shared)))


def _einsum(attributes: dict[str, Any], inputs: Shapes, outputs: Shapes) -> Cost:
    equation = attributes["equation"]
    text = equation.decode() if isinstance(equation, bytes) else str(equation)
    left, arrow, right = text.replace(" ", "").partition("->")
    terms = left.split(",")
    sizes: dict[str, int] = {}
    letters: list[set[str]] = []
    for term, shape in zip(terms, inputs, strict=True):
        named = _spelled(term, len(shape))
        letters.append(set(named))
        sizes.update(zip(named, shape, strict=True))
    counts = Counter(letter for found in letters for letter in found)
    if arrow:
        result = set(_spelled(right, len(outputs[0])))
    else:
        result = {letter for letter, count in counts.items() if count == 1}
    total = 0
    running = letters[0]
    for place, found in enumerate(letters[1:], 1):
        both = running | found
        total += 2 * math.prod(sizes[letter] for letter in both)
        running = both & (result | set().union(*letters[place + 1 :]))
    return Cost(total)


def _spelled(term: str, rank: int) -> list[str]:
    """One name for each dimension; those an ellipsis stands for are counted from the last one."""
    if "..." not in term:
        return list(term)
    before, after = term.split("...")
    hidden = rank - len(before) - len(after)
    if hidden < 0:
        raise InputError(f"the term {term!r} of an Einsum names more dimensions than its array of rank {rank} has")
    return [*before, *(f".{hidden - place}" for place in range(hidden)), *after]


_COSTS: dict[str, Count] = {
    "Attention": _attention,
    "CausalConvWithState": _convolution(),
    "Conv": _convolution(),
    "ConvInteger": _convolution(),
    "ConvTranspose": _convolution(transposed=True),
    "DeformConv": _convolution(),
    "Einsum": _einsum,
    "FlexAttention": _attention,
    "GRU": _recurrent,
    "Gemm": _gemm,
    "LSTM": _recurrent,
    "LinearAttention": _linear_attention,
    "MatMul": lambda _, inputs, outputs: matmul(inputs[0], inputs[1], outputs[0]),
    "MatMulInteger": lambda _, inputs, outputs: matmul(inputs[0], inputs[1], outputs[0]),
    "QLinearConv": _convolution(3),
    "QLinearMatMul": lambda _, inputs, outputs: matmul(inputs[0], inputs[3], outputs[0]),
    "RNN": _recurrent,
}


# -- operators of a runtime --------------------------------------------------------------------------------------------

#: Shape and element type of outputs, by place.
Made = list[tuple[tuple[int, ...], int]]
Attributes = dict[str, Any]
#: One operator: what it makes, and what counts its arithmetic.
OperatorRule = Callable[[Attributes, Arrays], tuple[Made, Callable[[], Cost]]]


def uncounted(outputs: Callable[[Attributes, Arrays], Made]) -> OperatorRule:
    """An operator whose arithmetic is none that counts."""
    return lambda attributes, inputs: (outputs(attributes, inputs), Cost)


def needed(inputs: Arrays, place: int = 0) -> ArrayView:
    """An input that cannot be left out."""
    found = maybe(inputs, place)
    if found is None:
        raise ValueError(f"input {place} is missing")
    return found


def maybe(inputs: Arrays, place: int) -> ArrayView | None:
    """An input, None where it is left out."""
    return inputs[place] if place < len(inputs) else None


def number_of(inputs: Arrays, place: int) -> int | None:
    """A whole number among the inputs, where it is known."""
    array = maybe(inputs, place)
    return None if array is None or array.known is None else int(np.asarray(array.known).reshape(-1)[0])
