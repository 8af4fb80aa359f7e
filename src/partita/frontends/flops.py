"""What one ATen call costs: arithmetic and device-memory traffic.

The formulas for products, convolutions and fused attention are those of ``torch.utils.flop_counter``; this file adds
the calls its registry misses, the calls that touch only part of what they are handed, and how many experts a batch is
expected to reach, and read, where tokens are routed by data.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from partita.nouns.catalogue.files import read_document
from partita.nouns.graph import Graph, Parameter, Tensor

_TABLE = read_document(Path(__file__).with_name("calls.toml"))

CALLS = {
    row: frozenset(name if "." in name else f"aten.{name}" for name in names.split())
    for row, names in _TABLE["aten"].items()
}
"""ATen calls by what is known of them, as the table beside this file says."""

WIDENED = frozenset(_TABLE["functions"]["widened"].split())
"""Functions that GPUs' mixed precision computes in float32."""


def count_flops(func: Any, args: Sequence[Any], kwargs: dict[str, Any], out: Any) -> int:
    """Floating-point operations of one call, a multiply-add being two; 0 for calls that are not products."""
    from torch.utils.flop_counter import flop_registry

    from partita.inside.torch_inside import packet_name, packet_of

    packet = packet_name(func)
    formula = flop_registry.get(packet_of(func))
    if packet == "aten.convolution_backward" and args[9] > 1:
        flops = _grouped_backward(*args)
    elif formula is not None:
        flops = int(formula(*args, **kwargs, out_val=out))
    else:
        extra = _EXTRA.get(packet)
        flops = int(extra(*args)) if extra is not None else 0
    # A complex multiply-add is four of each.
    return 4 * flops if getattr(getattr(out, "dtype", None), "is_complex", False) else flops


def product_shape(packet: str, args: Sequence[Any]) -> tuple[int, int, int, int] | None:
    """Batch, rows, columns and inner dimension of a call that is one product of matrices; None for other calls.

    Of a grouped product the batch are its groups, each with the mean of the rows, or of the inner dimension, that the
    groups share out.
    """
    if packet in CALLS["grouped"]:
        return _grouped_shape(*args)
    place = _FACTORS.get(packet)
    if place is None:
        return None
    a, b = args[place].shape, args[place + 1].shape
    return math.prod(a[:-2]), a[-2], b[-1], a[-1]


def consecutive_dimensions(packet: str, args: Sequence[Any]) -> str:
    """Which of a product's dimensions m, n and k lie consecutively in the memory of a factor or of the result."""
    place = _FACTORS.get(packet, 0)
    a, b = (args[place + number].stride() for number in (0, 1))
    columns_first = [strides[-2] == 1 != strides[-1] for strides in (a, b)]
    return "".join(sorted({"km"[columns_first[0]], "nk"[columns_first[1]], "n"}))


def attention_flops(query: Sequence[int], key: Sequence[int], value: Sequence[int]) -> tuple[int, int]:
    """FLOPs of softmax(QKᵀ)V: of the scores product and of the values product.

    The whole score matrix is counted, as ``torch.utils.flop_counter`` does: causality saves nothing here.
    """
    pairs = 2 * math.prod(query[:-1]) * key[-2]
    return pairs * query[-1], pairs * value[-1]


def _product(a: Sequence[int], columns: int) -> int:
    return 2 * math.prod(a) * columns


def _grouped_mm(a: Any, b: Any, *_: Any) -> int:
    # Each row of `a` meets one matrix of `b`; with two flat operands the groups share out the inner dimension.
    shape = a.shape[1:] if a.dim() == 3 and b.dim() == 2 else a.shape
    return _product(shape, b.shape[-1])


def _grouped_shape(a: Any, b: Any, offsets: Any = None, *_: Any) -> tuple[int, int, int, int] | None:
    if offsets is None or a.dim() + b.dim() not in (4, 5):
        return None
    groups = int(offsets.shape[0])
    mean = max(1, round((a.shape[0] if b.dim() == 3 else a.shape[1] if a.dim() == 2 else b.shape[1]) / groups))
    if a.dim() == b.dim():
        return groups, a.shape[0], b.shape[1], mean
    return (groups, mean, b.shape[2], b.shape[1]) if b.dim() == 3 else (groups, a.shape[1], mean, a.shape[2])


def _recurrent(x: Any, weights: Any, recurrent_weights: Any, *_: Any) -> int:
    # One step of a sample multiplies by both weight matrices once.
    return int(2 * math.prod(x.shape[:-1]) * (weights.numel() + recurrent_weights.numel()))


