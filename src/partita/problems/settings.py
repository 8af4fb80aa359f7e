"""Settings: options declared once, as the annotated fields of a structure.

A field's annotation says what it means and how it is written on the command line. Keywords of the Python functions,
command-line flags, their help, and the refusal of what a problem does not know (``InputError``, which says what is
expected) are all made from the declaration::

    class Options(SearchOptions, frozen=True, kw_only=True):
        contiguity: Annotated[Contiguity, setting("acyclic: stages in a row; free: any assignment.")] = "acyclic"
"""

from __future__ import annotations

import dataclasses
import math
import sys
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import msgspec

from partita.ground.errors import InputError
from partita.ground.names import no_option
from partita.ground.units import parse_bytes

StructT = TypeVar("StructT", bound=msgspec.Struct)


@dataclass(frozen=True)
class Setting:
    """One field of a declaration."""

    help: str  #: One sentence.
    flag: str = ""  #: The command-line flag; the field's name unless stated.
    group: str = ""  #: The group of the help page it is listed in; the problem's own unless stated.
    metavar: str = ""  #: What stands for the value on the help page.
    #: Limits of numbers: at least, more than, at most.
    least: float | None = None
    above: float | None = None
    most: float | None = None
    counts: bool = False  #: For lists of numbers: whether ranges such as ``8:64`` may be written.
    #: Whether it is for stated problems only: of a model, the cluster or the pricing says the same.
    stated: bool = False
    training: bool = False  #: Whether it says nothing of inference.
    inverted: bool = False  #: For flags that switch something off: ``--no-x`` sets ``x`` to false.
    in_bytes: bool = False  #: For numbers of bytes: a unit such as GB or GiB may be written.
    unit: str = ""  #: Of numbers: what is counted, or the unit; bytes where ``in_bytes`` says so.
    #: What it means as a keyword of a Python function, where ``help`` speaks of the flag.
    meaning: str = ""
    hint: str = ""  #: Its type as a keyword, where values are not checked by it; names as ``module:name``.
    python_only: bool = False  #: Whether it is a keyword, and no flag.
    #: Of the field; filled in by ``settings_of``.
    name: str = ""
    type: Any = None
    default: Any = None

    @property
    def is_switch(self) -> bool:
        """Whether the flag takes no value."""
        return self.type is bool

    @property
    def choices(self) -> tuple[str, ...]:
        """The values there are, if it is a choice among some."""
        item = self.item
        return typing.get_args(item) if typing.get_origin(item) is Literal else ()

    @property
    def item(self) -> Any:
        """The type of the value, or of its items if it is a list."""
        return typing.get_args(self.type)[0] if self.is_list else self.type

    @property
    def is_list(self) -> bool:
        """Whether it takes several values, with commas between them."""
        return typing.get_origin(self.type) is tuple

    def parse(self, text: str) -> Any:
        """The value of a text on the command line."""
        if not self.is_list:
            return self._one(text)
        if self.counts:
            found = [n for part in text.split(",") for n in self._range(part.strip())]
        else:
            found = [self._one(part.strip()) for part in text.split(",")]
        if len(set(found)) < len(found):
            raise InputError(f"{self.flag} {text!r} has a value twice")
        return tuple(found)

    def check(self, value: Any) -> Any:
        """The value, if it is within the limits; items of lists one by one."""
        for item in value if isinstance(value, (tuple, list)) else (value,):
            if not isinstance(item, (int, float)) or isinstance(item, bool):
                continue
            low = (self.least is None or item >= self.least) and (self.above is None or item > self.above)
            if not low or math.isnan(item) or (self.most is not None and item > self.most):
                raise InputError(f"{self.flag} {item:.12g} is out of range; give {self._wanted()}")
        return value

    def _wanted(self) -> str:
        noun = "a whole number" if self.item is int else "a number"
        if self.in_bytes:
            noun += " of bytes, such as 40GB, 40GiB, 80e9 or inf,"
        limits = {"of at least": self.least, "above": self.above, "at most": self.most}
        parts = [f"{words} {limit:.12g}" for words, limit in limits.items() if limit is not None]
        if self.most == sys.float_info.max:
            parts[-1] = "finite"
        return f"{noun} {' and '.join(parts)}".rstrip()

    def _one(self, text: str) -> Any:
        item = self.item
        if self.choices:
            if text not in self.choices:
                raise InputError(f"{self.flag} {text!r} is not one of {', '.join(self.choices)}")
            return text
        if item in (int, float):
            try:
                number = parse_bytes(text) if self.in_bytes else item(text)
            except ValueError:
                several = "; it takes one here" if "," in text or ":" in text else ""
                raise InputError(f"{self.flag} {text!r} is not {self._wanted()}{several}") from None
            return self.check(number)
        return text

    def _range(self, part: str) -> list[int]:
        """``32``; doubling ``8:64`` (8, 16, 32, 64); or in steps ``8:64:8``."""
        try:
            numbers = [int(piece) for piece in part.split(":")]
        except ValueError:
            raise InputError(
                f"{self.flag} {part!r} is no number, list such as 8,16,32 or range such as 8:64 or 8:64:8"
            ) from None
        if len(numbers) > 3 or min(numbers) < 1:
            raise InputError(
                f"{self.flag} {part!r} is out of range; numbers are at least 1, and a range is LOW:HIGH[:STEP]"
            )
        if len(numbers) == 1:
            return numbers
        low, high = numbers[:2]
        if low > high:
            raise InputError(f"{self.flag} {part!r} has its low end {low} above its high end {high}")
        if len(numbers) == 3:
            return list(range(low, high + 1, numbers[2]))
        found = []
        while low < high:
            found.append(low)
            low *= 2
        return [*found, high]


