"""Keep recurrences and scans whole: functions that go through a sequence step by step, or for which there is a kernel.

Libraries write a scan as a loop in Python, for machines without their kernels. A device runs one kernel, which reads
its inputs once and keeps the state on the chip. A loop that somebody wrote for want of a kernel is one operator, too,
but with the launches and the traffic of all its steps. Taken are functions of a model's own files, and methods of its
modules, that

- name the kernel that replaces them (as transformers' decorators do), or
- have a loop over a range and dispatch many operators,

as long as they are handed floating arrays and plain values, return new floating arrays, and change nothing. What they
cost is found by a trial; see :mod:`partita.frontends.whole`. Loops that programs hand to torch as such (``scan``,
``associative_scan``, ``while_loop``) are kept whole, too.
"""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from types import FunctionType
from typing import Any

import torch

from partita.frontends.capture import Recorder
from partita.frontends.options import passed_over
from partita.frontends.whole import TensorForm, Trial, Unfit, form_of, key_of, run_whole, try_out
from partita.ground.errors import TraceError
from partita.inside.replacing import replaced
from partita.inside.torch_inside import DataDependentOutputException, homes_of, tree_flatten, tree_map, tree_unflatten
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
_WHILE_NOTE = (
    "A while_loop's number of steps depends on data: its body is counted once, and each step more costs as much."
)
_MOST_STEPS = 2**16
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
                self.recorder, name, trial, function, args, kwargs, fused=fused, note=note, refusal=refusal
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
    # The names that the methods see: those of the files that define them.
    defined = [(cls, inspect.unwrap(f)) for cls in classes for f in vars(cls).values() if isinstance(f, FunctionType)]
    own = [f for cls, f in defined if isinstance(f, FunctionType) and f.__module__ == cls.__module__]
    spaces = list({id(f.__globals__): f.__globals__ for f in own}.values())
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
    with _whole_steps(spaces, recorder), replaced(*changes):
        yield


# -- torch's own loops -------------------------------------------------------------------------------------------------


