"""Inputs that a user gives: how they are written, in short or in a file, and what that means.

A given input is a plain value (a truth, a number, a text, a list or a table of these), or an array: a table with
``shape`` and ``dtype``, perhaps with ``low`` and ``high`` between which its values are drawn, or one with ``values``
and ``dtype``. Lists and tables may hold arrays. In short, an array is ``1x3x224x224:float32``, ``1x64:int64:0..99`` or
``[3, 5]:int64``.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from partita.frontends.options import FLOATS, nearest, parse_value
from partita.ground.errors import InputError
from partita.nouns.catalogue.files import check_keys, converted, read_document

#: What an array of no dimensions is written as.
SCALAR = "scalar"
#: The number format that the model computes in.
OWN = "float"
#: Number formats by every name that they have.
FORMATS: dict[str, str] = {
    **FLOATS,
    **{name: name for name in ("complex64", "complex128", "bool", "int8", "int16", "int32", "int64", "uint8", OWN)},
    "double": "float64",
    "int": "int32",
    "long": "int64",
}
FORM = "SHAPE:DTYPE[:LOW..HIGH], for example 1x3x224x224:float32 or 1x64:int64:0..99"

_SHORT = re.compile(
    r"(?P<what>[^:]*|\[.*\]):(?P<dtype>[A-Za-z_][\w.]*)(?::(?P<low>-?[\d.e+-]*?)\.\.(?P<high>-?[\d.e+-]*))?"
)
_SHAPE = re.compile(r"\d+(x\d+)*")


class GivenArray(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """An array as it is given: of a format of ``FORMATS``, with a shape or ``values`` as lists.

    Values are between ``low`` and ``high``, both included; without them whole numbers are 1, truths true, and floating
    numbers have no data.
    """

    dtype: str
    shape: tuple[int, ...] | None = None
    low: float | None = None
    high: float | None = None
    values: Any = None

    @property
    def whole(self) -> bool:
        """Whether its values are whole numbers."""
        return "int" in self.dtype


def read_inputs(given: Mapping[str, Any]) -> dict[str, Any]:
    """Given inputs by name, checked, their short forms spelt out: plain values, with an array as a table."""
    return {name: _spelt_out(value, f"input {name!r}") for name, value in given.items()}


def read_short(entries: tuple[str, ...]) -> dict[str, Any]:
    """Given inputs of the form ``NAME=SHAPE:DTYPE[:LOW..HIGH]`` or ``NAME=VALUE``, by name."""
    found: dict[str, Any] = {}
    for entry in entries:
        name, equals, text = entry.partition("=")
        name = name.strip()
        if not equals or not name:
            raise InputError(f"--input {entry!r} is not of the form NAME={FORM}")
        if name in found:
            raise InputError(f"input {name!r} is given twice; leave one of both out")
        found[name] = text
    return read_inputs(found)


def read_file(path: str) -> dict[str, Any]:
    """Given inputs of a JSON or TOML file: a table of names with arrays, in short or in full, or plain values."""
    document = read_document(Path(path))
    try:
        return read_inputs(document)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def together(given: Mapping[str, Any], path: str | Path | None) -> dict[str, Any]:
    """Given inputs with those of a file, by name; none is in both."""
    found = {} if path is None else read_file(str(path))
    twice = sorted({*found} & {*given})
    if twice:
        raise InputError(f"input {twice[0]!r} is given by --input and in {path}; leave one of both out")
    return {**found, **given}


def is_array(value: Any) -> bool:
    """Whether a given value is an array."""
    return isinstance(value, Mapping) and bool({"shape", "values"} & set(value))


def array_of(table: Mapping[str, Any], what: str) -> GivenArray:
    """An array as it is given, checked."""
    check_keys(what, table, GivenArray.__struct_fields__)
    if "dtype" not in table:
        raise InputError(f"{what} states no dtype; add one, for example float32 or int64")
    array = converted(what, {**table, "dtype": _format(str(table["dtype"]), what)}, GivenArray)
    _check(array, what)
    return array


def given_sizes(given: Mapping[str, Any], *names: str) -> tuple[int, ...] | None:
    """The shape of the first of some inputs that is given as an array."""
    for name in names:
        if is_array(given.get(name)):
            shape = array_of(given[name], f"input {name!r}").shape
            return shape if shape is not None else _sides(given[name]["values"])
    return None


def _sides(values: Any) -> tuple[int, ...]:
    return (len(values), *_sides(values[0])) if isinstance(values, (list, tuple)) and values else ()


def _spelt_out(value: Any, what: str) -> Any:
    if isinstance(value, str):
        return _from_short(value.strip(), what)
    if isinstance(value, Mapping):
        if is_array(value) or "dtype" in value:
            return msgspec.json.decode(msgspec.json.encode(array_of(value, what)))
        return {str(name): _spelt_out(each, f"{what}, {name!r}") for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_spelt_out(each, what) if not isinstance(each, (int, float)) else each for each in value]
    if value is None or isinstance(value, (bool, int, float)):
        return value
    raise InputError(f"{what} is given as {type(value).__name__}; write {FORM}, or a plain value")


def _from_short(text: str, what: str) -> Any:
    try:
        plain = json.loads(text)
    except ValueError:
        pass
    else:
        return plain if isinstance(plain, str) else _spelt_out(plain, what)
    found = _SHORT.fullmatch(text)
    if found is None:
        if _SHAPE.fullmatch(text) or re.fullmatch(r"\d+(\s*,\s*\d+)+", text):
            sides = "x".join(re.findall(r"\d+", text))
            raise InputError(f"{what} is given as {text}, without a number format; write {sides}:float32, say")
        if ":" in text and re.match(r"[\d\[]|scalar", text):
            raise InputError(f"{what} is given as {text!r}; write {FORM}")
        return parse_value(text)
    table: dict[str, Any] = {"dtype": _format(found["dtype"], what)}
    body = found["what"].strip()
    if body.startswith("["):
        try:
            table["values"] = json.loads(body)
        except ValueError:
            raise InputError(f"{what}: {body} is no list of numbers; write [3, 5]:int64, say") from None
    elif body == SCALAR or _SHAPE.fullmatch(body):
        table["shape"] = [] if body == SCALAR else [int(side) for side in body.split("x")]
    else:
        raise InputError(f"{what}: {body!r} is no shape; write 1x3x224x224, or {SCALAR} for a single number")
    if found["low"] is not None:
        try:
            table |= {"low": float(found["low"]), "high": float(found["high"])}
        except ValueError:
            raise InputError(f"{what}: the values of {text!r} are given as no LOW..HIGH; write 0..99, say") from None
    return msgspec.json.decode(msgspec.json.encode(array_of(table, what)))


def _format(name: str, what: str) -> str:
    found = FORMATS.get(name.lower().removeprefix("torch."))
    if found is None:
        raise InputError(f"{what}: dtype {name!r} is not known{nearest(name, FORMATS)}")
    return found


def _check(array: GivenArray, what: str) -> None:
    if (array.shape is None) is (array.values is None):
        raise InputError(f"{what} states {'both' if array.shape else 'none'} of shape and values; give one of both")
    if array.shape is not None and any(side < 0 for side in array.shape):
        raise InputError(f"{what} has the shape {list(array.shape)}; sides cannot be negative")
    if array.low is None and array.high is None:
        return
    if array.values is not None:
        raise InputError(f"{what} states its values; leave low and high out")
    if array.low is None or array.high is None or not (math.isfinite(array.low) and math.isfinite(array.high)):
        raise InputError(f"{what} needs both low and high, as numbers, for example 0..99")
    if array.low > array.high:
        raise InputError(f"{what}: low {array.low:g} is above high {array.high:g}")
    if array.dtype == "bool" or "complex" in array.dtype:
        raise InputError(f"{what} is {array.dtype}, which has no range; leave it out, or give the values")
    if array.whole:
        bits, signed = int(array.dtype.lstrip("uint")), not array.dtype.startswith("u")
        least, most = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
        if array.low != int(array.low) or array.high != int(array.high):
            raise InputError(f"{what} is {array.dtype}; give whole numbers as low and high")
        if array.low < least or array.high > most:
            raise InputError(
                f"{what}: {array.low:g}..{array.high:g} is not within {least}..{most}, as {array.dtype} is"
            )
