"""Inputs of an ONNX file that the user gives: sizes of open dimensions, and values."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from partita.frontends.given import OWN, Array, array_of, is_array
from partita.frontends.onnx.arrays import TYPES
from partita.frontends.onnx.dims import dimension_name, is_open
from partita.frontends.options import nearest
from partita.ground.errors import InputError

#: Elements up to which whole numbers have values.
_MOST = 2**18
#: Elements of what is a size or a flag rather than something to work on.
FEW = 64


def given_arrays(path: str, inputs: list[Any], given: Mapping[str, Any]) -> dict[str, Array]:
    """Given inputs by name, as arrays of the number formats that the file states.

    Raises
    ------
    InputError
        If the file has no such input, or one of another format.
    """
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


def open_fields(path: str, inputs: list[Any], given: Mapping[str, Array]) -> dict[str, str]:
    """Sizes of open dimensions that follow from given shapes; a size other than the file states is an error."""
    fields: dict[str, str] = {}
    for each in inputs:
        if each.name not in given or not each.type.tensor_type.HasField("shape"):
            continue
        shape, dims = _shape(given[each.name], each, path), each.type.tensor_type.shape.dim
        if len(shape) != len(dims):
            raise InputError(f"{path}: input {each.name!r} has {len(dims)} dimensions; {list(shape)} has {len(shape)}")
        for axis, (side, dim) in enumerate(zip(shape, dims, strict=True)):
            name = dimension_name(each.name, axis, dim)
            known = fields.setdefault(name, str(side)) if is_open(dim) else str(dim.dim_value)
            if known != str(side):
                raise InputError(
                    f"{path}: input {each.name!r} has size {known} at axis {axis}, not {side}; give it that"
                )
    return fields


def _shape(array: Array, each: Any, path: str) -> tuple[int, ...]:
    return array.shape if array.shape is not None else np.shape(_content(array, each.name, path))


def known_values(array: Array, name: str, path: str) -> Any:
    """The content of a given input where code may ask for it: values, or small whole numbers drawn in their range."""
    if array.values is not None:
        return _content(array, name, path)
    if array.low is None or array.high is None or not array.whole or math.prod(array.shape or ()) > _MOST:
        return None
    drawn = np.random.default_rng(zlib.crc32(name.encode()))
    return drawn.integers(int(array.low), int(array.high), array.shape, dtype=array.dtype, endpoint=True)


def _content(array: Array, name: str, path: str) -> Any:
    # Formats that numpy has not are as wide as what sizes are read from.
    dtype = array.dtype if hasattr(np, array.dtype) else "float32"
    try:
        return np.asarray(array.values, dtype=dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{path}: the values of input {name!r} are no array of {array.dtype}: {error}") from None
