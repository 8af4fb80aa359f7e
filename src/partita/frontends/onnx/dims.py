"""Sizes that a file leaves open, settled by what the user gives, and inputs whose shapes or values are given."""

from __future__ import annotations

import ast
import math
import re
import shlex
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from partita.frontends.given import OWN, GivenArray, array_of, is_array
from partita.frontends.onnx.arrays import TYPES
from partita.frontends.options import Asked, computed, nearest
from partita.ground.errors import InputError, NoBatchSizeError

#: Elements up to which whole numbers have values.
_MOST = 2**18
#: Elements of what is a size or a flag rather than something to work on.
FEW = 64


def open_sizes(inputs: Iterable[Any]) -> dict[str, list[str]]:
    """Names of dimensions without a size, with where they are; one without a name is ``INPUT.AXIS``."""
    found: dict[str, list[str]] = {}
    for each in inputs:
        for axis, side in enumerate(sides_of(each)):
            if isinstance(side, str):
                found.setdefault(side, []).append(f"{each.name}[{axis}]")
    return found


def sides_of(each: Any) -> list[int | str]:
    """The sizes that a file states for an array, and names of those that it leaves open."""
    # Some exporters write -1 for a size that is open.
    return [
        dim.dim_value if dim.HasField("dim_value") and dim.dim_value != -1 else dim.dim_param or f"{each.name}.{axis}"
        for axis, dim in enumerate(each.type.tensor_type.shape.dim)
    ]


def follow(name: str, sizes: Mapping[str, int]) -> int | None:
    """The size that a name such as ``past + 1`` stands for, where all in it are known: sums, products, quotients."""
    if "**" in name:
        return None
    try:
        # Exporters write a quotient of whole numbers as a fraction.
        size: int = computed(ast.parse(re.sub("/+", "//", name), mode="eval").body, sizes.__getitem__)
        return size
    except (ArithmeticError, KeyError, SyntaxError, TypeError, ValueError):
        return None


#: What exporters call the dimension of samples.
_BATCH = re.compile(r"(n|bs|b|nb|batch|batch.?size|batch.?dim|num.?batch(es)?)", re.IGNORECASE)


def _batch(places: Mapping[str, Sequence[str]]) -> str | None:
    """The open dimension of samples: one that is called so, else the first if it is the first axis of its input."""
    named = [name for name in places if _BATCH.fullmatch(name)]
    # Short names may mean anything: they do where they come first.
    named = [name for name in named if len(name) > 2 or any(place.endswith("[0]") for place in places[name])]
    if named:
        return max(named, key=len)
    first = next(iter(places), None)
    return first if first is not None and places[first][0].endswith("[0]") else None


def settle(path: str, inputs: list[Any], asked: Asked) -> dict[str, int]:
    """A size for every dimension that the inputs leave open.

    The batch is the dimension that is called so, else the first open one, where that is the first axis of its input. A
    size such as ``past + 1`` follows from others. The batch is at least 1; others may be 0, as a past is at first. A
    size that is missing, no whole number, or given for what there is not, is an ``InputError``.
    """
    places = open_sizes(inputs)
    sizes: dict[str, int] = {}
    batch = _batch(places)
    for name, text in asked.fields.items():
        if name not in places:
            what = nearest(name, places) if places else "; it states all sizes"
            raise InputError(f"{path} has no open dimension {name!r}{what}")
        least = 1 if name == batch else 0
        if not text.strip().isdigit() or int(text) < least:
            raise InputError(
                f"dimension {name!r} of {path} is set to {text!r}; give a whole number of at least {least}"
            )
        sizes[name] = int(text)
    if asked.batch_size is not None:
        if batch is None:
            raise NoBatchSizeError(f"{path} leaves no batch size open; leave --batch-size out, or export it with one")
        if sizes.setdefault(batch, asked.batch_size) != asked.batch_size:
            raise InputError(
                f"dimension {batch!r} of {path} is the batch: --batch-size {asked.batch_size} and --set "
                f"{batch}={sizes[batch]} differ; leave one of both out"
            )
    for name in places:
        if name not in sizes and (size := follow(name, sizes)) is not None:
            if size < 0:
                raise InputError(f"dimension {name!r} of {path} would be {size}; set the sizes in it to others")
            sizes[name] = size
    missing = [name for name in places if name not in sizes]
    if missing:
        named = ", ".join(f"{name!r} ({', '.join(places[name][:3])})" for name in missing)
        ways = " ".join(f"--set {shlex.quote(name)}=VALUE" for name in missing)
        also = f" ({batch!r} also as --batch-size)" if batch in missing else ""
        raise InputError(f"{path} leaves sizes open: {named}; give {ways}{also}")
    return sizes


