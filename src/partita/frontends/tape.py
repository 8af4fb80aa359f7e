"""The calls of a forward run, kept so that they can be made again on real tensors, in whole or in part.

A :class:`~partita.frontends.capture.Recorder` that has a tape writes each ATen call down with its arguments; tensors
among them become numbers of *slots*. Calls made again through the dispatcher are differentiated as the first time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from partita.frontends.flops import CALLS
from partita.ground.errors import TraceError
from partita.inside.torch_inside import (
    FakeTensor,
    packet_name,
    place_in_memory,
    storage_id,
    tree_flatten,
    tree_map_only,
    without_modes,
)


class Ref(NamedTuple):
    """In the place of a tensor among a call's arguments: its slot."""

    slot: int


@dataclass(frozen=True, slots=True)
class Slot:
    """One tensor of the run, as in torch; slots with one number of a ``storage`` share their data."""

    storage: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: Any

    @property
    def numel(self) -> int:
        """Number of elements, those that lie on each other counted each."""
        return math.prod(self.shape)


@dataclass(slots=True, eq=False)
class TapedCall:
    """One call; tensors among its arguments are :class:`Ref`, elsewhere slots."""

    func: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    single: bool
    """Whether it returns one tensor rather than a row of values."""
    outs: tuple[int | None, ...]
    """What it returns, None for what is no tensor."""
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    """What it is handed, and what of that it writes in place."""
    call: int | None
    """Number of its call in the capture; None for a view."""
    grad: bool
    """Whether gradients were recorded."""
    random: bool
    """Whether it draws random numbers."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a slot comes from that no call makes: a stored array or input by name, or a constant with its value."""

    kind: str
    name: str
    value: Any = None
    trainable: bool = False


class Tape:
    """All calls of a forward run, in order."""

    def __init__(self) -> None:
        self.entries: list[TapedCall] = []
        self.slots: list[Slot] = []
        #: What is there before the first call, by slot.
        self.origins: dict[int, Origin] = {}
        #: Slots of what the model returns, and in training of what is differentiated.
        self.outputs: list[int] = []
        self.loss: int | None = None
        self._early: set[int] = set()
        self._of: dict[int, int] = {}
        self._stored: dict[Any, int] = {}
        self._storages: dict[int, int] = {}
        # Tensors are told apart by identity, so none may be freed while recording.
        self._alive: list[Any] = []

    def _new(self, tensor: Any) -> int:
        storage = self._storages.setdefault(storage_id(tensor), len(self._storages))
        self._alive.append(tensor)
        self.slots.append(Slot(storage, tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype))
        self._of[id(tensor)] = len(self.slots) - 1
        return len(self.slots) - 1

    def begin(self, tensor: Any, origin: Origin) -> None:
        """What there is before the run: a parameter, buffer or input, or a stand-in for an array that is neither."""
        self._stored[_place(tensor)] = slot = self._new(tensor)
        self.origins[slot] = origin

    def announce(self, tensor: Any) -> None:
        """A result of a call that is written down once it is over; what looks at it before is no part of the run."""
        self._early.add(self._new(tensor))

    def slot_of(self, tensor: Any) -> int:
        """The slot of a tensor; one that no call made becomes a constant."""
        known = self._of.get(id(tensor))
        if known is not None:
            return known
        stored = self._stored.get(_place(tensor)) if isinstance(tensor, FakeTensor) else None
        if stored is not None:
            # Another object for a stored array, such as the parameter made of a stand-in.
            self._alive.append(tensor)
            self._of[id(tensor)] = stored
            return stored
        value = getattr(tensor, "constant", None) if isinstance(tensor, FakeTensor) else tensor
        if value is None:
            raise TraceError(f"a tensor of shape {list(tensor.shape)} was made outside the run and has no data")
        slot = self._new(tensor)
        # The modes of a trace would make a copy without data.
        with without_modes():
            self.origins[slot] = Origin("constant", "", value.detach().clone())
        return slot

    def note(
        self, func: Any, args: Any, kwargs: Any, out: Any, call: int | None, *, mutated: Any = (), random: bool = False
    ) -> None:
        """Write down a call that was made."""
        last = self.entries[-1] if self.entries else None
        if (
            func is torch.ops.aten.detach.default
            and last is not None
            and last.outs == (self._of.get(id(args[0])),)
            and (not last.reads or packet_name(last.func) in CALLS["fresh"])
        ):
            # Autograd hands new arrays on like this; whoever writes into them may need gradients.
            self._alive.append(out)
            self._of[id(out)] = self._of[id(args[0])]
            return
        reads: list[int] = []

        def ref(tensor: Any) -> Ref:
            slot = self.slot_of(tensor)
            reads.append(slot)
            return Ref(slot)

        args, kwargs = tree_map_only(torch.Tensor, ref, (tuple(args), dict(kwargs)))
        single = isinstance(out, torch.Tensor)
        leaves = [out] if single else tree_flatten(out)[0]
        outs = tuple(None if not isinstance(leaf, torch.Tensor) else self._of.get(id(leaf), -1) for leaf in leaves)
        outs = tuple(self._new(leaf) if slot == -1 else slot for leaf, slot in zip(leaves, outs, strict=True))
        if self._early.intersection(reads):
            return
        self._early.clear()
        writes = tuple(self.slot_of(tensor) for tensor in mutated)
        grad = torch.is_grad_enabled()
        self.entries.append(TapedCall(func, args, kwargs, single, outs, tuple(reads), writes, call, grad, random))


def _place(tensor: Any) -> Any:
    return *place_in_memory(tensor), tensor.dtype
