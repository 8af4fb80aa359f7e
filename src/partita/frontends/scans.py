"""Keep recurrences and scans whole: functions that go through a sequence step by step, or for which there is a kernel.

Libraries write a scan as a loop in Python, for machines without their kernels. A device runs one kernel, which reads
its inputs once and keeps the state on the chip. A loop that somebody wrote for want of a kernel is one operator, too,
but with the launches and the traffic of all its steps. Taken are functions of a model's own files, and methods of its
modules, that

- name the kernel that replaces them (as transformers' decorators do), or
- have a loop over a range and dispatch many operators,

as long as they are handed floating arrays and plain values, return new floating arrays, and change nothing. What they
cost is found by a trial; see :mod:`partita.frontends.whole`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any

import torch

from partita.frontends.capture import Recorder
from partita.frontends.options import passed_over
from partita.frontends.stepping import whole_steps
from partita.frontends.whole import Trial, Unfit, key_of, run_whole, try_out
from partita.inside.replacing import replaced
from partita.inside.torch_inside import tree_flatten, tree_unflatten
from partita.inside.transformers_inside import kernel_of

#: Operators from which a loop is taken for a scan.
LONG = 64

#: Parts of the names of functions for which devices have a kernel, whether or not their library says so.
_KERNELS = (
    "selective_scan",
    "chunk_scan",
    "delta_rule",
    "delta_attention",
    "linear_attention",
    "mlstm",
    "rnn_scan",
    "wkv",
)

_NOTE = (
    "{} is taken as one kernel for the whole sequence, which reads its inputs once and keeps its state on the chip; "
    "the products counted are those of the code that it stands for."
)
_STEPS_NOTE = "{} is one operator with the work of all its steps, which are launched one by one."


class Scans:
    """Replaces functions while a trace runs, and remembers their trials."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._trials: dict[Any, Trial | None] = {}
        self._trying = False

    def replaced(self, function: Callable[..., Any], method: bool) -> Callable[..., Any]:
        """What stands for a function or method."""
        kernel = kernel_of(function)
        name = kernel or function.__name__.strip("_")
        fused = kernel is not None or any(part in name for part in _KERNELS)

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if self._trying or self.recorder.paused:
                return function(*args, **kwargs)
            owner = args[0] if method else None
            given = args[1:] if method else args
            leaves, spec = tree_flatten((given, kwargs))
            inputs = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
            if not any(tensor.is_floating_point() for tensor in inputs):
                return function(*args, **kwargs)
            trial = self._trial(function, owner, leaves, spec)
            if trial is None or (kernel is None and trial.calls < LONG):
                return function(*args, **kwargs)
            note = (_NOTE if fused else _STEPS_NOTE).format(name)
            refusal = f"{name} is planned, but reads more than it is handed and cannot be run"
            return run_whole(
                self.recorder, name, trial, inputs, function, args, kwargs, fused=fused, note=note, refusal=refusal
            )

        return call

    def _trial(self, function: Callable[..., Any], owner: Any, leaves: list[Any], spec: Any) -> Trial | None:
        """What a function does with such arguments; None if it cannot be one call."""
        try:
            key = (function, _settings(owner), spec, key_of(leaves))
        except Unfit:
            return None
        found = self._trials.get(key)
        if key in self._trials and (found is None or not found.captured):
            return found
        try:
            trial: Trial | None = self._try(function, owner, leaves, spec)
        except Exception as error:
            # A model's own code; what fails here fails in the open where it is run for the trace.
            passed_over(f"a trial of {function.__name__}", error)
            trial = None
        self._trials[key] = trial
        return trial

    def _try(self, function: Callable[..., Any], owner: Any, leaves: list[Any], spec: Any) -> Trial:
        def run(copies: list[Any]) -> Any:
            rest = iter(copies)
            given, kwargs = tree_unflatten(
                [next(rest) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves], spec
            )
            return function(*given, **kwargs) if owner is None else function(owner, *given, **kwargs)

        before = {} if owner is None else dict(vars(owner))
        self._trying = True
        try:
            inputs = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
            return try_out(self.recorder, run, inputs)
        finally:
            self._trying = False
            now = {} if owner is None else vars(owner)
            if now.keys() != before.keys() or any(now[name] is not value for name, value in before.items()):
                now.clear()
                now.update(before)
                raise Unfit("it changes its module")


def _settings(owner: Any) -> tuple[Any, ...]:
    """What a method may decide by: the module's plain attributes, and which of its arrays it may read."""
    if owner is None:
        return ()
    plain = tuple((k, v) for k, v in vars(owner).items() if isinstance(v, (bool, int, float, str, type(None))))
    return (id(type(owner)), plain)


def _is_taken(function: Any) -> bool:
    """Whether something is a function of a model's own that stands for a kernel, or whose code goes over a range."""
    if not isinstance(function, FunctionType) or function.__module__.partition(".")[0] == "torch":
        return False
    code = getattr(inspect.unwrap(function), "__code__", None)
    loops = code is not None and "range" in code.co_names
    return not inspect.isgeneratorfunction(function) and (kernel_of(function) is not None or loops)


@contextmanager
def whole_scans(module: Any, recorder: Recorder) -> Iterator[None]:
    """Within, the scans of a module's classes and of the files that define them are one call each."""
    scans = Scans(recorder)
    bases = {cls for child in module.modules() for cls in type(child).__mro__ if issubclass(cls, torch.nn.Module)}
    classes = {cls for cls in bases if cls.__module__.partition(".")[0] != "torch"}
    spaces = _spaces(classes)
    functions = ((space, key, value) for space in spaces for key, value in space.items())
    methods = ((cls, key, value) for cls in classes for key, value in vars(cls).items())
    changes: list[tuple[Any, str, Any]] = [
        (space, key, scans.replaced(value, False)) for space, key, value in functions if _is_taken(value)
    ]
    changes += [
        (cls, key, scans.replaced(value, True))
        for cls, key, value in methods
        if key != "forward" and not key.startswith("__") and _is_taken(value)
    ]
    with whole_steps(spaces, recorder), replaced(*changes):
        yield


def _spaces(classes: set[type]) -> list[dict[str, Any]]:
    """The names that the methods of some classes see: those of the files that define them."""
    found: dict[int, dict[str, Any]] = {}
    for cls in classes:
        for value in vars(cls).values():
            inner = inspect.unwrap(value) if isinstance(value, FunctionType) else None
            if isinstance(inner, FunctionType) and inner.__module__ == cls.__module__:
                found[id(inner.__globals__)] = inner.__globals__
    return list(found.values())
