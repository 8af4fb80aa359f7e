"""A graph as its menus read it: what operators read and write, its products with weights, what carries its state."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from partita.costs.gradients import parameter_gradients, partial_gradients
from partita.costs.menus.targets import EMBEDDINGS, base_name
from partita.costs.workspace import colocation_roots, saved_readers
from partita.nouns.graph import Graph, Parameter, Tensor

#: Vocabularies are padded to a multiple of this for each device; tables with fewer rows are not split.
ROWS_PER_DEVICE = 128


def numel(array: Tensor | Parameter) -> int:
    """Elements of a tensor or parameter."""
    return math.prod(array.shape)


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
                if tables and self._from_input(v):
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

    def _from_input(self, v: int) -> bool:
        pending, seen = [v], {v}
        while pending:
            for place in self.inputs[pending.pop()]:
                producer = self.maker(place)
                if producer is None:
                    return True
                if producer not in seen:
                    seen.add(producer)
                    pending.append(producer)
        return False
