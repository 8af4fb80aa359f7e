"""Finding a split again in a model that another tool traced: its calls are matched with the operators of the plan.

Tracers differ in what they take apart: one calls ``linear`` what another writes as a transposition and a product. What
they agree on is which module calls what, and in which order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from partita.nouns.split import Split

#: What a call may be in a trace whose operators are taken further apart.
_FINER = {
    "linear": ("addmm", "mm", "bmm"),
    "matmul": ("mm", "bmm"),
    "layer_norm": ("native_layer_norm",),
    "group_norm": ("native_group_norm",),
    "batch_norm": ("native_batch_norm", "_native_batch_norm_legit", "cudnn_batch_norm"),
    "dropout": ("native_dropout",),
    "softmax": ("_softmax",),
    "log_softmax": ("_log_softmax",),
    "to": ("_to_copy",),
    "conv1d": ("convolution",),
    "conv2d": ("convolution",),
    "conv3d": ("convolution",),
    "conv_transpose2d": ("convolution",),
}


@dataclass(frozen=True)
class Call:
    """One call of a trace."""

    module: str  #: Qualified name of the module that makes it.
    target: str  #: What it computes: ``aten.add.Tensor``.
    inputs: tuple[int, ...] = ()  #: Numbers of the calls whose results it reads, all before it.
    state: bool = False  #: Whether it reads a weight, or a floating input of the model, itself.
    follows: bool = False  #: Whether it takes a part of a result and has to be where that is.


def align(split: Split, calls: Sequence[Call], *, contiguous: bool) -> list[int]:
    """The stage of every call, in the order of the trace.

    Calls of a module that is wholly on a stage are there; those of a shared one are matched by what they compute, in
    order. What has no match is where its inputs are, constants where they are read first. With ``contiguous`` no call
    is before what it reads.
    """
    state = carries_state(calls)
    whole = {name: number for number, stage in enumerate(split.stages) for name in stage.modules}
    waiting: dict[tuple[str, str], deque[int]] = {}
    for module in split.shared:
        for target, number in module.operators:
            waiting.setdefault((module.name, base(target)), deque()).append(number)
    found: list[int | None] = []
    for place, call in enumerate(calls):
        stage = _of_module(call.module, whole)
        if stage is None and state[place]:
            stage = _next(waiting, call)
            if stage is None:
                near = [found[v] for v in call.inputs if state[v]]
                stage = max((v for v in near if v is not None), default=0)
        found.append(found[call.inputs[0]] if call.follows and call.inputs else stage)
    result = _with_constants(calls, found)
    if contiguous:
        for place, call in enumerate(calls):
            before = [result[v] for v in call.inputs]
            result[place] = before[0] if call.follows and before else max([result[place], *before])
    return result


def carries_state(calls: Sequence[Call]) -> list[bool]:
    """Whether each call depends on a weight or a floating input of the model; the others make constants."""
    state: list[bool] = []
    for call in calls:
        state.append(call.state or any(state[v] for v in call.inputs))
    return state


def base(target: str) -> str:
    """What is computed, without namespace and overload, in place or not: ``add`` of ``aten.add_.Tensor``."""
    parts = target.split(".")
    name = parts[1] if len(parts) > 1 else parts[0]
    return name.rstrip("_") or name


def _of_module(module: str, whole: dict[str, int]) -> int | None:
    paths = accumulate(module.split("."), "{}.{}".format) if module else ()
    return next((whole[path] for path in paths if path in whole), None)


def _next(waiting: dict[tuple[str, str], deque[int]], call: Call) -> int | None:
    name = base(call.target)
    for candidate in (name, *_FINER.get(name, ())):
        stages = waiting.get((call.module, candidate))
        if stages:
            return stages.popleft()
    return None


def _with_constants(calls: Sequence[Call], found: Sequence[int | None]) -> list[int]:
    """The same with what has no place yet where it is read first."""
    stages = [0] * len(calls)
    first: dict[int, int] = {}
    for place in range(len(calls) - 1, -1, -1):
        known = found[place]
        stages[place] = first.get(place, 0) if known is None else known
        for v in calls[place].inputs:
            first[v] = min(first.get(v, stages[place]), stages[place])
    return stages
