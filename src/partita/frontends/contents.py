"""What is known, or presumed, of the content of stand-ins that have no data."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._pytree import tree_map_only


def known(tensor: Any) -> Any:
    """The content of a tensor, None if it is not known."""
    if not isinstance(tensor, FakeTensor):
        return tensor if type(tensor) is torch.Tensor and tensor.device.type == "cpu" else None
    value = supposed(tensor)
    return None if value is None or value.untyped_storage()._cdata in marked(tensor, "guessed") else value


def supposed(tensor: Any) -> Any:
    """The content of a stand-in, known or presumed; None if there is neither."""
    value = getattr(tensor, "partita_value", None)
    return None if value is None or value.untyped_storage()._cdata in marked(tensor, "lost") else value


def tell(tensor: Any, value: Any, sources: frozenset[str] = frozenset()) -> None:
    """Say what a stand-in holds, and from which inputs of the model that comes."""
    tensor.partita_value = value
    tensor.partita_sources = sources


def sources_of(tensors: Iterable[Any]) -> frozenset[str]:
    """The inputs of the model that the contents of tensors come from."""
    return frozenset[str]().union(*(getattr(tensor, "partita_sources", ()) for tensor in tensors))


def marked(tensor: Any, what: str) -> set[int]:
    """Storages of contents that are ``lost``, because something unknown was written there, or ``guessed``."""
    found: set[int] = tensor.fake_mode.__dict__.setdefault(f"partita_{what}", set())
    return found


def mark(tensor: Any, value: Any, what: str) -> None:
    """Say that the content of a stand-in is ``lost`` or ``guessed``, for all that share its storage."""
    storage = value.untyped_storage()
    marked(tensor, what).add(storage._cdata)
    # Storages are told apart by address, so none that is marked may be freed.
    tensor.fake_mode.__dict__.setdefault("partita_kept", []).append(storage)


def compute(func: Any, args: Any, kwargs: Any, content: Callable[[Any], Any] = known) -> Any:
    """What a call gives for the contents of its tensors; draws are the same in every trace."""
    args, kwargs = tree_map_only(torch.Tensor, content, (args, kwargs))
    if kwargs.get("device") is not None:
        kwargs = {**kwargs, "device": "cpu"}
    with torch._C._DisableTorchDispatch(), torch.no_grad(), torch.random.fork_rng(devices=[]):
        if torch.Tag.nondeterministic_seeded in func.tags:
            torch.manual_seed(0)
        return func(*args, **kwargs)
