"""Values of small tensors that follow from the example input, the shapes and the code alone.

Weights have no data, so nothing that comes from them can be read. What a model does with positions, masks, sizes of
images or token types often decides which operators run, though. Such values are computed for real beside the stand-ins,
as long as all that they come from is known and they are small.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

#: Elements of what is worth following: masks of sequence × sequence for a thousand tokens, no more.
MAX_ELEMENTS = 2**21


def known(tensor: Any) -> Any:
    """The content of a tensor, None if it is not known."""
    if not isinstance(tensor, FakeTensor):
        return tensor if type(tensor) is torch.Tensor and tensor.device.type == "cpu" else None
    value = getattr(tensor, "partita_value", None)
    return None if value is None or value.untyped_storage()._cdata in _lost(tensor) else value


def tell(tensor: Any, value: Any, sources: frozenset[str] = frozenset()) -> None:
    """Say what a stand-in holds, and from which inputs of the model that comes."""
    tensor.partita_value = value
    tensor.partita_sources = sources


def _sources(tensors: Iterable[Any]) -> frozenset[str]:
    return frozenset[str]().union(*(getattr(tensor, "partita_sources", ()) for tensor in tensors))


def _lost(tensor: Any) -> set[int]:
    lost: set[int] = tensor.fake_mode.__dict__.setdefault("partita_lost", set())
    return lost


class Values(TorchDispatchMode):  # type: ignore[misc]
    """Computes values that are known, and answers calls whose shapes or results depend on them."""

    def __init__(self, fake: Any) -> None:
        super().__init__()
        self.fake = fake
        self._kept: list[Any] = []
        self.read: set[str] = set()
        """Inputs whose values decided what runs."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        packet = str(func._overloadpacket)
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        values = [known(tensor) for tensor in tensors]
        complete = all(value is not None for value in values)
        if packet == "aten._local_scalar_dense" and complete:
            self.read |= _sources(tensors)
            with torch._C._DisableTorchDispatch():
                return values[0].item()
        if packet == "aten.index" or packet in ("aten.index_put", "aten.index_put_"):
            args = self._plain_indices(args)
        elif complete and tensors and (torch.Tag.dynamic_output_shape in func.tags or _repeats(packet, tensors)):
            return self._shaped(self._compute(func, args, kwargs), tensors)
        out = func(*args, **kwargs)
        self._follow(func, packet, args, kwargs, out, tensors, complete)
        return out

    def _plain_indices(self, args: Any) -> Any:
        """Rows to pick instead of a mask whose content is known: how many there are is part of the shape."""
        indices: list[Any] = []
        for index in args[1]:
            value = (
                known(index) if isinstance(index, torch.Tensor) and index.dtype in (torch.bool, torch.uint8) else None
            )
            if value is None:
                indices.append(index)
            else:
                with torch._C._DisableTorchDispatch():
                    rows = value.nonzero(as_tuple=True)
                indices.extend(self._shaped(rows, [index]))
        return (args[0], indices, *args[2:])

    def _compute(self, func: Any, args: Any, kwargs: Any) -> Any:
        def plain(tensor: Any) -> Any:
            return known(tensor)

        args, kwargs = tree_map_only(torch.Tensor, plain, (args, kwargs))
        if kwargs.get("device") is not None:
            kwargs = {**kwargs, "device": "cpu"}
        with torch._C._DisableTorchDispatch(), torch.no_grad():
            return func(*args, **kwargs)

    def _shaped(self, values: Any, origins: list[Any]) -> Any:
        """Stand-ins of the shapes that values have."""
        sources = _sources(origins)
        self.read |= sources

        def stand_in(value: Any) -> Any:
            made = torch.empty(value.shape, dtype=value.dtype, device="cpu")
            tell(made, value, sources)
            return made

        with self:
            return tree_map_only(torch.Tensor, stand_in, values)

    def _follow(
        self, func: Any, packet: str, args: Any, kwargs: Any, out: Any, tensors: list[Any], complete: bool
    ) -> None:
        outputs = [leaf for leaf in tree_leaves(out) if isinstance(leaf, FakeTensor)]
        changes = func._schema.is_mutable
        small = all(tensor.numel() <= MAX_ELEMENTS for tensor in outputs)
        settled = complete and torch.Tag.nondeterministic_seeded not in func.tags and packet not in _UNSET
        if settled and small and outputs and func.namespace == "aten":
            try:
                values = self._compute(func, args, kwargs)
            except Exception:
                values = None
            found = [leaf for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor)]
            if len(found) == len(outputs) and all(a.shape == b.shape for a, b in zip(found, outputs, strict=True)):
                sources = _sources(tensors)
                for tensor, value in zip(outputs, found, strict=True):
                    tell(tensor, value, sources)
                return
        if changes:
            for position, argument in enumerate(func._schema.arguments):
                if argument.alias_info is None or not argument.alias_info.is_write:
                    continue
                tensor = args[position] if position < len(args) else kwargs.get(argument.name)
                value = getattr(tensor, "partita_value", None)
                if value is not None:
                    storage = value.untyped_storage()
                    self._kept.append(storage)
                    _lost(tensor).add(storage._cdata)


def _repeats(packet: str, tensors: list[Any]) -> bool:
    return packet == "aten.repeat_interleave" and len(tensors) == 1


#: Calls whose results are not set.
_UNSET = frozenset(
    f"aten.{name}" for name in ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided")
)
