"""Operators of ONNX Runtime (``com.microsoft``) that its optimiser, its quantiser and its exporters write into files.

Shapes follow the operators' documentation (onnxruntime, docs/ContribOperators.md). What is not listed is refused: its
arithmetic is not known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from partita.frontends.flops import attention_flops
from partita.frontends.onnx.arrays import Array
from partita.frontends.onnx.flops import Cost, matrix, matmul

DOMAIN = "com.microsoft"

#: Operators that the runtime adds to the standard's own set.
ADDED = frozenset({"SimplifiedLayerNormalization"})

_FLOAT, _INT32 = 1, 6

Arrays = Sequence[Array | None]
Made = list[tuple[tuple[int, ...], int]]
_Attributes = dict[str, Any]


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

    outputs: Callable[[_Attributes, Arrays], Made]
    cost: Callable[[_Attributes, Arrays], Cost] = lambda _, __: Cost()


def rule_of(domain: str, op: str) -> Rule | None:
    """What is known of an operator of the runtime; None for others."""
    return _RULES.get(op) if domain == DOMAIN else None


def _first(inputs: Arrays, place: int = 0) -> Array:
    """An input that cannot be left out."""
    found = _at(inputs, place)
    if found is None:
        raise ValueError(f"input {place} is missing")
    return found


def _at(inputs: Arrays, place: int) -> Array | None:
    return inputs[place] if place < len(inputs) else None


def _value(inputs: Arrays, place: int) -> int | None:
    """A whole number among the inputs, where it is known."""
    array = _at(inputs, place)
    return None if array is None or array.known is None else int(np.asarray(array.known).reshape(-1)[0])


# -- what keeps its shape ---------------------------------------------------------------------------------------------


def _same(_: _Attributes, inputs: Arrays) -> Made:
    x = _first(inputs)
    return [(x.shape, x.type)]


def _normed(_: _Attributes, inputs: Arrays) -> Made:
    # The result, mean and deviation of every row, and the sum that was normed.
    x = _first(inputs)
    row = (*x.shape[:-1], 1)
    return [(x.shape, x.type), (row, _FLOAT), (row, _FLOAT), (x.shape, x.type)]


def _plain_norm(_: _Attributes, inputs: Arrays) -> Made:
    x = _first(inputs)
    return [(x.shape, x.type), ((*x.shape[:-1], 1), _FLOAT)]


def _twice(_: _Attributes, inputs: Arrays) -> Made:
    x = _first(inputs)
    return [(x.shape, x.type)] * 2


def _half(_: _Attributes, inputs: Arrays) -> Made:
    x = _first(inputs)
    return [((*x.shape[:-1], x.shape[-1] // 2), x.type)]


def _broadcast(*places: int) -> Callable[[_Attributes, Arrays], Made]:
    def outputs(_: _Attributes, inputs: Arrays) -> Made:
        shape = np.broadcast_shapes(*(_first(inputs, place).shape for place in places))
        return [(tuple(shape), _first(inputs, places[-1]).type)]

    return outputs


def _quantised(attributes: _Attributes, inputs: Arrays) -> Made:
    zero = _at(inputs, 2)
    return [(_first(inputs).shape, 2 if zero is None else zero.type)]


def _dequantised(_: _Attributes, inputs: Arrays) -> Made:
    return [(_first(inputs).shape, _first(inputs, 1).type)]


def _joined(attributes: _Attributes, inputs: Arrays) -> Made:
    parts = [_first(inputs, place) for place in range(2, len(inputs), 3)]
    axis = attributes["axis"] % len(parts[0].shape)
    shape = list(parts[0].shape)
    shape[axis] = sum(part.shape[axis] for part in parts)
    return [(tuple(shape), parts[0].type)]


def _pooled(attributes: _Attributes, inputs: Arrays) -> Made:
    x = _first(inputs)
    ones = (1,) * (len(x.shape) - 2)
    last = attributes.get("channels_last", 0)
    return [((x.shape[0], *ones, x.shape[-1]) if last else (*x.shape[:2], *ones), x.type)]


# -- lookups ----------------------------------------------------------------------------------------------------------


def _embedded(_: _Attributes, inputs: Arrays) -> Made:
    ids, table, scale = _first(inputs), _first(inputs, 2), _first(inputs, 5)
    shape = (*ids.shape, table.shape[1])
    return [(shape, scale.type), ((ids.shape[0],), _INT32), (shape, scale.type)]


def _picked(attributes: _Attributes, inputs: Arrays) -> Made:
    data, places, scales = (_first(inputs, place) for place in range(3))
    axis = attributes.get("gather_axis", 0) % len(data.shape)
    shape = list(data.shape)
    if data.dtype == "uint8":
        shape[-1] *= 8 // attributes.get("bits", 4)
    return [((*shape[:axis], *places.shape, *shape[axis + 1 :]), scales.type)]


# -- products ---------------------------------------------------------------------------------------------------------


def _factors(attributes: _Attributes, inputs: Arrays) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shapes of both factors of a product after what is transposed."""
    shapes = []
    for place, letter in enumerate("AB"):
        shape = list(_first(inputs, place).shape)
        if attributes.get(f"transBatch{letter}") and len(shape) > 2:
            shape = [*shape[1:-1], shape[0], shape[-1]]
        if attributes.get(f"trans{letter}") and len(shape) > 1:
            shape[-2:] = shape[:-3:-1]
        shapes.append(tuple(shape))
    return shapes[0], shapes[1]


