"""Narrow formats of products: which of a training graph's products run in them, and what brings numbers into them.

A recipe runs the products of weights in repeated layers, forward and backward, in a narrow format: those of queries,
keys, values, attention's result, gated MLPs and experts. Attention itself, the embedding, the head with the loss,
norms, and products in 32 bits (routers) stay as they are. Weights, gradients of weights and the optimizer's states keep
their formats, too: a narrow copy of the weights is made once in a step (P. Micikevicius et al., "FP8 Formats for Deep
Learning", 2022, section 3; NVIDIA, *Transformer Engine* documentation, "Using FP8 and FP4").

What a product reads is written in the narrow format by the operator that makes it: once along the inner dimension of
the forward product, and once along that of the gradient of the weight. A format with one scale for a whole tensor reads
all of it once more to find its largest number.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from partita.costs.optimizer import dtype_bytes
from partita.costs.strategies.view import GraphView, numel
from partita.ground.errors import InputError
from partita.nouns.graph import Graph, Operator


@dataclass(frozen=True)
class ProductFormat:
    """A number format that products run in."""

    name: str
    dtype: str  #: As devices state rates for it, and operators name it; empty for that of the model.
    number_bytes: float = 2.0  #: Of a number, scales included.
    #: How often a tensor is read before it can be written in the format: the largest number of all of it comes first.
    looks: int = 0


#: One 32-bit scale for a tensor, found as it is made (current scaling), or for 1 × 128 and 128 × 128 numbers
#: (DeepSeek-AI,
#: "DeepSeek-V3 Technical Report", 2024, section 3.3.2); an 8-bit scale for 32 numbers (Rouhani et al., "Microscaling
#: Data
#: Formats", 2023); an 8-bit one for 16 beside a 32-bit one for a tensor (NVIDIA, "Pretraining Large Language Models
#: with
#: NVFP4", 2025, section 2).
PRODUCT_FORMATS = {
    form.name: form
    for form in (
        ProductFormat("bf16", ""),
        ProductFormat("fp8", "float8", 1.0, looks=1),
        ProductFormat("fp8-block", "float8_block", 1.0 + 4 / 128),
        ProductFormat("mxfp8", "float8_mx", 1.0 + 1 / 32),
        ProductFormat("nvfp4", "float4", 0.5 + 1 / 16, looks=1),
    )
}

#: Kernels of narrow formats take dimensions of at least so many numbers; those of adapters, for instance, have fewer.
_LEAST = 128


def find_product_format(name: str) -> ProductFormat:
    """The format of a name; an unknown one is an ``InputError``."""
    found = PRODUCT_FORMATS.get(name.lower())
    if found is None:
        raise InputError(f"there is no precision {name!r} for products; known are {', '.join(PRODUCT_FORMATS)}")
    return found


def narrow_products(graph: Graph, form: ProductFormat, repeated: frozenset[int]) -> Graph:
    """The graph with the products of weights of the ``repeated`` operators in a format.

    Operators and tensors are the same; formats, traffic, and the bytes of tensors that nothing else reads change.
    """
    if not form.dtype:
        return graph
    view = GraphView(graph)
    products = {v for v in repeated if _is_narrow(view, v)}
    operators = list(graph.operators)
    tensors = list(graph.tensors)
    extra = [0.0] * len(operators)
    for place, tensor in enumerate(graph.tensors):
        readers = [v for v in tensor.consumers if v in products]
        maker = view.maker(place)
        if not readers or maker is None:
            continue
        # Rows for the forward product or that of the gradient of its source, columns for the gradient of the weight.
        ways = len({any(p in view.weight_gradients for p in view.outputs[v]) for v in readers})
        narrow = numel(tensor) * form.number_bytes
        alone = len(readers) == len(tensor.consumers)
        extra[maker] += ways * narrow + form.looks * tensor.bytes - (tensor.bytes if alone else 0)
        if alone:
            tensors[place] = msgspec.structs.replace(tensor, dtype=form.dtype, bytes=round(narrow))
    for v in products:
        operators[v] = _narrow(view, v, form)
    for v, size in enumerate(extra):
        if size:
            op = operators[v]
            operators[v] = msgspec.structs.replace(op, bytes_written=max(0, round(op.bytes_written + size)))
    return graph.replace(operators=tuple(operators), tensors=tuple(tensors))


def _is_narrow(view: GraphView, v: int) -> bool:
    """Whether an operator is a product of a weight, forward or backward, in a 16-bit format and of some size."""
    op = view.graph.operators[v]
    if op.product is None or op.dtype not in ("bfloat16", "float16") or view.roots[v] not in view.linears:
        return False
    return min(op.product[1:]) >= _LEAST


def _narrow(view: GraphView, v: int, form: ProductFormat) -> Operator:
    op = view.graph.operators[v]
    sizes = [view.graph.tensors[place] for place in view.inputs[v]]
    saved = sum(tensor.bytes - numel(tensor) * form.number_bytes for tensor in sizes)
    for place in view.parameters[v]:
        parameter = view.graph.parameters[place]
        saved += parameter.bytes * (1 - form.number_bytes / dtype_bytes(parameter.dtype))
    return msgspec.structs.replace(op, dtype=form.dtype, bytes_read=max(0, round(op.bytes_read - saved)))
