"""Operators of ONNX Runtime (``com.microsoft``) that its optimiser, its quantiser and its exporters write into files.

Shapes follow the operators' documentation (onnxruntime, docs/ContribOperators.md). What is not listed is refused: its
arithmetic is not known.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from partita.frontends.flops import attention_flops
from partita.frontends.onnx.arrays import Arrays, ArrayView
from partita.frontends.onnx.flops import (
    Attributes,
    Cost,
    Made,
    OperatorRule,
    matmul,
    matrix,
    maybe,
    needed,
    number_of,
    uncounted,
)

DOMAIN = "com.microsoft"

#: Operators that the runtime adds to the standard's own set.
ADDED = frozenset({"SimplifiedLayerNormalization"})

_FLOAT, _INT32 = 1, 6


def rule_of(domain: str, op: str) -> OperatorRule | None:
    """What is known of an operator of the runtime; None for others."""
    return _RULES.get(op) if domain == DOMAIN else None


# -- what keeps its shape ---------------------------------------------------------------------------------------------


def _like(*forms: str) -> OperatorRule:
    """Outputs that are like the first input, each in one of these forms."""
    return uncounted(lambda _, inputs: [_FORMS[form](needed(inputs)) for form in forms])


_FORMS: dict[str, Callable[[ArrayView], tuple[tuple[int, ...], int]]] = {
    "same": lambda x: (x.shape, x.type),
    "row": lambda x: ((*x.shape[:-1], 1), _FLOAT),
    "half": lambda x: ((*x.shape[:-1], x.shape[-1] // 2), x.type),
}


def _broadcast(*places: int) -> Callable[[Attributes, Arrays], Made]:
    def outputs(_: Attributes, inputs: Arrays) -> Made:
        shape = np.broadcast_shapes(*(needed(inputs, place).shape for place in places))
        return [(tuple(shape), needed(inputs, places[-1]).type)]

    return outputs


def _quantised(attributes: Attributes, inputs: Arrays) -> Made:
    zero = maybe(inputs, 2)
    return [(needed(inputs).shape, 2 if zero is None else zero.type)]


def _joined(attributes: Attributes, inputs: Arrays) -> Made:
    parts = [needed(inputs, place) for place in range(2, len(inputs), 3)]
    axis = attributes["axis"] % len(parts[0].shape)
    shape = list(parts[0].shape)
    shape[axis] = sum(part.shape[axis] for part in parts)
    return [(tuple(shape), parts[0].type)]


def _pooled(attributes: Attributes, inputs: Arrays) -> Made:
    x = needed(inputs)
    ones = (1,) * (len(x.shape) - 2)
    last = attributes.get("channels_last", 0)
    return [((x.shape[0], *ones, x.shape[-1]) if last else (*x.shape[:2], *ones), x.type)]


# -- lookups ----------------------------------------------------------------------------------------------------------


def _embedded(_: Attributes, inputs: Arrays) -> Made:
    ids, table, scale = needed(inputs), needed(inputs, 2), needed(inputs, 5)
    shape = (*ids.shape, table.shape[1])
    return [(shape, scale.type), ((ids.shape[0],), _INT32), (shape, scale.type)]


def _picked(attributes: Attributes, inputs: Arrays) -> Made:
    data, places, scales = (needed(inputs, place) for place in range(3))
    axis = attributes.get("gather_axis", 0) % len(data.shape)
    shape = list(data.shape)
    if data.dtype == "uint8":
        shape[-1] *= 8 // attributes.get("bits", 4)
    return [((*shape[:axis], *places.shape, *shape[axis + 1 :]), scales.type)]


# -- products ---------------------------------------------------------------------------------------------------------


def _factors(attributes: Attributes, inputs: Arrays) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shapes of both factors of a product after what is transposed."""
    shapes = []
    for place, letter in enumerate("AB"):
        shape = list(needed(inputs, place).shape)
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


def _fused_product(typed_by: int = 0, places: tuple[int, int] = (0, 1)) -> OperatorRule:
    """A product of two of the inputs, in the number format of another."""

    def rule(attributes: Attributes, inputs: Arrays) -> tuple[Made, Callable[[], Cost]]:
        a, b = _factors(attributes, [needed(inputs, place) for place in places])
        shape = _product_shape(a, b)
        return [(shape, needed(inputs, typed_by).type)], lambda: matmul(a, b, shape)

    return rule


def _quantised_gemm(attributes: Attributes, inputs: Arrays) -> tuple[Made, Callable[[], Cost]]:
    ((shape, number),), cost = _fused_product(0, (0, 3))(attributes, inputs)
    return [(shape, _FLOAT if maybe(inputs, 7) is None else number)], cost


