"""What a model's code asks of the machine around it, answered as on a machine that has it.

A trace runs on the CPU without data. Devices that code names are one place here; mixed precision of another device
is switched on with that device's rules; checkpointed parts are recomputed with the calls kept whole; a branch on data
is taken as the first one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import checkpoint

from partita.frontends.flops import WIDENED
from partita.inside.replacing import replaced
from partita.inside.torch_inside import converted_by, homes_of, tables_of, tree_map, tree_map_only

_CPU = torch.device("cpu")

BRANCH_NOTE = "torch.cond branches on data: the trace follows its first branch, and the plan holds for inputs that do."


class OnePlace(TorchFunctionMode):  # type: ignore[misc]
    """Moves between devices that code asks for stay where they are; float32 where a GPU's mixed precision has it.

    Numbers are written as on real tensors, so that code finds parts by names such as ``expert_3``.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if func in _MOVES:
            return args[0]
        if func is torch.Tensor.__format__ and args[0].dim() == 0:
            return format(args[0].item(), args[1])
        if func is torch.Tensor.to:
            args, kwargs = _without_device(args, kwargs)
            if len(args) == 1 and not set(kwargs) - {"non_blocking"}:
                return args[0]
        elif kwargs.get("device") is not None and _elsewhere(kwargs["device"]):
            kwargs = {**kwargs, "device": _CPU}
        if name in WIDENED and _Mixed.depth and torch.is_autocast_enabled("cpu"):
            narrow = (torch.float16, torch.bfloat16)
            args, kwargs = tree_map_only(torch.Tensor, lambda t: t.float() if t.dtype in narrow else t, (args, kwargs))
        return func(*args, **kwargs)


_MOVES = frozenset(
    getattr(torch.Tensor, name) for name in ("cuda", "xpu", "ipu", "hpu", "mtia") if hasattr(torch.Tensor, name)
)


def _elsewhere(device: Any) -> bool:
    """Whether a device is named, and is no real or imaginary CPU."""
    try:
        return torch.device(device).type not in ("cpu", "meta")
    except (RuntimeError, TypeError):
        return False


def _without_device(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of ``Tensor.to`` without the device, where it is not the CPU."""
    rest = dict(kwargs)
    if _elsewhere(rest.get("device")):
        del rest["device"]
    named = len(args) > 1 and isinstance(args[1], (str, int, torch.device)) and not isinstance(args[1], bool)
    if not named or not _elsewhere(args[1]):
        return args, rest
    # What follows a device are the number format and two flags.
    dtype = args[2] if len(args) > 2 else rest.pop("dtype", None)
    return (args[0],) if dtype is None else (args[0], dtype, *args[3:]), rest


class _Mixed:
    """How many regions of a GPU's mixed precision a trace is in."""

    depth = 0


def mixed_precision() -> AbstractContextManager[None]:
    """Within, ``torch.autocast`` for a device that is not here works, in the number format it has there."""
    cls = torch.amp.autocast_mode.autocast
    start, enter, leave = cls.__init__, cls.__enter__, cls.__exit__

    @functools.wraps(start)
    def made(self: Any, device_type: str, dtype: Any = None, enabled: bool = True, cache_enabled: Any = None) -> None:
        self._partita_elsewhere = enabled and _elsewhere(device_type)
        if _elsewhere(device_type):
            dtype = torch.get_autocast_dtype(device_type) if dtype is None else dtype
            device_type = "cpu"
        start(self, device_type, dtype, enabled, cache_enabled)

    @functools.wraps(enter)
    def entered(self: Any) -> Any:
        _Mixed.depth += getattr(self, "_partita_elsewhere", False)
        return enter(self)

    @functools.wraps(leave)
    def left(self: Any, *error: Any) -> Any:
        _Mixed.depth -= getattr(self, "_partita_elsewhere", False)
        return leave(self, *error)

    return replaced((cls, "__init__", made), (cls, "__enter__", entered), (cls, "__exit__", left), (_Mixed, "depth", 0))


def no_branches(note: Callable[[str], None]) -> AbstractContextManager[None]:
    """Within, ``torch.cond`` takes its first branch, whatever the condition, and a note is made of it."""

    def first(pred: Any, true_fn: Any, false_fn: Any, operands: Any = ()) -> Any:
        if isinstance(pred, bool):
            return (true_fn if pred else false_fn)(*operands)
        note(BRANCH_NOTE)
        return true_fn(*operands)

    return replaced(*((home, "cond", first) for home in homes_of("cond")[1]))


def plain_checkpoints() -> AbstractContextManager[None]:
    """Within, reentrant checkpoints, which run a backward pass inside another, are of the other kind."""

    def apply(function: Any, preserve: bool, *args: Any) -> Any:
        return checkpoint.checkpoint(function, *args, use_reentrant=False, preserve_rng_state=preserve)

    return replaced((checkpoint.CheckpointFunction, "apply", staticmethod(apply)))


def plain_conversions(differentiable: bool) -> AbstractContextManager[None]:
    """Within, ``module.to``, ``module.half`` and their like replace a module's arrays, fake ones too.

    Where it is ``differentiable``, gradients reach the parameters as they were before.
    """

    def convert(module: Any, fn: Callable[[Any], Any], recurse: bool) -> Any:
        for child in module.children() if recurse else ():
            convert(child, fn, recurse)
        for table in tables_of(module):
            for name, tensor in table.items():
                if tensor is None:
                    continue
                with torch.set_grad_enabled(differentiable and torch.is_grad_enabled()):
                    changed = fn(tensor)
                if isinstance(tensor, torch.nn.Parameter) and changed is not tensor and not changed.requires_grad:
                    changed = torch.nn.Parameter(changed, requires_grad=tensor.requires_grad)
                table[name] = changed
        return module

    return converted_by(convert)


def plain_literals() -> AbstractContextManager[None]:
    """Within, ``torch.tensor`` of a list that holds tensors reads these one by one, so that known values are known."""
    original = torch.tensor

    def number(leaf: Any) -> Any:
        return leaf.item() if isinstance(leaf, torch.Tensor) and leaf.numel() == 1 else leaf

    def tensor(data: Any, *args: Any, **kwargs: Any) -> Any:
        return original(tree_map(number, data) if isinstance(data, (list, tuple)) else data, *args, **kwargs)

    return replaced((torch, "tensor", tensor))
