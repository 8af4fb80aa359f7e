"""A graph as strategies read it: kinds of operators, what they read and write, products with weights, state."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from partita.costs.gradients import parameter_gradients, partial_gradients
from partita.costs.workspace import colocation_roots, saved_readers
from partita.nouns.graph import Graph, Operator, Parameter, Tensor

#: Vocabularies are padded to a multiple of this for each device; tables with fewer rows are not split.
ROWS_PER_DEVICE = 128


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: Formats that tensors of 16-bit numbers are written in for narrow products alone (``costs.precision``).
NARROW = ("float8", "float8_block", "float8_mx", "float4")

#: Every element of the result depends on one element of each operand (broadcast operands included).
ELEMENTWISE = _names(
    "abs add addcdiv addcmul bernoulli bitwise_and bitwise_not bitwise_or ceil celu clamp clamp_max clamp_min clone "
    "copy copy_ cos div dropout elu eq erf exp exp2 fill floor ge gelu glu_jvp gt hardsigmoid hardswish hardtanh le "
    "leaky_relu lerp log log1p logical_and logical_not logical_or lt masked_fill maximum minimum mish mul "
    "native_dropout ne neg pow reciprocal relu relu6 round rsqrt rsub sigmoid sign silu sin softplus sqrt square sub "
    "tanh threshold to _to_copy where"
)

#: Parts of a tensor, and tensors put together.
SLICES = _names("slice cat split narrow select unbind chunk contiguous")

#: Reduce one or more dimensions; the shapes say which.
REDUCTIONS = _names("mean sum amax amin max min var std var_mean prod linalg_vector_norm logsumexp")

#: Normalise over the last dimensions, those of their weights.
NORMS = _names("native_layer_norm layer_norm rms_norm _fused_rms_norm")

#: What brings rows to experts and back, in layers that have some.
ROUTING = _names(
    "topk sort argsort index index_select index_add index_put _index_put_impl gather scatter scatter_add histc "
    "bincount cumsum floor_divide one_hot nonzero zeros_like new_zeros"
)

#: Scans of state-space models, head by head, and what they read of every channel's neighbouring tokens.
SCANS = _names("chunk_scan mamba_chunk_scan_combined")
CHANNELWISE = _names("causal_conv1d_fn")

SOFTMAX = _names("_softmax softmax _safe_softmax")
LOSSES = _names("_log_softmax log_softmax nll_loss_forward cross_entropy_loss")
EMBEDDINGS = _names("embedding _embedding_bag")
ATTENTION = frozenset({"scaled_dot_product_attention"})


def base_name(op: Operator) -> str:
    """``add`` for ``aten.add_.Tensor``: in-place forms do what the others do."""
    name = op.target.split(".")[1] if "." in op.target else op.target
    return name[:-1] if name.endswith("_") and not name.startswith("_") and name != "copy_" else name


def numel(array: Tensor | Parameter) -> int:
    """Elements of a tensor or parameter."""
    return math.prod(array.shape)


def wide_bytes(tensor: Tensor) -> float:
    """What a tensor, or its gradient, takes where it is not written for narrow products: 16 bits a number."""
    return float(2 * numel(tensor) if tensor.dtype in NARROW else tensor.bytes)


@dataclass(frozen=True)
class Linear:
    """A product of a tensor with a weight: ``tokens`` rows of ``inputs`` features become rows of ``outputs``."""

    source: int
    weight: int
    tokens: int
    inputs: int
    outputs: int
    experts: int = 1


@dataclass(frozen=True)
class Embedding:
    """A lookup by an input of the model in a table of ``rows`` rows."""

    table: int
    rows: int

    def splits(self, degree: int) -> bool:
        """Whether each device of a group holds a part of the rows."""
        return self.rows >= ROWS_PER_DEVICE * degree


@dataclass(frozen=True)
class GraphView:
    """A graph with what is derived from it once. Operators, tensors and parameters are numbered as in the graph."""

    graph: Graph

    @cached_property
    def backward(self) -> list[bool]:
        """Whether each operator runs in the backward pass."""
        return [op.phase == "backward" for op in self.graph.operators]

    @cached_property
    def forward(self) -> list[int]:
        """Forward operators, in order."""
        return [v for v, late in enumerate(self.backward) if not late]

    @cached_property
    def names(self) -> list[str]:
        """What each operator computes, without namespace and overload."""
        return [base_name(op) for op in self.graph.operators]

    @cached_property
    def inputs(self) -> list[list[int]]:
        """Tensors that each operator reads."""
        return self._by_operator(tensor.consumers for tensor in self.graph.tensors)

    @cached_property
    def outputs(self) -> list[list[int]]:
        """Tensors that each operator writes."""
        return self._by_operator(() if t.producer is None else (t.producer,) for t in self.graph.tensors)

    @cached_property
    def parameters(self) -> list[list[int]]:
        """Parameters that each operator reads."""
        return self._by_operator(parameter.users for parameter in self.graph.parameters)

    def _by_operator(self, operators: Iterable[Iterable[int]]) -> list[list[int]]:
        """From the operators of every place to the places of every operator."""
        result: list[list[int]] = [[] for _ in self.graph.operators]
        for place, held in enumerate(operators):
            for v in held:
                result[v].append(place)
        return result

    @cached_property
    def roots(self) -> list[int]:
        """The forward operator that each operator belongs to; itself for a forward operator."""
        roots = colocation_roots(self.graph)
        return [root if late else v for v, (root, late) in enumerate(zip(roots, self.backward, strict=True))]

    @cached_property
    def saved(self) -> dict[int, tuple[int, ...]]:
        """Tensors kept for the backward pass, with the backward operators that read them."""
        return saved_readers(self.graph)

    @cached_property
    def weight_gradients(self) -> frozenset[int]:
        """Gradients of parameters and their parts."""
        names = parameter_gradients(self.graph)
        whole = {place for place, tensor in enumerate(self.graph.tensors) if tensor.name in names}
        return partial_gradients(self.graph) | whole

    @cached_property
    def state(self) -> list[bool]:
        """Whether each forward operator depends on a weight, a product or a floating input of the model.

        The others make constants: masks, positions, rotation tables. Every stage makes them itself.
        """
        graph = self.graph
        result = [False] * len(graph.operators)

        def carries(tensor: Tensor) -> bool:
            return "float" in tensor.dtype if tensor.producer is None else result[tensor.producer]

        for v in self.forward:
            result[v] = (
                graph.operators[v].flops > 0
                or any(not graph.parameters[p].buffer for p in self.parameters[v])
                or any(carries(graph.tensors[place]) for place in self.inputs[v])
            )
        return result

    @cached_property
    def trained(self) -> frozenset[int]:
        """Forward tensors to which a gradient comes back."""
        graph = self.graph
        reached = {self.roots[v] for v in range(len(self.roots)) if self.backward[v]}
        found = set()
        # The gradient of a sum goes to its parts as it is: an addition has no backward operator of its own.
        for v in self.forward:
            if self.state[v] and (v in reached or any(place in found for place in self.inputs[v])):
                reached.add(v)
                found |= {place for place in self.outputs[v] if "float" in graph.tensors[place].dtype}
        return frozenset(found)

    @cached_property
    def linears(self) -> dict[int, Linear]:
        """Forward products of a tensor with one weight, by operator."""
        found = {v: self._linear(v) for v in self.forward if self.graph.operators[v].flops}
        return {v: linear for v, linear in found.items() if linear is not None}

    @cached_property
    def embeddings(self) -> dict[int, Embedding]:
        """Forward lookups by what the user puts in, by operator."""
        result: dict[int, Embedding] = {}
        for v in self.forward:
            if self.names[v] in EMBEDDINGS:
                tables = [p for p in self.parameters[v] if len(self.graph.parameters[p].shape) == 2]
                if tables and any(map(self.fed, self.inputs[v])):
                    result[v] = Embedding(tables[0], self.graph.parameters[tables[0]].shape[0])
        return result

    def priced_as(self, graph: Graph) -> GraphView:
        """The same structure with other sizes: what is derived from shapes and arithmetic stays as it is here."""
        derived = {
            name: getattr(self, name) for name, value in vars(GraphView).items() if isinstance(value, cached_property)
        }
        view = GraphView(graph)
        vars(view).update(derived)
        return view

    def readers(self, place: int) -> list[int]:
        """Forward operators that read a tensor."""
        return [v for v in self.graph.tensors[place].consumers if not self.backward[v]]

    def maker(self, place: int) -> int | None:
        """The operator that makes a tensor; None for an input of the model."""
        return self.graph.tensors[place].producer

    def fed(self, place: int) -> bool:
        """Whether a tensor depends on the model's inputs, not on weights alone."""
        pending, seen = [place], {place}
        while pending:
            maker = self.maker(pending.pop())
            if maker is None:
                return True
            pending += set(self.inputs[maker]) - seen
            seen |= set(self.inputs[maker])
        return False

    def reach(self, start: Iterable[int], inside: Iterable[int], *, back: bool = False) -> set[int]:
        """Of some operators those that others lead to, or with ``back`` come from; not these themselves, unless so."""
        allowed, pending, found = set(inside), list(start), set[int]()
        while pending:
            v = pending.pop()
            if back:
                reached = {w for place in self.inputs[v] if (w := self.maker(place)) is not None}
            else:
                reached = {w for place in self.outputs[v] for w in self.readers(place)}
            pending += (reached & allowed) - found
            found |= reached & allowed
        return found

    def size(self, place: int) -> int:
        """Elements of a tensor."""
        return numel(self.graph.tensors[place])

    def most_written(self, v: int) -> int:
        """Elements of the largest tensor that an operator writes."""
        return max((self.size(place) for place in self.outputs[v]), default=0)

    def scales(self, v: int, width: int) -> bool:
        """Whether every parameter that an operator reads has one number for each of so many features."""
        return all(numel(self.graph.parameters[p]) == width for p in self.parameters[v])

    def _linear(self, v: int) -> Linear | None:
        weights = [p for p in self.parameters[v] if len(self.graph.parameters[p].shape) in (2, 3)]
        if len(weights) != 1:
            return None
        shape = self.graph.parameters[weights[0]].shape
        experts = shape[0] if len(shape) == 3 else 1
        first, second = shape[-2:]
        tokens, rest = divmod(self.graph.operators[v].flops, 2 * first * second)
        if rest or not tokens:
            return None
        written = self.most_written(v)
        for place in sorted(self.inputs[v], key=lambda place: -self.size(place)):
            size = self.size(place)
            for inputs, outputs in ((first, second), (second, first)):
                if size == tokens * inputs and 0 < written <= tokens * outputs:
                    if first != second and size == tokens * outputs and written > tokens * inputs:
                        continue
                    return Linear(place, weights[0], tokens, inputs, outputs, experts)
        return None
