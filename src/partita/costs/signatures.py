"""What tells operators apart as far as their time goes: two with one signature take equally long on a device."""

from __future__ import annotations

import hashlib

import msgspec

from partita.costs.gradients import parameter_gradients
from partita.nouns.graph import Graph, Operator, Phase

#: Number format and shape of one array.
Array = tuple[str, tuple[int, ...]]


class Signature(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One operator without its name and place in a model."""

    #: Of the operator; see ``partita.nouns.graph.Operator``.
    target: str
    phase: Phase = "forward"
    dtype: str = "float32"
    flops: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    product: tuple[int, int, int, int] | None = None
    causal: bool = False
    #: Number formats and shapes of what it reads (tensors, then parameters) and makes, in the graph's order.
    inputs: tuple[Array, ...] = ()
    outputs: tuple[Array, ...] = ()
    accumulates: bool = False  #: Whether it makes a parameter's gradient, to which it is added in training.

    @property
    def operator(self) -> Operator:
        """An operator with this signature, for other cost sources to price."""
        return Operator(
            name=self.target,
            target=self.target,
            phase=self.phase,
            dtype=self.dtype,
            flops=self.flops,
            bytes_read=self.bytes_read,
            bytes_written=self.bytes_written,
            product=self.product,
            causal=self.causal,
        )


def signatures(graph: Graph) -> list[Signature]:
    """The signature of every operator of a graph, in order."""
    inputs: list[list[Array]] = [[] for _ in graph.operators]
    outputs: list[list[Array]] = [[] for _ in graph.operators]
    gradients, made = parameter_gradients(graph), set()
    for tensor in graph.tensors:
        array = tensor.dtype, tensor.shape
        for reader in tensor.consumers:
            inputs[reader].append(array)
        if tensor.producer is not None:
            outputs[tensor.producer].append(array)
            if tensor.name in gradients:
                made.add(tensor.producer)
    for parameter in graph.parameters:
        for user in parameter.users:
            op = graph.operators[user]
            # A product of packed weights reads a copy of them in its own format.
            inputs[user].append((op.dtype if op.unpacking_bytes else parameter.dtype, parameter.shape))
    return [
        Signature(
            target=op.target,
            phase=op.phase,
            dtype=op.dtype,
            flops=op.flops,
            bytes_read=op.bytes_read,
            bytes_written=op.bytes_written,
            product=op.product,
            causal=op.causal,
            inputs=tuple(inputs[v]),
            outputs=tuple(outputs[v]),
            accumulates=v in made,
        )
        for v, op in enumerate(graph.operators)
    ]


def fingerprint(graph: Graph) -> str:
    """A digest of a graph's operators, tensors and parameters: what a measurement of one model belongs to."""
    data = msgspec.json.encode((graph.operators, graph.tensors, graph.parameters), order="deterministic")
    return hashlib.sha256(data).hexdigest()
