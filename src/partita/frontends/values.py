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
    """Computes values that are known, and answers calls whose shapes or results depend on them.

    Without ``settle`` it only answers what code reads: shapes that depend on data are left as they are, for traces that
    are run again on other data.
    """

    def __init__(self, *, settle: bool = True) -> None:
        super().__init__()
        self.settle = settle
        self._kept: list[Any] = []
        self.read: set[str] = set()
        """Inputs whose values decided what runs."""
        self.presumed: set[str] = set()
        """What was presumed of values that are not known."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        packet = str(func._overloadpacket)
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        if packet in _FILLS and known(args[0]) is None and isinstance(args[0], FakeTensor):
            self._begin(args[0])
        values = [known(tensor) for tensor in tensors]
        complete = all(value is not None for value in values)
        if packet == "aten._local_scalar_dense" and complete:
            self.read |= _sources(tensors)
            with torch._C._DisableTorchDispatch():
                return values[0].item()
        if self.settle and packet == "aten._local_scalar_dense" and hasattr(tensors[0], "partita_presumed"):
            self.presumed.add(tensors[0].partita_presumed[1])
            return tensors[0].partita_presumed[0]
        if not self.settle:
            pass
        elif packet in ("aten.index", "aten.index_put", "aten.index_put_"):
            args = self._plain_indices(args)
        elif complete and tensors and (torch.Tag.dynamic_output_shape in func.tags or _repeats(packet, tensors)):
            return self._shaped(self._compute(func, args, kwargs), tensors)
        elif not complete and packet in _PICKS:
            return self._most(packet, args)
        out = func(*args, **kwargs)
        self._follow(func, packet, args, kwargs, out, tensors, complete)
        if packet in _PRESUMED and not complete and known(out) is None:
            out.partita_presumed = _PRESUMED[packet]
        elif packet in _KEEPS and hasattr(tensors[0], "partita_share"):
            out.partita_share = tensors[0].partita_share
        elif packet == "aten.eq" and len(values) == 2 and (values[0] is None) != (values[1] is None):
            # One of several different values: a row of a one-hot array.
            with torch._C._DisableTorchDispatch():
                different = (values[0] if values[1] is None else values[1]).unique().numel()
            if different == out.shape[-1] and different > 1:
                out.partita_share = 1 / different
        return out

    def _begin(self, tensor: Any) -> None:
        """Give a tensor that is about to be filled as a whole a content to fill."""
        whole = tensor.is_contiguous() and tensor.untyped_storage().nbytes() == tensor.numel() * tensor.element_size()
        if whole and tensor.numel() <= MAX_ELEMENTS:
            with torch._C._DisableTorchDispatch():
                tell(tensor, torch.zeros(tensor.shape, dtype=tensor.dtype))

    def _most(self, packet: str, args: Any) -> Any:
        """Rows that data picks, where their number is part of a shape: their expected share if known, else all."""
        chosen = args[1] if packet == "aten.masked_select" else args[0]
        share = getattr(chosen, "partita_share", None)
        count = chosen.numel() if share is None else max(1, round(share * chosen.numel()))
        if packet == "torchvision.nms":
            count = chosen.shape[0]
        if packet == "aten._unique2":
            self.presumed.add("what sorts values into groups finds one group")
            with self:
                places = torch.zeros(chosen.shape if len(args) > 2 and args[2] else 0, dtype=torch.long)
                return chosen.flatten()[:1].clone(), places, torch.full((1,), chosen.numel())
        self.presumed.add(
            f"all of the {count} rows that {packet} may pick are picked"
            if share is None
            else f"{packet} picks {count} of {chosen.numel()} rows, their expected share"
        )
        if packet == "aten.nonzero" and share is None and count <= MAX_ELEMENTS:
            with torch._C._DisableTorchDispatch():
                places = torch.ones(tuple(chosen.shape)).nonzero()
            return self._shaped(places, [])
        with self:
            if packet == "aten.masked_select":
                return args[0].new_empty((count,))
            shape = (count,) if packet == "torchvision.nms" else (count, chosen.dim())
            return torch.empty(shape, dtype=torch.long, device="cpu")

    def _plain_indices(self, args: Any) -> Any:
        """Rows to pick instead of a mask whose content is known: how many there are is part of the shape."""
        indices: list[Any] = []
        for index in args[1]:
            if index is None or index.dtype not in (torch.bool, torch.uint8):
                indices.append(index)
                continue
            value = known(index)
            if value is None:
                with self:
                    indices.extend(index.nonzero().unbind(1))
            else:
                with torch._C._DisableTorchDispatch():
                    rows = value.nonzero(as_tuple=True)
                indices.extend(self._shaped(rows, [index]))
        return (args[0], indices, *args[2:])

    def _compute(self, func: Any, args: Any, kwargs: Any) -> Any:
        args, kwargs = tree_map_only(torch.Tensor, known, (args, kwargs))
        if kwargs.get("device") is not None:
            kwargs = {**kwargs, "device": "cpu"}
        with torch._C._DisableTorchDispatch(), torch.no_grad(), torch.random.fork_rng(devices=[]):
            if torch.Tag.nondeterministic_seeded in func.tags:
                torch.manual_seed(0)
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
        drawn = torch.Tag.nondeterministic_seeded in func.tags
        if drawn and not (packet in _DRAWS and all(tensor.numel() <= _MOST_DRAWN for tensor in outputs)):
            complete = False
        settled = complete and packet not in _UNSET
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


#: Calls that set every element.
_FILLS = frozenset(f"aten.{name}" for name in ("fill_", "uniform_", "zero_"))
#: Draws that code may branch on, such as one of several sizes of images: they are the same in every trace.
_DRAWS = frozenset(f"aten.{name}" for name in ("randint", "randperm", "uniform_", "uniform", "multinomial"))
_MOST_DRAWN = 4096
#: Calls whose number of rows depends on data.
_PICKS = frozenset({"aten._unique2", "aten.nonzero", "aten.masked_select", "torchvision.nms"})
#: What code usually asks to be told of a fault, and what it asks to be told that there is none.
_PRESUMED = {
    "aten.any": (False, "what code asks of any value holds of none"),
    "aten.all": (True, "what code asks of all values holds"),
}
#: Calls that leave the share of truths as it is.
_KEEPS = frozenset(
    f"aten.{name}"
    for name in (
        "_to_copy",
        "alias",
        "clone",
        "detach",
        "index",
        "permute",
        "select",
        "squeeze",
        "t",
        "transpose",
        "view",
    )
)
#: Calls whose results are not set.
_UNSET = frozenset(
    f"aten.{name}" for name in ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided")
)
