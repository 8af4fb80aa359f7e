"""Attention as ONNX Runtime has it: sizes and arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from partita.frontends.flops import attention_flops
from partita.frontends.onnx.arrays import Arrays
from partita.frontends.onnx.flops import Attributes, Cost, Made, OperatorRule, maybe, needed, number_of


def _attended(batch: int, heads: int, queries: int, keys: int, width: int, value_width: int) -> int:
    return sum(
        attention_flops((batch, heads, queries, width), (batch, heads, keys, width), (batch, heads, keys, value_width))
    )


def whole_attention(past_place: int, typed_by: int) -> OperatorRule:
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


@dataclass(frozen=True)
class _HeadSizes:
    """Sizes of an attention whose queries, keys and values are given."""

    batch: int
    queries: int
    keys: int
    heads: int
    key_heads: int
    width: int
    value_width: int
    past: int

    def cost(self, *, causal: bool) -> Cost:
        """Its arithmetic; ``causal`` if it is one that skips what comes later, where all of it is there."""
        flops = _attended(self.batch, self.heads, self.queries, self.keys, self.width, self.value_width)
        return Cost(flops, causal=causal and self.keys == self.queries)


def _sizes(attributes: Attributes, inputs: Arrays) -> _HeadSizes:
    query, key, value = needed(inputs), maybe(inputs, 1), maybe(inputs, 2)
    heads = attributes["num_heads"]
    past = maybe(inputs, 6)
    before = 0 if past is None else past.shape[2]
    if len(query.shape) == 5:
        # Queries, keys and values of a head side by side.
        batch, length, _, _, width = query.shape
        return _HeadSizes(batch, length, before + length, heads, heads, width, width, before)
    batch, length, total = query.shape
    width = total // heads
    if key is None:
        return _HeadSizes(batch, length, before, heads, heads, width, width, before)
    if len(key.shape) == 5:
        return _HeadSizes(batch, length, before + key.shape[1], heads, heads, width, width, before)
    of_heads = len(key.shape) == 4
    given = key.shape[2] if of_heads else key.shape[1]
    last = width if value is None else value.shape[3] if len(value.shape) == 4 else value.shape[2] // heads
    # Keys that come in heads are all there are; others come after those of the past.
    return _HeadSizes(batch, length, given + (0 if of_heads else before), heads, heads, width, last, before)


def multi_head(attributes: Attributes, inputs: Arrays) -> tuple[Made, Callable[[], Cost]]:
    """Attention of queries, keys and values in all the forms that they come in, with a past or not."""
    s, number = _sizes(attributes, inputs), needed(inputs).type
    made = [
        ((s.batch, s.queries, s.heads * s.value_width), number),
        ((s.batch, s.heads, s.keys, s.width), number),
        ((s.batch, s.heads, s.keys, s.value_width), number),
        ((s.batch, s.heads, s.queries, s.keys), number),
    ]
    return made, lambda: s.cost(causal=bool(attributes.get("unidirectional")))


def _grouped_sizes(attributes: Attributes, inputs: Arrays) -> _HeadSizes:
    query, key, past = needed(inputs), maybe(inputs, 1), maybe(inputs, 3)
    heads, key_heads = attributes["num_heads"], attributes["kv_num_heads"]
    batch, length, total = query.shape
    width = total // (heads if key is not None else heads + 2 * key_heads)
    before = 0 if past is None else past.shape[2]
    stated = number_of(inputs, 6)
    return _HeadSizes(
        batch, length, before + length if stated is None else stated, heads, key_heads, width, width, before
    )


def grouped_query(attributes: Attributes, inputs: Arrays) -> tuple[Made, Callable[[], Cost]]:
    """Causal attention of query heads that share keys and values, with its cache."""
    s, number = _grouped_sizes(attributes, inputs), needed(inputs).type
    past = maybe(inputs, 3)
    # A cache that has room for all keys is written in place.
    cache = ((s.batch, s.key_heads, max(s.keys, s.past), s.width), number if past is None else past.type)
    mixed = ((s.batch, s.queries, s.heads * s.width), number)
    return [mixed, cache, cache, ((s.batch, s.heads, s.queries, s.keys), number)], lambda: s.cost(causal=True)