def _grouped_backward(grad: Any, x: Any, weight: Any, *more: Any) -> int:
    # Each gradient is as many products as the result was. torch's formula takes every channel of the weight's gradient
    # with every other, in whatever groups they are.
    transposed, mask = more[4], more[7]
    places = x if transposed else grad
    return int(2 * places.shape[0] * math.prod(places.shape[2:]) * weight.numel() * sum(map(bool, mask[:2])))


def _deformed(x: Any, weight: Any, offset: Any) -> int:
    # Sampled where the offsets say, a place of the result is a product as in any convolution.
    return int(2 * offset.shape[0] * math.prod(offset.shape[-2:]) * weight.numel())


_FACTORS = {"aten.mm": 0, "aten.bmm": 0, "aten.addmm": 1, "aten.baddbmm": 1}
"""Place of the first factor among a product's arguments; the second follows it."""

_EXTRA: dict[str, Any] = {
    "aten.mkldnn_rnn_layer": _recurrent,
    "aten.mkldnn_rnn_layer_backward": lambda *args: 2 * _recurrent(*args),
    "aten._grouped_mm": _grouped_mm,
    "transformers.grouped_mm_fallback": _grouped_mm,
    "transformers.grouped_mm_fallback_backward": lambda x, w, *_: 2 * _product(x.shape, w.shape[-1]),
    "aten._int_mm": lambda a, b: _product(a.shape, b.shape[-1]),
    "aten.mv": lambda a, b: 2 * a.shape[0] * a.shape[1],
    "aten.addmv": lambda c, a, b: 2 * a.shape[0] * a.shape[1],
    "torchvision.deform_conv2d": lambda x, weight, offset, *_: _deformed(x, weight, offset),
    "torchvision._deform_conv2d_backward": lambda grad, x, weight, offset, *_: 2 * _deformed(x, weight, offset),
}


# -- mixtures of experts -----------------------------------------------------------------------------------------------


def reached(experts: int, tokens: int, chosen: int) -> float:
    """Expected number of experts that some token is sent to, if each token picks ``chosen`` different ones evenly."""
    return experts * (1.0 - (1.0 - min(1.0, chosen / experts)) ** tokens)


def with_expected_experts(graph: Graph) -> Graph:
    """The graph with grouped products that read the experts they are expected to reach, and a note that says so."""
    routed = [v for v, op in enumerate(graph.operators) if "grouped_mm" in op.target and op.product is not None]
    if not routed:
        return graph
    inputs: dict[int, list[Tensor]] = {}
    stored: dict[int, list[Parameter]] = {}
    for tensor in graph.tensors:
        for v in tensor.consumers:
            inputs.setdefault(v, []).append(tensor)
    for parameter in graph.parameters:
        for v in parameter.users:
            stored.setdefault(v, []).append(parameter)
    operators = list(graph.operators)
    said: dict[str, None] = {}
    per_token: dict[int, int] = {}
    for v in routed:
        op = operators[v]
        # What is shared out among the experts has the product's inner dimension.
        experts, _, _, inner = op.product or (0, 0, 0, 0)
        rows = next((t for t in inputs.get(v, []) if len(t.shape) == 2 and t.shape[1] == inner), None)
        if rows is None:
            continue
        tokens = _tokens(rows, inputs)
        if tokens is not None and rows.shape[0] % tokens == 0:
            per_token.setdefault(rows.shape[0], rows.shape[0] // tokens)
        chosen = per_token.get(rows.shape[0], 1)
        count = reached(experts, rows.shape[0] // chosen, chosen)
        unread = sum(p.bytes for p in stored.get(v, ()) if p.shape[:1] == (experts,)) * (1.0 - count / experts)
        operators[v] = msgspec.structs.replace(op, bytes_read=max(0, round(op.bytes_read - unread)))
        if op.phase == "forward":
            mean = max(1, round(rows.shape[0] / count))
            said[f"{mean:,} of each of {count:.3g} of {experts} experts"] = None
    note = (
        "Every token goes through its top experts: the experts of a layer are grouped products over all tokens, which "
        "count each token's chosen experts only and read the weights of the experts that are expected to get a token. "
        f"Tokens are presumed to be spread evenly{': ' + ', '.join(said) if said else ''}."
    )
    return graph.replace(operators=tuple(operators), notes=(*graph.notes, note))


def _tokens(rows: Tensor, inputs: dict[int, list[Tensor]]) -> int | None:
    """How many tokens the rows were picked from; None where they are not picked by what makes them."""
    if rows.producer is None:
        return None
    wide = [t for t in inputs.get(rows.producer, []) if t.shape[-1:] == rows.shape[-1:] and t.shape[-1:] != (1,)]
    counts = [math.prod(t.shape[:-1]) for t in wide]
    return min((count for count in counts if 0 < count <= rows.shape[0]), default=None)
