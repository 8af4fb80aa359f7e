"""Graph: what the model is.

A graph holds the operators of one microbatch in an execution order, the tensors between them, and the parameters they
read. It knows sizes and arithmetic, never times: those come from pricing it on a cluster.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from partita.ground.checks import check_fields
from partita.ground.errors import InputError
from partita.ground.shown import brief

Phase = Literal["forward", "backward"]


class Workload(enum.StrEnum):
    """What a model is run for."""

    INFERENCE = "inference"
    TRAINING = "training"

    @classmethod
    def of(cls, *, training: bool) -> Workload:
        """With or without a backward part."""
        return cls.TRAINING if training else cls.INFERENCE


#: The tensor that holds the gradient of parameter ``w`` is named ``grad:w``.
GRADIENT_PREFIX = "grad:"


class Operator(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One operator, executed once per microbatch."""

    name: str  #: Unique name in the graph.
    target: str  #: What it computes, for example ``aten.mm.default``.
    module: str = ""  #: Qualified name of the module that calls it; the empty string is the root.
    phase: Phase = "forward"  #: ``forward`` or ``backward``.
    dtype: str = "float32"  #: The number format its arithmetic runs in, for example ``float16``.
    #: Floating-point operations (a multiply-add is two), counted for matrix products, convolutions and attention, as
    #: ``torch.utils.flop_counter`` does; the arithmetic of other operators is covered by their bytes.
    flops: int = 0
    #: Device-memory traffic: the sizes of the distinct tensors and parameters it reads and of those it writes.
    bytes_read: int = 0
    bytes_written: int = 0
    workspace_bytes: int = 0  #: Scratch memory beyond its inputs and outputs.
    #: For a backward operator the index of the forward operator whose device it shares; for a forward operator the
    #: index of an earlier forward operator it must share the device with; otherwise None.
    colocation: int | None = None
    #: True when it computes nothing by itself (a slice, a tuple access, a quantise step inside its neighbour): it costs
    #: no time.
    free: bool = False
    #: Batch, rows, columns and inner dimension (b, m, n, k) of a matrix product, whose arithmetic is 2·b·m·n·k; None
    #: for anything else, and where they are not known.
    product: tuple[int, int, int, int] | None = None
    #: Which of the dimensions m, n and k are those along which a factor or the result lies consecutively in memory.
    consecutive: str = "kn"
    causal: bool = False  #: True for attention that skips the scores above the diagonal, though ``flops`` counts them.
    joined: bool = False  #: True when it runs in the kernel of an operator before it: nothing is launched for it.
    #: How many kernels are issued for it, one after the other: more than one for the loop of a program.
    launches: int = 1
    #: Device-memory traffic of kernels that run before it and unpack the weights that it reads; 0 without packed ones.
    unpacking_bytes: int = 0


