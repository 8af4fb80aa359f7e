"""Settings as keywords of Python functions: their types, and what they mean, from the declarations of the problems."""

from __future__ import annotations

import dataclasses
import re
import textwrap
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pkgutil import resolve_name
from typing import Any, Literal

import msgspec

from partita.ground.errors import InputError
from partita.problems import PROBLEMS, find_kind
from partita.problems.kind import AnyKind
from partita.problems.settings import Setting, settings_of

#: Most characters of a line.
WIDTH = 120

#: ``module:name`` in a hint.
_NAMED = re.compile(r"([\w.]+):(\w+)")


class Imports:
    """What a generated file imports, by module; of one name from two places it refuses the second."""

    def __init__(self) -> None:
        self.homes: dict[str, str] = {}

    def add(self, module: str, name: str) -> str:
        """The name, imported from a module."""
        if self.homes.setdefault(name, module) != module:
            raise InputError(f"{name} is in {self.homes[name]} and in {module}; rename one of them")
        return name

    def add_type(self, kind: type[Any]) -> str:
        """The name of a class, imported."""
        return self.add(kind.__module__, kind.__name__)

    def used_in(self, text: str) -> Imports:
        """Those that a source text names, but for its docstrings."""
        words = set(re.findall(r"\w+", re.sub(r'""".*?"""', "", text, flags=re.DOTALL)))
        found = Imports()
        found.homes = {name: home for name, home in self.homes.items() if name in words}
        return found

    def hint(self, text: str) -> str:
        """A hint with plain names, imported."""
        return _NAMED.sub(lambda found: self.add(found[1], found[2]), text)


@dataclass(frozen=True)
class Keyword:
    """A setting as a keyword: the types that it takes, what it means, in which unit, and what it is unless given."""

    name: str
    types: tuple[str, ...]
    meaning: str
    unit: str
    default: str

    @property
    def type(self) -> str:
        """All of the types, as an annotation."""
        return " | ".join(self.types)

    @property
    def sentence(self) -> str:
        """Meaning, unit and default."""
        return f"{self.meaning} [{'; '.join(part for part in (self.unit, self.default) if part)}]"

    def merged(self, other: Keyword) -> Keyword:
        """What takes the values of both."""
        both = dict.fromkeys((*self.types, *other.types))
        nothing = ["None"] if "None" in both else []
        types = (*(each for each in both if each != "None"), *nothing)
        return Keyword(self.name, types, self.meaning, self.unit, self.default)


@cache
def _flags() -> Mapping[str, str]:
    """Every flag of a setting, and the keyword that it is."""
    found: dict[str, str] = {}
    for kind in map(find_kind, PROBLEMS):
        for declaration in kind.declarations:
            found |= {entry.flag: name for name, entry in settings_of(declaration).items()}
    return found


def in_python(text: str) -> str:
    """A sentence that speaks of flags, about keywords."""
    return re.sub(r"--[a-z0-9][a-z0-9-]*", lambda found: _flags().get(found[0], found[0]), text)


def _item(entry: Setting, imports: Imports) -> tuple[str, ...]:
    """Types of one value."""
    if entry.choices:
        return (f"Literal[{', '.join(map(_quoted, entry.choices))}]",)
    if entry.in_bytes:
        return ("float", "str")
    return (imports.add_type(entry.item) if entry.item.__module__ != "builtins" else entry.item.__name__,)


def _quoted(text: str) -> str:
    return f'"{text}"'


def keyword(entry: Setting, imports: Imports, *, name: str = "", changes: bool = False) -> Keyword:
    """A setting as a keyword; one that ``changes`` a problem leaves it as it is unless given."""
    named = _NAMED.fullmatch(entry.hint)
    choices = typing.get_args(resolve_name(entry.hint)) if named else entry.choices
    if entry.hint and not choices:
        types = tuple(part.strip() for part in imports.hint(entry.hint).split(" | "))
    else:
        types = _item(dataclasses.replace(entry, type=Literal[choices]) if named else entry, imports)
        if entry.is_list:
            imports.add("collections.abc", "Sequence")
            types = (*types, f"Sequence[{' | '.join(types)}]")
        if entry.default is None and not (entry.is_list and changes):
            types = (*types, "None")
    if any(part.startswith("Literal") or "[Literal" in part for part in types):
        imports.add("typing", "Literal")
    shown = _quoted(entry.default) if isinstance(entry.default, str) else repr(entry.default)
    default = "unchanged unless given" if changes and entry.default in (None, False) else f"default: {shown}"
    meaning = in_python(entry.meaning or entry.help)
    return Keyword(name or entry.name, types, meaning, entry.unit or ("bytes" if entry.in_bytes else ""), default)


def keywords_of(
    declarations: Sequence[type[msgspec.Struct]], imports: Imports, kind: AnyKind, but: Iterable[str]
) -> dict[str, Keyword]:
    """The settings of declarations as keywords by name, of those of one name the first; but for some.

    What a declaration has must be a setting: ``InputError`` otherwise.
    """
    left_out = set(but)
    found: dict[str, Keyword] = {}
    for declaration in declarations:
        entries = settings_of(declaration, python=True)
        for name in declaration.__struct_fields__:
            if name in left_out or name in found:
                continue
            if name not in entries:
                raise InputError(f"{declaration.__name__}.{name} is not declared as a setting; give it a setting(…)")
            found[name] = keyword(entries[name], imports, changes=declaration is kind.changes)
    return found


def axes_of(kind: AnyKind, imports: Imports) -> dict[str, Keyword]:
    """Along what problems of a kind can be swept, as keywords."""
    return {axis.name: keyword(axis.setting, imports, name=axis.name, changes=True) for axis in kind.sweep.axes}


def merged(parts: Iterable[Mapping[str, Keyword]]) -> dict[str, Keyword]:
    """Keywords of all parts; one that several have takes the values of all."""
    found: dict[str, Keyword] = {}
    for part in parts:
        for name, entry in part.items():
            found[name] = found[name].merged(entry) if name in found else entry
    return found


def annotated(name: str, types: Sequence[str]) -> list[str]:
    """A field of a class."""
    line = f"    {name}: {' | '.join(types)}"
    if len(line) <= WIDTH:
        return [line]
    return [f"    {name}: (", f"        {types[0]}", *(f"        | {part}" for part in types[1:]), "    )"]


def attribute_doc(text: str) -> list[str]:
    """What a field means, below it."""
    lines = textwrap.wrap(text, WIDTH - 11, break_long_words=False, break_on_hyphens=False)
    if lines[-1].endswith('"'):
        lines[-1] += " "
    return (
        [f'    """{lines[0]}"""']
        if len(lines) == 1
        else [f'    """{lines[0]}', *(f"    {x}" for x in lines[1:]), '    """']
    )
