"""Putting the inputs that a user gives among a module's arguments."""

from __future__ import annotations

import difflib
import inspect
import math
import re
import typing
import zlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from partita.frontends.given import FORM, OWN, SCALAR, GivenArray, array_of, is_array
from partita.frontends.options import nearest
from partita.ground.errors import InputError
from partita.nouns.graph import Graph

#: Elements up to which given inputs have values; code that reads larger ones cannot be followed anyway.
_MOST = 2**21


def made(value: Any, name: str, own: Any) -> Any:
    """What a given input stands for, its arrays as tensors; ``own`` is the ``torch.dtype`` that the model computes in.

    Whole numbers have values where they are few, drawn from the input's name where a range is given; floating numbers
    have values where a range or the values themselves are given.
    """
    if is_array(value):
        return _tensor(array_of(value, f"input {name!r}"), name, own)
    if isinstance(value, Mapping):
        return {key: made(each, f"{name}.{key}", own) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [made(each, f"{name}.{place}", own) for place, each in enumerate(value)]
    return value


def _tensor(array: GivenArray, name: str, own: Any) -> Any:
    import torch

    dtype = own if array.dtype == OWN else getattr(torch, array.dtype)
    if array.values is not None:
        try:
            return torch.tensor(array.values, dtype=dtype, device="cpu")
        except (TypeError, ValueError, RuntimeError) as error:
            raise InputError(f"input {name!r}: its values are no array of {array.dtype}: {error}") from None
    assert array.shape is not None
    shape = array.shape
    if math.prod(shape) > _MOST or (array.low is None and (dtype.is_floating_point or dtype.is_complex)):
        return torch.empty(shape, dtype=dtype, device="meta")
    if array.low is None or array.high is None:
        return torch.ones(shape, dtype=dtype, device="cpu")
    generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
    if array.whole:
        # Also where the range is all of the format's.
        drawn = torch.rand(shape, generator=generator, dtype=torch.float64, device="cpu")
        span = int(array.high) - int(array.low) + 1
        return (drawn * span).floor().to(torch.int64).add(int(array.low)).clamp(max=int(array.high)).to(dtype)
    drawn = torch.rand(shape, generator=generator, dtype=torch.float32, device="cpu")
    return (drawn * (array.high - array.low) + array.low).to(dtype)


def fill_module(
    given: Mapping[str, Any],
    module: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    what: str,
    own: Any = None,
    beside: Collection[str] | None = None,
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments of a module with the given ones in their places; a name that it does not take is an ``InputError``.

    A name is that of a parameter, ``input0``, ``input1``, … for a place without one, or followed by ``.key`` something
    inside an argument. None leaves an argument out. ``own`` is the format that the module computes in, by default that
    of its first floating parameter. One that takes any name gets those ``beside`` its own parameters that are stated,
    or any.
    """
    import torch

    if own is None:
        own = next((p.dtype for p in module.parameters() if p.is_floating_point()), torch.float32)
    places, named = list(args), dict(kwargs)
    parameters = _named(module)
    for name, value in given.items():
        head, _, rest = name.partition(".")
        place = _place(head, _places(parameters), len(places))
        if place is None and head not in {*parameters, *named, *(beside or ())}:
            _check_name(head, module, what, strict=beside is not None)
        tensor = made(value, name, own)
        if rest:
            before = named.get(head) if place is None else places[place]
            tensor = _inside(before, rest.split("."), tensor, name)
        usual = parameters[head].default if head in parameters else None
        unset = usual is inspect.Parameter.empty
        left_out = value is None and not rest
        if place is not None:
            places[place] = (None if unset else usual) if left_out else tensor
        else:
            named.pop(head, None)
            if not left_out or unset:
                named[head] = tensor
    return tuple(places), named


def unread(given: Mapping[str, Any], module: Any, args: Sequence[Any], graph: Graph) -> list[str]:
    """Notes on given arrays that no operator of a graph reads."""
    seen = {tensor.name for tensor in graph.tensors if tensor.producer is None and tensor.consumers}
    notes, order = [], _places(_named(module))
    for name, value in given.items():
        head, dot, rest = name.partition(".")
        place = _place(head, order, len(args))
        named = (head if place is None else f"input{place}") + dot + rest
        if is_array(value) and named not in seen:
            notes.append(f"No operator reads input {name!r}, which was given.")
    return notes


#: As many inputs as one message names.
_NAMED = 8


def what_ran(message: str, module: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """What a failed run had as inputs, what it had not, and how to give others."""
    import torch

    parameters = _named(module)
    order = _places(parameters)
    had = {order[place] if place < len(order) else f"input{place}": value for place, value in enumerate(args)}
    had |= kwargs
    words = set(re.findall(r"\w+", message))
    missing = [name for name in parameters if name in words and had.get(name) is None]
    if missing:
        return f"there was no {missing[0]}; give it with --input {missing[0]}={FORM}"
    none = "NoneType" in message
    shown = [
        f"{name} {'x'.join(map(str, value.shape)) or SCALAR}:{str(value.dtype).removeprefix('torch.')}"
        for name, value in had.items()
        if isinstance(value, torch.Tensor)
    ]
    without = [name for name, p in parameters.items() if had.get(name) is None and (p.default is p.empty or none)]
    if not shown and not without:
        return ""
    said = [
        f"it ran {verb} {', '.join(names[:_NAMED])}{', …' if len(names) > _NAMED else ''}"
        for verb, names in (("on", shown), ("without", without))
        if names
    ]
    return f"{' and '.join(said).replace('and it ran', 'and')}; give inputs with --input NAME={FORM}"


def _parameters(module: Any) -> Mapping[str, inspect.Parameter] | None:
    """Those of what a module runs, None if it does not say; a compiled one wraps another."""
    from partita.inside.torch_inside import uncompiled

    try:
        return inspect.signature(uncompiled(module).forward).parameters
    except (TypeError, ValueError):
        return None


def _named(module: Any) -> dict[str, inspect.Parameter]:
    """The named parameters of a module."""
    found = (_parameters(module) or {}).items()
    return {name: p for name, p in found if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}


def _places(parameters: Mapping[str, inspect.Parameter]) -> list[str]:
    return [name for name, parameter in parameters.items() if parameter.kind is not parameter.KEYWORD_ONLY]


def _place(name: str, order: list[str], count: int) -> int | None:
    """Where among ``count`` positional arguments a name stands; None if it is given by name."""
    number = name.removeprefix("input")
    place = order.index(name) if name in order else int(number) if number.isdigit() and number != name else count
    return place if place < count else None


def _check_name(name: str, module: Any, what: str, *, strict: bool) -> None:
    """Refuse a name that is no parameter; not ``strict``, a module that takes any name takes all but slips."""
    known, parameters = _named(module), _parameters(module)
    others: Any = None
    if parameters is not None:
        rest = [p for p in parameters.values() if p.kind is p.VAR_KEYWORD]
        # Typed as the names of a table.
        typed = typing.get_args(rest[0].annotation) if rest else ()
        others = next((getattr(each, "__annotations__", None) for each in typed), None if rest else ())
    if others is not None and name in others:
        return
    # What takes any name would swallow a slip of the pen.
    if strict or others is not None or difflib.get_close_matches(name, known, n=1, cutoff=0.8):
        raise InputError(f"{what} takes no input {name!r}{nearest(name, known) if known else ''}")


def _inside(holder: Any, path: list[str], value: Any, name: str) -> Any:
    """A copy of nested lists and tables with one entry changed."""
    key = path[0]
    if isinstance(holder, Mapping) and (len(path) == 1 or key in holder):
        return {**holder, key: value if len(path) == 1 else _inside(holder[key], path[1:], value, name)}
    if isinstance(holder, (list, tuple)) and key.isdigit() and int(key) < len(holder):
        changed = list(holder)
        changed[int(key)] = value if len(path) == 1 else _inside(changed[int(key)], path[1:], value, name)
        return changed if isinstance(holder, list) else tuple(changed)
    raise InputError(f"input {name!r} has no place: {key!r} is no entry of a {type(holder).__name__}")