def _product_shape(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    inner = b[-2] if len(b) > 1 else b[-1]
    if a[-1] != inner:
        raise ValueError(f"a product needs the same inner size, not {a[-1]} and {inner}")
    batch = np.broadcast_shapes(a[:-2], b[:-2])
    return (*batch, *(a[-2:-1]), *(b[-1:] if len(b) > 1 else ()))


def _fused_product(typed_by: int = 0) -> Rule:
    """A product of the first two inputs, in the number format of another."""

    def outputs(attributes: _Attributes, inputs: Arrays) -> Made:
        return [(_product_shape(*_factors(attributes, inputs)), _first(inputs, typed_by).type)]

    def cost(attributes: _Attributes, inputs: Arrays) -> Cost:
        a, b = _factors(attributes, inputs)
        return matmul(a, b, _product_shape(a, b))

    return Rule(outputs, cost)


def _quantised_gemm() -> Rule:
    def factors(inputs: Arrays) -> Arrays:
        return [_first(inputs), _first(inputs, 3)]

    def outputs(attributes: _Attributes, inputs: Arrays) -> Made:
        shape = _product_shape(*_factors(attributes, factors(inputs)))
        return [(shape, _FLOAT if _at(inputs, 7) is None else _first(inputs).type)]

    def cost(attributes: _Attributes, inputs: Arrays) -> Cost:
        a, b = _factors(attributes, factors(inputs))
        return matmul(a, b, _product_shape(a, b))

    return Rule(outputs, cost)


def _packed_product() -> Rule:
    """A product with a weight in blocks of few bits, whose sizes are attributes."""

    def outputs(attributes: _Attributes, inputs: Arrays) -> Made:
        x = _first(inputs)
        if x.shape[-1] != attributes["K"]:
            raise ValueError(f"a product needs the same inner size, not {x.shape[-1]} and {attributes['K']}")
        return [((*x.shape[:-1], attributes["N"]), x.type)]

    def cost(attributes: _Attributes, inputs: Arrays) -> Cost:
        return matrix(1, math.prod(_first(inputs).shape[:-1]), attributes["N"], attributes["K"])

    return Rule(outputs, cost)


def _experts(packed: bool) -> Rule:
    """A mixture of experts: every row goes through the ``k`` that the router picks."""
    places = (2, 5, 8) if packed else (2, 4, 6)

    def cost(attributes: _Attributes, inputs: Arrays) -> Cost:
        x = _first(inputs)
        rows = math.prod(x.shape[:-1]) * attributes.get("k", 1)
        bits = attributes.get("expert_weight_bits", 4) if packed else 8
        weights = [array for place in places if (array := _at(inputs, place)) is not None]
        each = sum(array.numel // array.shape[0] for array in weights)
        return Cost(2 * rows * each * 8 // bits)

    return Rule(_same, cost)


# -- attention --------------------------------------------------------------------------------------------------------


def _attended(batch: int, heads: int, queries: int, keys: int, width: int, value_width: int) -> int:
    return sum(
        attention_flops((batch, heads, queries, width), (batch, heads, keys, width), (batch, heads, keys, value_width))
    )


def _whole_attention(past_place: int, typed_by: int) -> Rule:
    """Attention with the product that makes queries, keys and values."""

    def widths(attributes: _Attributes, inputs: Arrays) -> list[int]:
        stated = attributes.get("qkv_hidden_sizes")
        return list(stated) if stated else [_first(inputs, 1).shape[1] // 3] * 3

    def keys(inputs: Arrays) -> int:
        past = _at(inputs, past_place)
        return _first(inputs).shape[1] + (0 if past is None else past.shape[3])

    def outputs(attributes: _Attributes, inputs: Arrays) -> Made:
        batch, length, _ = _first(inputs).shape
        number, heads = _first(inputs, typed_by).type, attributes["num_heads"]
        _, width, last = widths(attributes, inputs)
        return [((batch, length, last), number), ((2, batch, heads, keys(inputs), width // heads), number)]

    def cost(attributes: _Attributes, inputs: Arrays) -> Cost:
        batch, length, width = _first(inputs).shape
        first, _, last = sizes = widths(attributes, inputs)
        heads, total = attributes["num_heads"], keys(inputs)
        mixed = _attended(batch, heads, length, total, first // heads, last // heads)
        causal = bool(attributes.get("unidirectional")) and total == length
        return Cost(2 * batch * length * width * sum(sizes) + mixed, causal=causal)

    return Rule(outputs, cost)


@dataclass(frozen=True)
class _Heads:
    """Sizes of an attention whose queries, keys and values are given."""

    batch: int
    queries: int
    keys: int
    heads: int
    key_heads: int
    width: int
    value_width: int
    past: int


def _sizes(attributes: _Attributes, inputs: Arrays) -> _Heads:
    query, key, value = _first(inputs), _at(inputs, 1), _at(inputs, 2)
    heads = attributes["num_heads"]
    past = _at(inputs, 6)
    before = 0 if past is None else past.shape[2]
    if len(query.shape) == 5:
        # Queries, keys and values of a head side by side.
        batch, length, _, _, width = query.shape
        return _Heads(batch, length, before + length, heads, heads, width, width, before)
    batch, length, total = query.shape
    width = total // heads
    if key is None:
        return _Heads(batch, length, before, heads, heads, width, width, before)
    if len(key.shape) == 5:
        return _Heads(batch, length, before + key.shape[1], heads, heads, width, width, before)
    of_heads = len(key.shape) == 4
    given = key.shape[2] if of_heads else key.shape[1]
    last = width if value is None else value.shape[3] if len(value.shape) == 4 else value.shape[2] // heads
    # Keys that come in heads are all there are; others come after those of the past.
    return _Heads(batch, length, given + (0 if of_heads else before), heads, heads, width, last, before)


def _multi_head() -> Rule:
    def outputs(attributes: _Attributes, inputs: Arrays) -> Made:
        s, number = _sizes(attributes, inputs), _first(inputs).type
        return [
            ((s.batch, s.queries, s.heads * s.value_width), number),
            ((s.batch, s.heads, s.keys, s.width), number),
            ((s.batch, s.heads, s.keys, s.value_width), number),
            ((s.batch, s.heads, s.queries, s.keys), number),
        ]

    def cost(attributes: _Attributes, inputs: Arrays) -> Cost:
        s = _sizes(attributes, inputs)
        causal = bool(attributes.get("unidirectional")) and s.keys == s.queries
        return Cost(_attended(s.batch, s.heads, s.queries, s.keys, s.width, s.value_width), causal=causal)

    return Rule(outputs, cost)


def _grouped_sizes(attributes: _Attributes, inputs: Arrays) -> _Heads:
    query, key, past = _first(inputs), _at(inputs, 1), _at(inputs, 3)
    heads, key_heads = attributes["num_heads"], attributes["kv_num_heads"]
    batch, length, total = query.shape
    width = total // (heads if key is not None else heads + 2 * key_heads)
    before = 0 if past is None else past.shape[2]
    stated = _value(inputs, 6)
    return _Heads(batch, length, before + length if stated is None else stated, heads, key_heads, width, width, before)


def _grouped_query() -> Rule:
    def outputs(attributes: _Attributes, inputs: Arrays) -> Made:
        s, number = _grouped_sizes(attributes, inputs), _first(inputs).type
        past = _at(inputs, 3)
        # A cache that has room for all keys is written in place.
        cache = ((s.batch, s.key_heads, max(s.keys, s.past), s.width), number if past is None else past.type)
        return [
            ((s.batch, s.queries, s.heads * s.width), number),
            cache,
            cache,
            ((s.batch, s.heads, s.queries, s.keys), number),
        ]

    def cost(attributes: _Attributes, inputs: Arrays) -> Cost:
        s = _grouped_sizes(attributes, inputs)
        causal = s.keys == s.queries
        return Cost(_attended(s.batch, s.heads, s.queries, s.keys, s.width, s.width), causal=causal)

    return Rule(outputs, cost)


def _position_bias(_: _Attributes, inputs: Arrays) -> Made:
    table, rows, columns = _first(inputs), _value(inputs, 1), _value(inputs, 2)
    if rows is None or columns is None:
        raise ValueError("its lengths depend on data")
    return [((1, table.shape[1], rows, columns), table.type)]


_KEEPS = (
    "BiasAdd BiasGelu BiasSoftmax FastGelu Gelu GroupNorm QLinearLeakyRelu QLinearSigmoid QLinearSoftmax QuickGelu "
    "RotaryEmbedding Trilu"
)

_RULES: dict[str, Rule] = {
    **{name: Rule(_same) for name in _KEEPS.split()},
    "Attention": _whole_attention(4, 0),
    "BiasSplitGelu": Rule(_half),
    "DequantizeLinear": Rule(_dequantised),
    "DynamicQuantizeMatMul": _fused_product(),
    "EmbedLayerNormalization": Rule(_embedded),
    "FusedGemm": _fused_product(),
    "FusedMatMul": _fused_product(),
    "FusedMatMulActivation": _fused_product(),
    "GatherBlockQuantized": Rule(_picked),
    "GemmFastGelu": _fused_product(),
    "GroupQueryAttention": _grouped_query(),
    "MatMulBnb4": _packed_product(),
    "MatMulIntegerToFloat": _fused_product(2),
    "MatMulNBits": _packed_product(),
    "MoE": _experts(False),
    "MultiHeadAttention": _multi_head(),
    "QAttention": _whole_attention(8, 3),
    "QGemm": _quantised_gemm(),
    "QLinearAdd": Rule(_broadcast(0, 3)),
    "QLinearConcat": Rule(_joined),
    "QLinearGlobalAveragePool": Rule(_pooled),
    "QLinearMul": Rule(_broadcast(0, 3)),
    "QLinearWhere": Rule(_broadcast(0, 4, 1)),
    "QMoE": _experts(True),
    "QuantizeLinear": Rule(_quantised),
    "RelativePositionBias": Rule(_position_bias),
    "SimplifiedLayerNormalization": Rule(_plain_norm),
    "SkipGroupNorm": Rule(_twice),
    "SkipLayerNormalization": Rule(_normed),
    "SkipSimplifiedLayerNormalization": Rule(_normed),
    "TransposeMatMul": _fused_product(),
}

#: Operators that are one of the standard with more behind it: its inputs up to a number, without these attributes.
LIKE: dict[str, tuple[str, int, frozenset[str]]] = {
    "FusedConv": ("Conv", 3, frozenset({"activation", "activation_params"})),
    "GatherND": ("GatherND", 2, frozenset()),
    "GridSample": ("GridSample", 2, frozenset()),
    "Pad": ("Pad", 3, frozenset()),
    "QLinearConv": ("QLinearConv", 9, frozenset({"channels_last"})),
}
