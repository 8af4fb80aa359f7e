"""Stand-ins without data for a module's parameters, buffers and other tensors, and for its arguments."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any

import torch
from torch.nn.parameter import is_lazy

from partita.frontends.capture import Recorder, dtype_name
from partita.frontends.records import Stored
from partita.frontends.tape import Origin
from partita.frontends.values import MAX_ELEMENTS, known, tell
from partita.ground.errors import TraceError
from partita.inside.torch_inside import (
    FakeTensor,
    contents_of,
    is_traceable_wrapper_subclass,
    place_in_memory,
    tree_flatten_with_path,
    tree_leaves,
    tree_unflatten,
    undispatched,
)


def _format(tensor: Any, dtype: Any) -> Any:
    return dtype if dtype is not None and tensor.is_floating_point() else tensor.dtype


def _stored(name: str, fake: Any, kind: str, trainable: bool = False) -> Stored:
    return Stored(name, tuple(fake.shape), dtype_name(fake.dtype), fake.numel() * fake.element_size(), kind, trainable)


#: Numbers of an input, such as the corners of boxes or an image, that code may ask for.
_MAX_NUMBERS = 2**20


def _tell(fake: Any, tensor: Any, sources: frozenset[str] = frozenset()) -> None:
    """Keep the content of small whole numbers and truths, which code may ask for, and of a few given numbers."""
    plain = not tensor.is_floating_point() and not tensor.is_complex()
    if tensor.numel() > (MAX_ELEMENTS if plain else _MAX_NUMBERS):
        return
    # Small rows that a callable made on fake tensors are known as constants.
    value = known(tensor) if known(tensor) is not None else getattr(tensor, "constant", None)
    if value is not None:
        with undispatched():
            tell(fake, value.clone(), sources)


def _check_plain(what: str, tensor: Any) -> None:
    """Refuse arrays that are not one block of numbers: their arithmetic and bytes would be another's."""
    if is_lazy(tensor):
        raise TraceError(
            f"{what} has no shape before the first call; call the module once before it is traced, or give its layer "
            "the size of its input"
        )
    if tensor.is_nested:
        raise TraceError(f"{what} is a nested tensor, whose work depends on its data; pass a padded one with a mask")
    if tensor.layout != torch.strided:
        form = dtype_name(tensor.layout)
        raise TraceError(
            f"{what} is a {form} tensor, whose work depends on its data; pass a dense one, or the places and values of "
            "its terms and add them up with index_add"
        )
    if is_traceable_wrapper_subclass(tensor):
        raise TraceError(
            f"{what} is a {type(tensor).__name__}, a tensor made of others, which is not read; trace the module before "
            "it is converted, and give measured times of the converted operators"
        )


def _has_stand_ins(*values: Any) -> bool:
    """Whether there are tensors, stand-ins or what they stand for, in some values or in modules among them."""
    for value in tree_leaves(values):
        if isinstance(value, torch.Tensor):
            return True
        held = chain(value.parameters(), value.buffers()) if isinstance(value, torch.nn.Module) else ()
        if any(isinstance(tensor, FakeTensor) for tensor in held):
            return True
    return False


@contextmanager
def fake_state(module: Any, recorder: Recorder, dtype: Any = None) -> Iterator[list[tuple[Stored, Any]]]:
    """Replace every tensor a module holds by a fake one on the CPU, and put the originals back afterwards.

    Yields the distinct parameters, each with its stand-in, in the order of ``named_parameters``. Arrays that are one
    object, or one region of one storage, become one stand-in: that is how ties are found. Given a ``dtype``, floating
    arrays become of that format.
    """
    made: dict[Any, tuple[Any, Stored | None]] = {}
    parameters: list[tuple[Stored, Any]] = []
    # What a module's code sets while it runs are stand-ins, too.
    tables = [held for child in module.modules() for held in contents_of(child) if isinstance(held, dict)]
    before = [(held, dict(held)) for held in tables]

    def stand_in(tensor: Any, name: str, kind: str) -> Any:
        _check_plain(f"{kind} {name!r}", tensor)
        key = place_in_memory(tensor)
        if key in made:
            fake, stored = made[key]
            if stored is not None and kind != "constant" and name not in (stored.name, *stored.aliases):
                stored.aliases = (*stored.aliases, name)
            if stored is None or (kind == "parameter") == isinstance(fake, torch.nn.Parameter):
                return fake
            return fake.detach()
        with recorder.fake:
            fake = torch.empty_strided(tensor.shape, tensor.stride(), dtype=_format(tensor, dtype), device="cpu")
        stored = None
        if kind != "constant":
            stored = _stored(name, fake, kind, kind == "parameter" and bool(tensor.requires_grad))
            recorder.store(fake, stored)
        elif recorder.tape is not None:
            recorder.tape.begin(fake, Origin("constant", "", tensor))
        if stored is not None and kind == "parameter":
            fake = torch.nn.Parameter(fake, requires_grad=tensor.requires_grad)
            parameters.append((stored, fake))
        else:
            _tell(fake, tensor)
        made[key] = fake, stored
        return fake

    try:
        # Parameters first, so that a buffer tied to one is an alias of it and not the reverse.
        for place, kind in enumerate(("parameter", "buffer", "constant")):
            for path, child in module.named_modules():
                holder = contents_of(child)[place]
                for key, tensor in list(holder.items()):
                    if isinstance(tensor, torch.Tensor):
                        holder[key] = stand_in(tensor, f"{path}.{key}" if path else key, kind)
        yield parameters
    finally:
        for held, was in before:
            # Hooks and their marks stay: whoever sets them looks for them before setting them again.
            for key in [key for key, value in held.items() if key not in was and _has_stand_ins(value)]:
                del held[key]
            held.update({key: value for key, value in was.items() if _has_stand_ins(held.get(key, value), value)})


def fake_arguments(args: Any, kwargs: Any, recorder: Recorder, dtype: Any = None) -> tuple[Any, Any]:
    """Replace the tensors among a call's arguments by fake inputs named after their place.

    A keyword keeps its name; a positional argument is ``input0``, ``input1``, …; nesting adds ``.key``.
    """
    leaves, spec = tree_flatten_with_path((tuple(args), dict(kwargs)))
    fakes = []
    made: dict[int, Any] = {}
    for path, leaf in leaves:
        if not isinstance(leaf, torch.Tensor):
            fakes.append(leaf)
            continue
        if id(leaf) not in made:
            keys = [str(getattr(entry, "idx", getattr(entry, "key", entry))) for entry in path]
            name = ".".join(keys[1:]) if keys[0] == "1" else ".".join(["input" + keys[1], *keys[2:]])
            _check_plain(f"input {name!r}", leaf)
            with recorder.fake:
                fake = torch.empty(leaf.shape, dtype=_format(leaf, dtype), device="cpu")
            recorder.store(fake, _stored(name, fake, "input"))
            _tell(fake, leaf, frozenset({name}))
            made[id(leaf)] = fake
        fakes.append(made[id(leaf)])
    new_args, new_kwargs = tree_unflatten(fakes, spec)
    return new_args, new_kwargs
