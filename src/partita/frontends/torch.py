"""PyTorch frontend: a module and example arguments in, a Graph out.

Importing this file imports nothing heavy; torch is loaded by the first call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import msgspec

from partita.frontends.assemble import assemble
from partita.frontends.fill import unread, what_ran
from partita.frontends.flops import with_expected_experts
from partita.frontends.options import CACHED, Adapters, Asked, one_line, parse_dtype
from partita.ground.errors import InputError, PartitaError, TraceError, require
from partita.inside.torchvision_inside import declare_where_missing
from partita.nouns.graph import Graph

if TYPE_CHECKING:
    from partita.frontends.records import Capture
    from partita.frontends.tape import Tape


def trace(
    module: Callable[..., object],
    args: Sequence[object],
    kwargs: Mapping[str, object] | None = None,
    training: bool = False,
    name: str | None = None,
    dtype: str | None = None,
    lora: int | None = None,
    lora_targets: Sequence[str] = (),
) -> Graph:
    """Trace a PyTorch module into a graph, without its weights' data and without changing it.

    The module is run once on fake tensors with the shapes of ``args`` and ``kwargs``, so a module built under
    ``torch.device("meta")`` of any size will do. In training the graph goes on with the backward: of the output if it
    is a scalar, of its ``loss`` if it has one, otherwise of the sum of the means of its floating outputs (and a note
    says so). Attention and dropout are kept whole, as GPUs run them; attention's backward is counted as four products.
    Key-value caches of transformers models are off, and devices that the code names are ignored.

    Parameters
    ----------
    module
        A ``torch.nn.Module``. Inference runs it in evaluation mode; training in training mode, or in the mode it is in
        if that is already training.
    args, kwargs
        Example arguments of one microbatch. Of tensors only shapes and types matter, but for small ones that code
        reads: their values then decide what runs, and a note names them.
    training
        Whether to trace forward and backward.
    name
        The graph's name; the module's class name by default.
    dtype
        Number format to trace floating weights, buffers and arguments in, for example ``bfloat16``; by default each in
        its own.
    lora
        In training, of low-rank adapters of this rank on linear layers, with all other weights frozen.
    lora_targets
        Ends of the names of the linear layers that have adapters, such as ``q_proj``; all but the output head unless
        stated.

    Returns
    -------
    Graph
        Operators in execution order, forward then backward. The gradient of parameter ``w`` is the tensor ``grad:w``.

    Raises
    ------
    MissingExtraError
        If torch is not installed.
    InputError
        If ``module`` is not a module, ``args`` not a sequence, ``dtype`` unknown, or adapters are asked for that cannot
        be.
    TraceError
        If the module cannot be run, its control flow depends on data, or a used parameter gets no gradient.
    """
    adapters = Adapters.of(lora, lora_targets, training=training)
    if adapters is None:
        return trace_calls(module, args, kwargs, training, name, dtype)[0]
    require("torch", "torch")
    from partita.frontends.adapters import adapted

    with adapted(module, adapters) as notes:
        graph = trace_calls(module, args, kwargs, training, name, dtype)[0]
    return graph.replace(notes=(*graph.notes, *notes))


def trace_calls(
    module: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    training: bool = False,
    name: str | None = None,
    dtype: str | None = None,
    tape: Tape | None = None,
    *,
    keep_events: bool = False,
) -> tuple[Graph, Capture, list[int | None]]:
    """As ``trace``, with what was captured, and of every operator the number of its call there (None for a slice).

    On a ``tape`` the forward calls can be made again; with ``keep_events`` the capture has all that was dispatched.
    """
    require("torch", "torch")
    import torch

    from partita.frontends.run import run_module
    from partita.inside.torch_inside import uncompiled

    declare_where_missing()
    if not isinstance(module, torch.nn.Module):
        raise InputError(f"trace needs a torch.nn.Module, not {type(module).__name__}")
    if isinstance(args, torch.Tensor) or not isinstance(args, Sequence) or isinstance(args, str):
        raise InputError(f"args must be a tuple of arguments, not {type(args).__name__}; write (x,) for one")
    # A compiled module wraps the one that was given to torch.compile.
    given, module = module, uncompiled(module)
    number_format = None if dtype is None else parse_dtype(dtype)
    title = name or type(module).__name__
    try:
        capture = run_module(module, args, kwargs or {}, training, number_format, tape, keep_events=keep_events)
        graph, calls = assemble(capture, title, training, tape)
    except PartitaError:
        raise
    except Exception as error:  # what a model holds may be anything
        raise TraceError(f"cannot trace the root module ({type(module).__name__}): {one_line(error)}") from error
    graph = with_expected_experts(graph)
    return (graph.replace(compiled=True) if module is not given else graph), capture, calls


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
