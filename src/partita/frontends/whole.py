"""Write a function that a device runs as one kernel down as one call, forward and backward.

What it costs is found by a *trial*: the function is run on stand-ins beside the trace, its products are counted and
everything else is forgotten. So its arithmetic is that of its own code, product by product, while of memory it touches
only what it is handed and what it returns. Trials of equal arguments are made once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch.nn.modules.module import register_module_forward_pre_hook

from partita.frontends.capture import Recorder
from partita.frontends.flops import count_flops
from partita.frontends.fused import FusedKernel, run_kernel
from partita.frontends.surroundings import OnePlace
from partita.frontends.values import tensors_in
from partita.inside.torch_inside import (
    DispatchMode,
    FakeTensor,
    TreeSpec,
    storage_id,
    tree_flatten,
    tree_unflatten,
    without_function_modes,
    without_modes,
    written_arguments,
)

_META = torch.device("meta")

#: What a function may be handed beside tensors.
_PLAIN = (bool, int, float, str, torch.dtype, torch.device)


class Unfit(Exception):
    """The function cannot be one call: it changes its arguments, draws random numbers or runs layers."""


class _Captures(Exception):
    """The function reads stand-ins of the trace that it was not handed."""


class TensorForm(NamedTuple):
    """How a tensor lies in memory."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: Any

    def empty(self, device: str = "cpu") -> Any:
        """A new tensor of this form."""
        return torch.empty_strided(self.shape, self.stride, dtype=self.dtype, device=device)


@dataclass(slots=True, eq=False)
class Trial:
    """What a function does with arguments of some forms; its costs are those of a :class:`FusedKernel`."""

    outputs: list[TensorForm | None]
    """Forms of the tensors that it returns, None in the place of what is no tensor."""
    spec: TreeSpec
    """How they are nested."""
    calls: int
    """Number of operators that it dispatches."""
    flops: int
    captured: list[Any]
    """Tensors that it reads without being handed them, such as a module's weights."""
    steps: tuple[int, int, int]
    backward_flops: int = 0
    backward_steps: tuple[int, int, int] = (0, 0, 0)
    reached: tuple[bool, ...] = ()


def form_of(tensor: Any) -> TensorForm:
    """The form of a tensor."""
    return TensorForm(tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype)


def key_of(leaves: list[Any]) -> tuple[Any, ...]:
    """What trials of arguments depend on; ``Unfit`` if they are not plain."""
    found: list[Any] = []
    for leaf in leaves:
        if isinstance(leaf, torch.Tensor):
            found.append((form_of(leaf), leaf.requires_grad))
        elif leaf is None or isinstance(leaf, _PLAIN):
            found.append((type(leaf), leaf))
        else:
            raise Unfit(f"an argument is a {type(leaf).__name__}")
    return (*found, torch.is_grad_enabled(), torch.is_autocast_enabled("cpu"))


def try_out(recorder: Recorder, function: Callable[[list[Any]], Any], inputs: list[Any]) -> Trial:
    """Run a function beside the trace, on stand-ins of the tensors that it is handed.

    Stand-ins on the meta device are several times faster than fake ones, but cannot be mixed with those of the trace,
    and know no mixed precision.
    """
    if not torch.is_autocast_enabled("cpu"):
        try:
            with _beside(nullcontext()):
                return _try(function, inputs, "meta")
        except _Captures:
            pass
    with _beside(recorder.fake):
        return _try(function, inputs, "cpu")


def _try(function: Callable[[list[Any]], Any], inputs: list[Any], device: str) -> Trial:
    counter = _Counter(device)
    copies = [form_of(tensor).empty(device).requires_grad_(tensor.requires_grad) for tensor in inputs]
    counter.know(copies)
    with counter:
        result = function(copies)
    leaves, spec = tree_flatten(result)
    made = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    given = {storage_id(tensor) for tensor in (*copies, *counter.captured)}
    if not made or any(storage_id(t) in given or not t.is_floating_point() for t in made):
        raise Unfit("its results are not new floating arrays")
    if any(not isinstance(leaf, (torch.Tensor, type(None))) for leaf in leaves):
        raise Unfit("it returns more than arrays")
    forms = [form_of(leaf) if isinstance(leaf, torch.Tensor) else None for leaf in leaves]
    trial = Trial(forms, spec, counter.calls, counter.flops, counter.captured, counter.steps)
    read = [*copies, *counter.captured]
    trial.reached = (False,) * len(read)
    roots = [tensor for tensor in made if tensor.requires_grad]
    if roots and torch.is_grad_enabled():
        counter.flops, counter.steps = 0, (0, 0, 0)
        with counter:
            starts = [torch.ones_like(tensor) for tensor in roots]
            wanted = [tensor for tensor in read if tensor.requires_grad]
            gradients = iter(torch.autograd.grad(roots, wanted, starts, allow_unused=True))
        trial.backward_flops, trial.backward_steps = counter.flops, counter.steps
        trial.reached = tuple(tensor.requires_grad and next(gradients) is not None for tensor in read)
    return trial