def input_shape(path: str, each: Any, sizes: dict[str, int]) -> tuple[int, ...]:
    """The shape of an input, its open dimensions settled."""
    kind = each.type.WhichOneof("value")
    if kind != "tensor_type":
        raise InputError(
            f"{path}: input {each.name!r} is a {str(kind).removesuffix('_type')}, not an array; export the model with "
            "arrays alone"
        )
    if not each.type.tensor_type.HasField("shape"):
        raise InputError(f"{path}: input {each.name!r} states no shape, not even how many dimensions; export it again")
    shape = [sizes[side] if isinstance(side, str) else side for side in sides_of(each)]
    for axis, size in enumerate(shape):
        if size < 0:
            raise InputError(f"{path}: input {each.name!r} has size {size} at axis {axis}; sizes cannot be negative")
    return tuple(shape)


def declared_shape(each: Any, sizes: dict[str, int]) -> tuple[int | None, ...] | None:
    """The shape that a file states for an array, None where it cannot be told."""
    if each.type.WhichOneof("value") != "tensor_type" or not each.type.tensor_type.HasField("shape"):
        return None
    return tuple(sizes.get(s, follow(s, sizes)) if isinstance(s, str) else s for s in sides_of(each))


# -- inputs that are given ---------------------------------------------------------------------------------------------


def given_arrays(path: str, inputs: list[Any], given: Mapping[str, Any]) -> dict[str, GivenArray]:
    """Given inputs by name, as arrays of the number formats that the file states; others are an ``InputError``."""
    formats = {each.name: TYPES.get(each.type.tensor_type.elem_type, ("", 0))[0] for each in inputs}
    found = {}
    for name, value in given.items():
        if name not in formats:
            raise InputError(f"{path} has no input {name!r}{nearest(name, formats)}")
        own = formats[name]
        if value is None or (isinstance(value, (str, Mapping)) and not is_array(value)):
            raise InputError(f"{path}: input {name!r} is an array, and not left out; give its shape or values")
        table = value if is_array(value) else {"values": value, "dtype": own}
        array = array_of(table, f"{path}: input {name!r}")
        if array.dtype not in (own, OWN):
            raise InputError(f"{path}: input {name!r} is {own}, not {array.dtype}; write {own}, or convert the file")
        found[name] = array
    return found


def open_fields(path: str, inputs: list[Any], given: Mapping[str, GivenArray]) -> dict[str, str]:
    """Sizes of open dimensions that follow from given shapes; a size other than the file states is an error."""
    fields: dict[str, str] = {}
    for each in inputs:
        if each.name not in given or not each.type.tensor_type.HasField("shape"):
            continue
        array, sides = given[each.name], sides_of(each)
        shape = array.shape if array.shape is not None else np.shape(_content(array, each.name, path))
        if len(shape) != len(sides):
            raise InputError(f"{path}: input {each.name!r} has {len(sides)} dimensions; {list(shape)} has {len(shape)}")
        for axis, (size, side) in enumerate(zip(shape, sides, strict=True)):
            known = fields.setdefault(side, str(size)) if isinstance(side, str) else str(side)
            if known != str(size):
                raise InputError(
                    f"{path}: input {each.name!r} has size {known} at axis {axis}, not {size}; give it that"
                )
    return fields


def known_values(array: GivenArray, name: str, path: str) -> Any:
    """The content of a given input where code may ask for it: values, or small whole numbers drawn in their range."""
    if array.values is not None:
        return _content(array, name, path)
    if array.low is None or array.high is None or not array.whole or math.prod(array.shape or ()) > _MOST:
        return None
    drawn = np.random.default_rng(zlib.crc32(name.encode()))
    return drawn.integers(int(array.low), int(array.high), array.shape, dtype=array.dtype, endpoint=True)


def _content(array: GivenArray, name: str, path: str) -> Any:
    # Formats that numpy has not are as wide as what sizes are read from.
    dtype = array.dtype if hasattr(np, array.dtype) else "float32"
    try:
        return np.asarray(array.values, dtype=dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{path}: the values of input {name!r} are no array of {array.dtype}: {error}") from None
