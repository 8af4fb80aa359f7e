"""A graph as its menus read it: what every operator reads and writes, and which parts carry a model's state."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from partita.costs.gradients import parameter_gradients, partial_gradients
from partita.costs.menus.targets import base_name
from partita.costs.workspace import colocation_roots, saved_readers
from partita.graph import Graph, Tensor


def numel(tensor: Tensor) -> int:
    """Elements of a tensor."""
    return math.prod(tensor.shape)


@dataclass(frozen=True)
class GraphView:
    """A graph with what is derived from it once.

    Attributes
    ----------
    graph
        The graph.
    """

    graph: Graph

    @cached_property
    def backward(self) -> list[bool]:
        """Whether each operator runs in the backward pass."""
        return [op.phase == "backward" for op in self.graph.operators]

    @cached_property
    def names(self) -> list[str]:
        """What each operator computes, without namespace and overload."""
        return [base_name(op) for op in self.graph.operators]

    @cached_property
    def inputs(self) -> list[list[int]]:
        """Places of the tensors that each operator reads."""
        return self._by_operator(tensor.consumers for tensor in self.graph.tensors)

    @cached_property
    def outputs(self) -> list[list[int]]:
        """Places of the tensors that each operator writes."""
        return self._by_operator(() if t.producer is None else (t.producer,) for t in self.graph.tensors)

    @cached_property
    def parameters(self) -> list[list[int]]:
        """Places of the parameters that each operator reads."""
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
        return [root if late else v for v, (root, late) in enumerate(zip(self._roots, self.backward, strict=True))]

    @cached_property
    def _roots(self) -> list[int]:
        return colocation_roots(self.graph)

    @cached_property
    def saved(self) -> dict[int, tuple[int, ...]]:
        """Tensors kept for the backward pass, with the backward operators that read them."""
        return saved_readers(self.graph)

    @cached_property
    def weight_gradients(self) -> frozenset[int]:
        """Places of gradients of parameters and of their parts."""
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
        for v, op in enumerate(graph.operators):
            if self.backward[v]:
                continue
            result[v] = (
                op.flops > 0
                or any(not graph.parameters[p].buffer for p in self.parameters[v])
                or any(self._is_state(graph.tensors[place], result) for place in self.inputs[v])
            )
        return result

    @staticmethod
    def _is_state(tensor: Tensor, state: list[bool]) -> bool:
        if tensor.producer is None:
            return "float" in tensor.dtype
        return state[tensor.producer]

    @cached_property
    def trained(self) -> frozenset[int]:
        """Places of forward tensors to which a gradient comes back."""
        graph = self.graph
        reached = {self.roots[v] for v in range(len(self.roots)) if self.backward[v]}
        found = set()
        # The gradient of a sum goes to its parts as it is: an addition has no backward operator of its own.
        for v in range(len(self.roots)):
            if self.backward[v] or not self.state[v]:
                continue
            if v in reached or any(place in found for place in self.inputs[v]):
                reached.add(v)
                found |= {place for place in self.outputs[v] if "float" in graph.tensors[place].dtype}
        return frozenset(found)

    def readers(self, place: int) -> list[int]:
        """Forward operators that read a tensor."""
        return [v for v in self.graph.tensors[place].consumers if not self.backward[v]]
