"""What is known, or presumed, of the content of stand-ins that have no data."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from partita.inside.torch_inside import FakeTensor, storage_id, tree_map_only, undispatched


def tensors_in(tree: Any) -> list[Any]:
    """The tensors among the arguments or results of a call, in order.

    Calls hold them in tuples, lists and dictionaries alone, and are many: looking through these is several times faster
    than through any tree.
    """
    found: list[Any] = []
    _gather(tree, found)
    return found


def _gather(tree: Any, found: list[Any]) -> None:
    if isinstance(tree, torch.Tensor):
        found.append(tree)
    elif isinstance(tree, (tuple, list)):
        for item in tree:
            _gather(item, found)
    elif isinstance(tree, dict):
        for item in tree.values():
            _gather(item, found)


def known(tensor: Any) -> Any:
    """The content of a tensor, None if it is not known."""
    if not isinstance(tensor, FakeTensor):
        return tensor if type(tensor) is torch.Tensor and tensor.device.type == "cpu" else None
    value = supposed(tensor)
    return None if value is None or storage_id(value) in marked(tensor, "guessed") else value


def supposed(tensor: Any) -> Any:
    """The content of a stand-in, known or presumed; None if there is neither."""
    value = getattr(tensor, "partita_value", None)
    return None if value is None or storage_id(value) in marked(tensor, "lost") else value


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
    marked(tensor, what).add(storage_id(value))
    # Storages are told apart by address, so none that is marked may be freed.
    tensor.fake_mode.__dict__.setdefault("partita_kept", []).append(value.untyped_storage())


def compute(func: Any, args: Any, kwargs: Any, content: Callable[[Any], Any] = known, seed: int = 0) -> Any:
    """What a call gives for the contents of its tensors; of draws, each is another, but the same in every trace."""
    with undispatched():
        args, kwargs = tree_map_only(torch.Tensor, content, (args, kwargs))
    if kwargs.get("device") is not None:
        kwargs = {**kwargs, "device": "cpu"}
    with undispatched(), torch.no_grad():
        if torch.Tag.nondeterministic_seeded not in func.tags:
            return func(*args, **kwargs)
        # Only draws need it, and it takes longer than most calls.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return func(*args, **kwargs)