def _packed_product(attributes: Attributes, inputs: Arrays) -> tuple[Made, Callable[[], Cost]]:
    """A product with a weight in blocks of few bits, whose sizes are attributes."""
    x, inner = needed(inputs), attributes["K"]
    if x.shape[-1] != inner:
        raise ValueError(f"a product needs the same inner size, not {x.shape[-1]} and {inner}")
    columns = attributes["N"]
    return [((*x.shape[:-1], columns), x.type)], lambda: matrix(1, math.prod(x.shape[:-1]), columns, inner)


def _experts(packed: bool) -> OperatorRule:
    """A mixture of experts: every row goes through the ``k`` that the router picks."""
    places = (2, 5, 8) if packed else (2, 4, 6)

    def rule(attributes: Attributes, inputs: Arrays) -> tuple[Made, Callable[[], Cost]]:
        x = needed(inputs)

        def cost() -> Cost:
            rows = math.prod(x.shape[:-1]) * attributes.get("k", 1)
            bits = attributes.get("expert_weight_bits", 4) if packed else 8
            weights = [array for place in places if (array := maybe(inputs, place)) is not None]
            each = sum(array.numel // array.shape[0] for array in weights)
            return Cost(2 * rows * each * 8 // bits)

        return [(x.shape, x.type)], cost

    return rule


def _position_bias(_: Attributes, inputs: Arrays) -> Made:
    table, rows, columns = needed(inputs), number_of(inputs, 1), number_of(inputs, 2)
    if rows is None or columns is None:
        raise ValueError("its lengths depend on data")
    return [((1, table.shape[1], rows, columns), table.type)]


def _reduced(attributes: Attributes, inputs: Arrays) -> Made:
    x = needed(inputs)
    axes = {axis % len(x.shape) for axis in attributes.get("axes", range(len(x.shape)))}
    kept = attributes.get("keepdims", 1)
    return [(tuple(1 if i in axes else n for i, n in enumerate(x.shape) if kept or i not in axes), x.type)]


def _recurrent(_: Attributes, inputs: Arrays) -> tuple[Made, Callable[[], Cost]]:
    """An LSTM whose weights are bytes, stored with the gates last."""
    x, states = needed(inputs), needed(inputs, 2)
    length, batch, _width = x.shape
    directions, hidden, _gates = states.shape
    last = ((directions, batch, hidden), x.type)
    made = [((length, directions, batch, hidden), x.type), last, last]
    return made, lambda: Cost(2 * length * batch * (needed(inputs, 1).numel + states.numel))


# -- attention --------------------------------------------------------------------------------------------------------


def _attended(batch: int, heads: int, queries: int, keys: int, width: int, value_width: int) -> int:
    return sum(
        attention_flops((batch, heads, queries, width), (batch, heads, keys, width), (batch, heads, keys, value_width))
    )


def _whole_attention(past_place: int, typed_by: int) -> OperatorRule:
    """Attention with the product that makes queries, keys and values."""

    def rule(attributes: Attributes, inputs: Arrays) -> tuple[Made, Callable[[], Cost]]:
        batch, length, width = needed(inputs).shape
        number, heads = needed(inputs, typed_by).type, attributes["num_heads"]
        first, second, last = sizes = attributes.get("qkv_hidden_sizes") or [needed(inputs, 1).shape[1] // 3] * 3
        past = maybe(inputs, past_place)
        keys = length + (0 if past is None else past.shape[3])

        def cost() -> Cost:
            mixed = _attended(batch, heads, length, keys, first // heads, last // heads)
            causal = bool(attributes.get("unidirectional")) and keys == length
            return Cost(2 * batch * length * width * sum(sizes) + mixed, causal=causal)

        return [((batch, length, last), number), ((2, batch, heads, keys, second // heads), number)], cost

    return rule


def _multi_head(attributes: Attributes, inputs: Arrays) -> tuple[Made, Callable[[], Cost]]:
    """Attention of queries, keys and values in all the forms that they come in, with a past or not."""
    query, key, value, past = needed(inputs), maybe(inputs, 1), maybe(inputs, 2), maybe(inputs, 6)
    heads, number = attributes["num_heads"], query.type
    keys = 0 if past is None else past.shape[2]
    if len(query.shape) == 5:
        # Queries, keys and values of a head side by side.
        batch, length, _, _, width = query.shape
        last, keys = width, keys + length
    else:
        batch, length, total = query.shape
        last = width = total // heads
        if key is not None and len(key.shape) == 5:
            keys += key.shape[1]
        elif key is not None:
            # Keys that come in heads are all there are; others come after those of the past.
            keys = key.shape[2] if len(key.shape) == 4 else keys + key.shape[1]
            if value is not None:
                last = value.shape[3] if len(value.shape) == 4 else value.shape[2] // heads
    made: Made = [((batch, length, heads * last), number)]
    made += [((batch, heads, *sides), number) for sides in ((keys, width), (keys, last), (length, keys))]
    causal = bool(attributes.get("unidirectional")) and keys == length
    return made, lambda: Cost(_attended(batch, heads, length, keys, width, last), causal=causal)


def _grouped_query(attributes: Attributes, inputs: Arrays) -> tuple[Made, Callable[[], Cost]]:
    """Causal attention of query heads that share keys and values, with its cache."""
    query, key, past, stated = needed(inputs), maybe(inputs, 1), maybe(inputs, 3), number_of(inputs, 6)
    heads, key_heads, number = attributes["num_heads"], attributes["kv_num_heads"], query.type
    batch, length, total = query.shape
    width = total // (heads if key is not None else heads + 2 * key_heads)
    before = 0 if past is None else past.shape[2]
    keys = before + length if stated is None else stated
    # A cache that has room for all keys is written in place.
    cache = ((batch, key_heads, max(keys, before), width), number if past is None else past.type)
    made: Made = [((batch, length, heads * width), number), cache, cache, ((batch, heads, length, keys), number)]
    return made, lambda: Cost(_attended(batch, heads, length, keys, width, width), causal=keys == length)


_KEEPS = (
    "BiasAdd BiasGelu BiasSoftmax FastGelu Gelu GroupNorm QLinearLeakyRelu QLinearSigmoid QLinearSoftmax QuickGelu "
    "RotaryEmbedding Trilu"
)

_RULES: dict[str, OperatorRule] = {
    **{name: _like("same") for name in _KEEPS.split()},
    "Attention": _whole_attention(4, 0),
    "BiasSplitGelu": _like("half"),
    "DequantizeLinear": uncounted(lambda _, inputs: [(needed(inputs).shape, needed(inputs, 1).type)]),
    "DynamicQuantizeMatMul": _fused_product(),
    "DynamicQuantizeLSTM": _recurrent,
    "EmbedLayerNormalization": uncounted(_embedded),
    "FusedGemm": _fused_product(),
    "FusedMatMul": _fused_product(),
    "FusedMatMulActivation": _fused_product(),
    "GatherBlockQuantized": uncounted(_picked),
    "GemmFastGelu": _fused_product(),
    "GroupQueryAttention": _grouped_query,
    "MatMulBnb4": _packed_product,
    "MatMulIntegerToFloat": _fused_product(2),
    "MatMulNBits": _packed_product,
    "MoE": _experts(False),
    "MultiHeadAttention": _multi_head,
    "QAttention": _whole_attention(8, 3),
    "QGemm": _quantised_gemm,
    "QLinearAdd": uncounted(_broadcast(0, 3)),
    "QLinearConcat": uncounted(_joined),
    "QLinearGlobalAveragePool": uncounted(_pooled),
    "QLinearMul": uncounted(_broadcast(0, 3)),
    "QLinearReduceMean": uncounted(_reduced),
    "QLinearWhere": uncounted(_broadcast(0, 4, 1)),
    "QMoE": _experts(True),
    "QuantizeLinear": uncounted(_quantised),
    "RelativePositionBias": uncounted(_position_bias),
    "SimplifiedLayerNormalization": _like("same", "row"),
    "SkipGroupNorm": _like("same", "same"),
    # The result, mean and deviation of every row, and the sum that was normed.
    "SkipLayerNormalization": _like("same", "row", "row", "same"),
    "SkipSimplifiedLayerNormalization": _like("same", "row", "row", "same"),
    "TransposeMatMul": _fused_product(),
}

#: Operators that are one of the standard with more behind it: its inputs up to a number, without these attributes.
LIKE: dict[str, tuple[str, int, frozenset[str]]] = {
    "FusedConv": ("Conv", 3, frozenset({"activation", "activation_params"})),
    "GatherND": ("GatherND", 2, frozenset()),
    "GridSample": ("GridSample", 2, frozenset()),
    "Pad": ("Pad", 3, frozenset()),
    # The standard's mean takes no bytes; its maximum makes the same shapes.
    "QLinearAveragePool": ("MaxPool", 1, frozenset({"channels_last", "count_include_pad"})),
    "QLinearConv": ("QLinearConv", 9, frozenset({"channels_last"})),
}