#: The annotation of a field.
setting = Setting


def settings_of(declaration: type[msgspec.Struct], *, python: bool = False) -> dict[str, Setting]:
    """The settings of a declaration by field name, of Python alone those too that have no flag.

    Fields without an annotation are no settings.
    """
    found = {}
    hints = typing.get_type_hints(declaration, include_extras=True)
    for field in msgspec.structs.fields(declaration):
        hint = hints[field.name]
        marks = [mark for mark in getattr(hint, "__metadata__", ()) if isinstance(mark, Setting)]
        if not marks or (marks[0].python_only and not python):
            continue
        kind = typing.get_args(hint)[0]
        if typing.get_origin(kind) in (typing.Union, types.UnionType):
            kind = next(part for part in typing.get_args(kind) if part is not type(None))
        mark = marks[0]
        default = None if field.default is msgspec.NODEFAULT else field.default
        flag = mark.flag or ("--no-" if mark.inverted else "--") + field.name.replace("_", "-")
        found[field.name] = dataclasses.replace(mark, name=field.name, type=kind, default=default, flag=flag)
    return found


def flags_of(declarations: Iterable[type[msgspec.Struct]]) -> dict[str, Setting]:
    """The settings of several declarations by flag; of one flag declared twice the first."""
    found: dict[str, Setting] = {}
    for declaration in declarations:
        for entry in settings_of(declaration).values():
            found.setdefault(entry.flag, entry)
    return found


def _read_bytes(entry: Setting, value: Any) -> Any:
    """Numbers of bytes, of which those that are texts are read as on the command line."""
    if isinstance(value, (tuple, list)):
        return tuple(_read_bytes(entry, item) for item in value)
    return entry.parse(value) if isinstance(value, str) and not entry.is_list else value


def read_settings(declaration: type[StructT], given: Mapping[str, Any], owner: str) -> StructT:
    """An instance of a declaration from keyword arguments; of a list, one value stands for itself alone.

    ``owner`` is what the settings are of, for messages: ``solve of a mapping problem``.
    """
    known = declaration.__struct_fields__
    for name in given:
        if name not in known:
            raise InputError(no_option(owner, name, known))
    entries, values = settings_of(declaration), dict(given)
    for name, value in given.items():
        if name in entries and value is not None:
            entry = entries[name]
            if entry.in_bytes:
                value = values[name] = _read_bytes(entry, value)
            if entry.choices and not entry.is_list and value not in entry.choices:
                raise InputError(f"{name} {value!r} is unknown; use {' or '.join(entry.choices)}")
            if entry.is_list:
                several = isinstance(value, Sequence) and not isinstance(value, str)
                value = values[name] = tuple(value) if several else (value,)
            entry.check(value)
    try:
        return msgspec.convert(values, declaration, strict=True)
    except msgspec.ValidationError as error:
        raise InputError(f"{owner}: {error}") from None