class Tensor(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One tensor between operators."""

    name: str  #: Unique name in the graph.
    producer: int | None  #: Index of the operator that writes it; None for an input of the model.
    #: Indices of the operators that read it, ascending and distinct. A gradient of a parameter, or an output of the
    #: model, may have none.
    consumers: tuple[int, ...] = ()
    #: Its dimensions, number format and size of its data.
    shape: tuple[int, ...] = ()
    dtype: str = "float32"
    bytes: int = 0
    #: Name of the buffer or weight that it is a new version of, written in place: it takes no memory beside that, and
    #: whoever reads it shares the producer's device. None for a tensor of its own.
    stored: str | None = None


class Parameter(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One stored array of the model: a weight or a buffer, with all names that are tied to it."""

    name: str  #: Qualified name.
    aliases: tuple[str, ...] = ()  #: Further qualified names of the same array (tied parameters).
    #: Its dimensions, number format and size.
    shape: tuple[int, ...] = ()
    dtype: str = "float32"
    bytes: int = 0
    users: tuple[int, ...] = ()  #: Indices of the operators that read it (forward or backward), ascending and distinct.
    trainable: bool = True  #: Whether training gives it a gradient and optimizer state.
    buffer: bool = False  #: True for a buffer (a constant stored with the model), False for a weight.
    #: True for keys and values of earlier tokens: a buffer that grows with requests, not with the model.
    cache: bool = False


class Source(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the model of a graph was made, so that it can be made again."""

    model: str  #: As it was named: ``hf:TYPE_OR_FILE``, or ``path/to/file.py:callable``.
    #: What it was asked for: ``batch_size``, ``sequence_length``, ``dtype``, ``task``, ``decode``, and changed fields
    #: as text under ``set``; null is the model's own. With adapters ``lora``, their rank, and ``lora_targets``.
    settings: dict[str, Any] = {}
    training: bool = False  #: Whether forward and backward were traced.


class Graph(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A model's dataflow for one microbatch.

    Raises ``InputError`` if the graph is empty, a name repeats, an index is out of range, or a tensor is read before it
    is produced.
    """

    name: str  #: The model's name.
    #: In an execution order: every tensor is produced before it is read. An operator's index is its place here.
    operators: tuple[Operator, ...]
    #: What the operators exchange and what they read; see the classes.
    tensors: tuple[Tensor, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    modules: dict[str, str] = {}  #: Qualified module name to class name, parents before children; ``""`` is the root.
    training: bool = False  #: Whether the graph holds the backward operators.
    #: Whether the model is one that was compiled, so that chains of elementwise operators are one kernel.
    compiled: bool = False
    notes: tuple[str, ...] = ()  #: What a reader should know about how the graph was made, one sentence each.
    source: Source | None = None  #: How the model was made; None for a module that was traced in memory.

    __repr__ = brief

    def __post_init__(self) -> None:
        if not self.operators:
            raise InputError(f"graph {self.name!r} has no operators; a plan needs at least one")
        _check_unique("operator", (op.name for op in self.operators), self.name)
        _check_unique("tensor", (t.name for t in self.tensors), self.name)
        _check_unique("parameter", (p.name for p in self.parameters), self.name)
        count = len(self.operators)
        for index, op in enumerate(self.operators):
            _check_operator(self, index, op)
        for tensor in self.tensors:
            _check_tensor(self.name, tensor, count)
        for parameter in self.parameters:
            _check_indices(f"parameter {parameter.name!r}", parameter.users, count)
            check_fields(f"parameter {parameter.name!r}", parameter, "bytes")

    def replace(self, **changes: object) -> Graph:
        """A copy with the named fields changed, validated again."""
        return msgspec.structs.replace(self, **changes)

    @property
    def workload(self) -> Workload:
        """What it is run for."""
        return Workload.of(training=self.training)

    @property
    def samples(self) -> int:
        """Samples of the microbatch: what was asked for, else the first side of all inputs if they share one.

        An input without a second side counts as no row of samples, and a model that names its own size as one sample.
        """
        settings = {} if self.source is None else self.source.settings
        asked = settings.get("batch_size")
        if isinstance(asked, int) and asked > 0:
            return asked
        if self.source is not None and self.source.model.startswith("hf:") and not settings.get("inputs"):
            return 1
        inputs = [t for t in self.tensors if t.producer is None and t.stored is None and len(t.shape) > 1]
        first = {t.shape[0] for t in inputs}
        return first.pop() if len(first) == 1 else 1

    @property
    def flops(self) -> int:
        """Floating-point operations of one microbatch."""
        return sum(op.flops for op in self.operators)

    @property
    def parameter_bytes(self) -> int:
        """Bytes of all weights, tied ones once, buffers not included."""
        return sum(p.bytes for p in self.parameters if not p.buffer)

    @property
    def parameter_count(self) -> int:
        """Number of weights, tied ones once, buffers not included."""
        return sum(math.prod(p.shape) for p in self.parameters if not p.buffer)


def _check_unique(kind: str, names: Iterable[str], graph: str) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InputError(f"graph {graph!r}: {kind} name {name!r} appears twice; give each {kind} its own name")
        seen.add(name)


def _check_indices(owner: str, indices: tuple[int, ...], count: int) -> None:
    previous = -1
    for index in indices:
        if not 0 <= index < count:
            raise InputError(f"{owner}: operator index {index} is outside 0..{count - 1}")
        if index <= previous:
            raise InputError(f"{owner}: operator indices {list(indices)} must be ascending and distinct")
        previous = index


def _check_operator(graph: Graph, index: int, op: Operator) -> None:
    owner = f"graph {graph.name!r}: operator {op.name!r}"
    check_fields(owner, op, "flops", "bytes_read", "bytes_written", "workspace_bytes", "unpacking_bytes")
    if op.colocation is None:
        return
    if not 0 <= op.colocation < len(graph.operators):
        raise InputError(f"{owner}: colocation {op.colocation} is outside 0..{len(graph.operators) - 1}")
    if graph.operators[op.colocation].phase != "forward" or op.colocation >= index:
        raise InputError(f"{owner}: colocation must name an earlier forward operator, not {op.colocation}")


def _check_tensor(graph: str, tensor: Tensor, count: int) -> None:
    owner = f"graph {graph!r}: tensor {tensor.name!r}"
    _check_indices(owner, tensor.consumers, count)
    check_fields(owner, tensor, "bytes")
    if tensor.producer is None:
        return
    if not 0 <= tensor.producer < count:
        raise InputError(f"{owner}: producer {tensor.producer} is outside 0..{count - 1}")
    if tensor.consumers and tensor.consumers[0] <= tensor.producer:
        raise InputError(
            f"{owner}: operator {tensor.consumers[0]} reads it before operator {tensor.producer} makes it; "
            "list operators in an execution order without cycles"
        )
