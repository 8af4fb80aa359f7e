"""A module with its arguments, made from what names it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import msgspec

from partita.frontends.fill import unread, what_ran
from partita.frontends.options import CACHED, Asked
from partita.frontends.torch import trace
from partita.ground.errors import TraceError
from partita.nouns.graph import Graph


@dataclass(frozen=True)
class BuiltModel:
    """A ``torch.nn.Module`` with example arguments of one microbatch, made from what names it."""

    name: str
    """The title of its graph."""
    module: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    asked: Asked
    """What it was made for."""
    dtype: str | None = None
    """Number format that floating arrays are to be traced in; None for what each has."""
    notes: tuple[str, ...] = ()
    """What a reader should know about how it was made."""
    graph: Graph | None = None
    """Its graph without these notes, if making the model has traced it."""

    def trace(self) -> Graph:
        """Its graph; the module runs for it unless it has."""
        graph = self.graph or self.traced().graph
        assert graph is not None
        return graph.replace(notes=(*graph.notes, *self.notes))

    def traced(self) -> BuiltModel:
        """This model with its graph."""
        training = self.asked.training
        try:
            graph = trace(self.module, self.args, self.kwargs, training=training, name=self.name, dtype=self.dtype)
        except TraceError as error:
            if str(error).startswith("cannot trace"):
                error.inputs = what_ran(str(error), self.module, self.args, self.kwargs)
            raise
        if self.asked.decode is not None:
            marked = (
                msgspec.structs.replace(p, cache=True) if p.buffer and p.name.rpartition(".")[2] in CACHED else p
                for p in graph.parameters
            )
            graph = graph.replace(parameters=tuple(marked))
        unused = unread(self.asked.inputs, self.module, self.args, graph)
        return replace(self, graph=graph.replace(notes=(*graph.notes, *unused)))

    def noted(self, note: str) -> BuiltModel:
        """This model with another note."""
        return replace(self, notes=(*self.notes, note))
