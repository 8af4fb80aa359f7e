"""Loops that programs hand to torch as such: ``scan``, ``associative_scan`` and ``while_loop``.

The first two are one call each, with the arithmetic of one step times the number of steps. The steps of the third are
followed where its condition is known from the example, and folded as any loop is; otherwise its body runs once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import torch

from partita.frontends.capture import Recorder
from partita.frontends.options import passed_over
from partita.frontends.whole import TensorForm, Trial, form_of, run_whole, try_out
from partita.ground.errors import TraceError
from partita.inside.replacing import replaced
from partita.inside.torch_inside import DataDependentOutputException, homes_of, tree_flatten, tree_map, tree_unflatten

WHILE_NOTE = (
    "A while_loop's number of steps depends on data: its body is counted once, and each step more costs as much."
)
_MOST_STEPS = 2**16
_MODULES = ("scan", "associative_scan", "while_loop")


class Stepping:
    """What stands for torch's loops while a trace runs."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder

    def scan(self, combine_fn: Callable[..., Any], init: Any, xs: Any, *, dim: int = 0, reverse: bool = False) -> Any:
        """The last carry, and the results of all steps put together along ``dim``."""
        rows, row_spec = tree_flatten(xs)
        if not rows:
            return init, []
        states, spec = tree_flatten(init)
        plain = functools.partial(_scan, combine_fn, spec, row_spec, dim, reverse)

        def step(copies: list[Any]) -> Any:
            carry, given = copies[: len(states)], copies[len(states) :]
            return combine_fn(tree_unflatten(carry, spec), tree_unflatten(given, row_spec))

        def result(trial: Trial) -> Trial:
            forms = [
                form if place < len(states) or form is None else _stacked(form, rows[0].shape[dim], dim)
                for place, form in enumerate(trial.outputs)
            ]
            return replace(trial, outputs=forms)

        grad = torch.is_grad_enabled()
        with self.recorder.aside():
            # What is carried depends on the weights after the first step, if not before.
            carried = [torch.empty_like(s, requires_grad=grad and s.is_floating_point()) for s in states]
        tried = [*carried, *self._each(rows, dim)]
        return self._whole("scan", step, result, tried, [*states, *rows], int(rows[0].shape[dim]), plain, False)

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
        plain = functools.partial(_associative, combine_fn, spec, dim, reverse)

        def step(copies: list[Any]) -> Any:
            half = len(copies) // 2
            return combine_fn(tree_unflatten(copies[:half], spec), tree_unflatten(copies[half:], spec))

        def result(trial: Trial) -> Trial:
            forms = [None if form is None else _stacked(form, rows[0].shape[dim], dim) for form in trial.outputs]
            half = len(rows)
            reached = tuple(a or b for a, b in zip(trial.reached[:half], trial.reached[half : 2 * half], strict=True))
            return replace(trial, outputs=forms, reached=(*reached, *trial.reached[2 * half :]))

        each = self._each(rows, dim)
        return self._whole(
            "associative_scan", step, result, [*each, *each], rows, int(rows[0].shape[dim]) - 1, plain, True
        )

    def while_loop(self, cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: Any) -> Any:
        """What is carried after the last step."""
        carried = tuple(carried_inputs)
        for step in range(_MOST_STEPS):
            try:
                goes_on = bool(cond_fn(*carried))
            except DataDependentOutputException:
                self.recorder.capture.note(WHILE_NOTE)
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
        result: Callable[[Trial], Trial],
        tried: list[Any],
        inputs: list[Any],
        steps: int,
        plain: Callable[..., Any],
        fused: bool,
    ) -> Any:
        recorder = self.recorder
        try:
            trial = result(try_out(recorder, step, tried))
        except Exception as error:
            # A model's own code. Its steps are followed one by one, and what is wrong with them is said where they are.
            passed_over(f"a trial of {name}", error)
            return plain(*inputs)
        how = "in one kernel" if fused else "whose steps are launched one by one"
        return run_whole(
            recorder,
            name,
            trial,
            inputs,
            plain,
            tuple(inputs),
            {},
            steps,
            fused=fused,
            note=f"{name} is one operator, {how}.",
            refusal=f"a {name} that reads more than it is handed is planned, but cannot be run",
        )


def _tuple(values: Any) -> tuple[Any, ...]:
    return tuple(values) if isinstance(values, (tuple, list)) else (values,)


def _stacked(form: TensorForm, steps: int, dim: int) -> TensorForm:
    place = dim if dim >= 0 else len(form.shape) + 1 + dim
    place = min(place, len(form.shape))
    shape = (*form.shape[:place], steps, *form.shape[place:])
    return form_of(torch.empty(shape, dtype=form.dtype, device="meta"))


def _order(rows: Sequence[Any], dim: int, reverse: bool) -> range:
    steps = range(rows[0].shape[dim])
    return steps[::-1] if reverse else steps


def _at(rows: Sequence[Any], dim: int, step: int) -> list[Any]:
    return [row.select(dim, step) for row in rows]


def _scan(
    combine_fn: Callable[..., Any], spec: Any, row_spec: Any, dim: int, reverse: bool, *leaves: Any
) -> tuple[Any, Any]:
    states, rows = list(leaves[: spec.num_leaves]), list(leaves[spec.num_leaves :])
    carry = tree_unflatten(states, spec)
    made = []
    for step in _order(rows, dim, reverse):
        carry, result = combine_fn(carry, tree_unflatten(_at(rows, dim, step), row_spec))
        made.append(result)
    in_order = reversed(made) if reverse else made
    return carry, tree_map(lambda *parts: torch.stack(parts, min(dim, parts[0].dim())), *in_order)


def _associative(combine_fn: Callable[..., Any], spec: Any, dim: int, reverse: bool, *rows: Any) -> Any:
    order = _order(rows, dim, reverse)
    made = [tree_unflatten(_at(rows, dim, order[0]), spec)]
    for step in order[1:]:
        made.append(combine_fn(made[-1], tree_unflatten(_at(rows, dim, step), spec)))
    return tree_map(lambda *parts: torch.stack(parts, dim), *(reversed(made) if reverse else made))


def whole_steps(spaces: list[dict[str, Any]], recorder: Recorder) -> AbstractContextManager[None]:
    """Within, torch's loops are one call each, whatever they are called in ``spaces``."""
    stepping = Stepping(recorder)
    found = [(homes_of(name), getattr(stepping, name)) for name in _MODULES]
    return replaced(
        *(
            (space, key, loop)
            for (original, homes), loop in found
            for space in (*homes, *spaces)
            for key, value in list(space.items())
            if value is original and original is not None
        )
    )