class _Stepping:
    """What stands for torch's loops: scans are one call with the arithmetic of one step times the number of steps."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder

    def scan(self, combine_fn: Callable[..., Any], init: Any, xs: Any, *, dim: int = 0, reverse: bool = False) -> Any:
        """The last carry, and the results of all steps put together along ``dim``."""
        rows, row_spec = tree_flatten(xs)
        if not rows:
            return init, []
        states, spec = tree_flatten(init)

        def step(copies: list[Any]) -> Any:
            carry, given = copies[: len(states)], copies[len(states) :]
            return combine_fn(tree_unflatten(carry, spec), tree_unflatten(given, row_spec))

        def plain(*leaves: Any) -> tuple[Any, Any]:
            carry, made = tree_unflatten(list(leaves[: len(states)]), spec), []
            for row in _row_by_row(leaves[len(states) :], dim, reverse):
                carry, result = combine_fn(carry, tree_unflatten(row, row_spec))
                made.append(result)
            return carry, _together(made, dim, reverse)

        grad = torch.is_grad_enabled()
        with self.recorder.aside():
            # What is carried depends on the weights after the first step, if not before.
            carried = [torch.empty_like(s, requires_grad=grad and s.is_floating_point()) for s in states]
        return self._whole("scan", step, plain, states, rows, [*carried, *self._each(rows, dim)], dim)

    def associative_scan(
        self,
        combine_fn: Callable[..., Any],
        xs: Any,
        dim: int,
        reverse: bool = False,
        combine_mode: str = "pointwise",
    ) -> Any:
        """What the steps so far come to, for every step."""
        rows, spec = tree_flatten(xs)

        def step(copies: list[Any]) -> Any:
            half = len(copies) // 2
            return combine_fn(tree_unflatten(copies[:half], spec), tree_unflatten(copies[half:], spec))

        def plain(*leaves: Any) -> Any:
            each = (tree_unflatten(row, spec) for row in _row_by_row(leaves, dim, reverse))
            return _together(list(itertools.accumulate(each, combine_fn)), dim, reverse)

        return self._whole("associative_scan", step, plain, [], rows, self._each(rows, dim) * 2, dim)

    def while_loop(self, cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: Any) -> Any:
        """What is carried after the last step that the example needs; after one where its condition is not known."""
        carried = tuple(carried_inputs)
        for step in range(_MOST_STEPS):
            try:
                goes_on = bool(cond_fn(*carried))
            except DataDependentOutputException:
                self.recorder.capture.note(_WHILE_NOTE)
                return carried if step else _tuple(body_fn(*carried))
            if not goes_on:
                return carried
            carried = _tuple(body_fn(*carried))
        raise TraceError(
            f"a while_loop does not end in {_MOST_STEPS} steps; trace the model with inputs for which it does"
        )

    def _each(self, rows: list[Any], dim: int) -> list[Any]:
        """One step's part of some arrays, of which only the form counts."""
        with self.recorder.aside(), torch.no_grad():
            return [row.select(dim, 0).clone().requires_grad_(row.requires_grad) for row in rows]

    def _whole(
        self,
        name: str,
        step: Callable[[list[Any]], Any],
        plain: Callable[..., Any],
        states: list[Any],
        rows: list[Any],
        tried: list[Any],
        dim: int,
    ) -> Any:
        """One call for all steps, whose costs are those of a trial of one."""
        steps, fused, inputs = int(rows[0].shape[dim]), name == "associative_scan", [*states, *rows]
        try:
            trial = try_out(self.recorder, step, tried)
            # What is carried is as it was, the rest has a side for the steps.
            forms = [
                form if place < len(states) or form is None else _stacked(form, steps, dim)
                for place, form in enumerate(trial.outputs)
            ]
            half, reached = len(rows), trial.reached
            if fused:
                both = zip(reached[:half], reached[half : 2 * half], strict=True)
                reached = (*(a or b for a, b in both), *reached[2 * half :])
            trial = replace(trial, outputs=forms, reached=reached)
        except Exception as error:
            # A model's own code. Its steps are followed one by one, and what is wrong with them is said where they are.
            passed_over(f"a trial of {name}", error)
            return plain(*inputs)
        how = "in one kernel" if fused else "whose steps are launched one by one"
        return run_whole(
            self.recorder,
            name,
            trial,
            plain,
            tuple(inputs),
            {},
            steps - fused,
            fused=fused,
            note=f"{name} is one operator, {how}.",
            refusal=f"a {name} that reads more than it is handed is planned, but cannot be run",
        )


def _tuple(values: Any) -> tuple[Any, ...]:
    return tuple(values) if isinstance(values, (tuple, list)) else (values,)


def _stacked(form: TensorForm, steps: int, dim: int) -> TensorForm:
    place = min(dim if dim >= 0 else len(form.shape) + 1 + dim, len(form.shape))
    shape = (*form.shape[:place], steps, *form.shape[place:])
    return form_of(torch.empty(shape, dtype=form.dtype, device="meta"))


def _row_by_row(rows: Sequence[Any], dim: int, reverse: bool) -> Iterator[list[Any]]:
    steps = range(rows[0].shape[dim])
    for step in steps[::-1] if reverse else steps:
        yield [row.select(dim, step) for row in rows]


def _together(made: list[Any], dim: int, reverse: bool) -> Any:
    in_order = reversed(made) if reverse else made
    return tree_map(lambda *parts: torch.stack(parts, min(dim, parts[0].dim())), *in_order)


def _whole_steps(spaces: list[dict[str, Any]], recorder: Recorder) -> AbstractContextManager[None]:
    """Within, torch's loops are one call each, whatever they are called in ``spaces``."""
    stepping = _Stepping(recorder)
    return replaced(
        *(
            (space, key, getattr(stepping, name))
            for name in ("scan", "associative_scan", "while_loop")
            for original, homes in [homes_of(name)]
            for space in (*homes, *spaces)
            for key, value in list(space.items())
            if value is original and original is not None
        )
    )