@contextmanager
def _beside(place: Any) -> Iterator[None]:
    """Within, nothing is written down, and tensors are of one place."""

    def enter(child: Any, _: Any) -> None:
        if next(child.parameters(), None) is not None:
            raise Unfit(f"it runs a {type(child).__name__}")

    hooked = register_module_forward_pre_hook(enter)
    with hooked, without_function_modes(), without_modes(), place, OnePlace():
        yield


class _Counter(DispatchMode):
    """Counts calls and their products, and finds tensors that come from elsewhere."""

    def __init__(self, device: str) -> None:
        super().__init__()
        self.device = device
        self.calls = 0
        self.flops = 0
        self.steps = (0, 0, 0)
        self.captured: list[Any] = []
        self._known: dict[int, Any] = {}
        self._foreign: set[int] = set()
        self._changed: dict[Any, tuple[int, ...]] = {}

    def know(self, tensors: list[Any]) -> None:
        """Say which tensors the function is handed."""
        for tensor in tensors:
            self._known[storage_id(tensor)] = tensor.untyped_storage()
            self._foreign.add(storage_id(tensor))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func.namespace == "prim":
            # Where a tensor is: nothing may be raised here.
            return func(*args, **kwargs)
        if func not in self._changed:
            if torch.Tag.nondeterministic_seeded in func.tags:
                raise Unfit("it draws random numbers")
            self._changed[func] = tuple(place for place, _ in written_arguments(func))
        for place in self._changed[func]:
            for tensor in tensors_in(args[place : place + 1]):
                if storage_id(tensor) in self._foreign:
                    raise Unfit("it changes its arguments")
        for tensor in tensors_in((args, kwargs)):
            if storage_id(tensor) not in self._known:
                if self.device == "meta" and isinstance(tensor, FakeTensor):
                    raise _Captures
                self.captured.append(tensor)
                self.know([tensor])
        if self.device == "meta" and kwargs.get("device") is not None:
            kwargs = {**kwargs, "device": _META}
        out = func(*args, **kwargs)
        self.calls += 1
        self.flops += count_flops(func, args, kwargs, out)
        written = 0
        for tensor in tensors_in(out):
            if storage_id(tensor) not in self._known or self._changed[func]:
                written += tensor.numel() * tensor.element_size()
            self._known[storage_id(tensor)] = tensor.untyped_storage()
        if written:
            launches, before, after = self.steps
            read = sum(tensor.numel() * tensor.element_size() for tensor in tensors_in((args, kwargs)))
            self.steps = launches + 1, before + read, after + written
        return out


def run_whole(
    recorder: Recorder,
    name: str,
    trial: Trial,
    function: Callable[..., Any],
    args: Any,
    kwargs: Any,
    repeats: int = 1,
    *,
    fused: bool,
    note: str,
    refusal: str,
) -> Any:
    """Write a function down as one call, and return stand-ins of its result.

    It is handed the tensors among ``args`` and ``kwargs``, with which it is called on real tensors, too; where it
    captures any others, that is refused. What is run ``repeats`` times is counted so many times. One that is not
    ``fused`` launches its operators one by one, and each has its own traffic.
    """

    def times(steps: tuple[int, int, int]) -> tuple[int, int, int] | None:
        launches, read, written = steps
        return None if fused else (repeats * launches, repeats * read, repeats * written)

    inputs = tensors_in(tree_flatten((args, kwargs))[0])
    kernel = FusedKernel(
        f"partita.{name}",
        lambda *_: [form.empty() for form in trial.outputs if form is not None],
        sum(form is not None for form in trial.outputs),
        repeats * trial.flops,
        lambda _: repeats * trial.backward_flops,
        saves=False,
        reached=trial.reached,
        steps=times(trial.steps),
        backward_steps=times(trial.backward_steps),
    )
    made = iter(run_kernel(recorder, kernel, *inputs, *trial.captured))
    result = tree_unflatten([None if form is None else next(made) for form in trial.outputs], trial.spec)
    recorder.capture.note(note)
    if recorder.tape is not None and not recorder.backward and trial.captured:
        raise NotImplementedError(refusal)
    recorder.again(lambda *args, **kwargs: _flat(function(*args, **kwargs)), args, kwargs, _flat(result))
    return result


def _flat(result: Any) -> Any:
    """A result as one tensor, or as a list of what is nested in it."""
    return result if isinstance(result, torch.Tensor) else tree_flatten(result)[0]
