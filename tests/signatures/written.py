"""Functions as they are written: parameters and types as source, read and written."""

from __future__ import annotations

import ast
import dataclasses
import sys
import typing
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from partita.problems.kind import AnyKind, Kind
from signatures.keywords import WIDTH, Imports

#: What functions return for any problem, for which a written one says what each problem has.
OF_ANY = ("Any", "Stated", "AnyAnswer", "Answer[Any, Any, Any]")


@dataclass(frozen=True)
class Argument:
    """One of a function's parameters; of those with a default as source."""

    name: str
    type: str
    default: str = ""
    named: bool = False  #: Whether it is given by name.

    def __str__(self) -> str:
        return f"{self.name}: {self.type}" + (f" = {self.default}" if self.default else "")


@dataclass(frozen=True)
class SourceSignature:
    """What a function looks like where it is: parameters but for the settings, what it returns, what it says."""

    parameters: Sequence[Argument]
    returns: str
    doc: str

    def taking(self, but: Iterable[str] = (), **types: str) -> list[Argument]:
        """The parameters, but for some, of some with another type; one of those that are given by name needs a value.

        A type ``None`` is that of a parameter that is not given.
        """
        left_out = set(but)
        kept = [one for one in self.parameters if one.name not in left_out]
        return [
            one
            if one.name not in types
            else dataclasses.replace(one, type=types[one.name], default="None" if types[one.name] == "None" else "")
            for one in kept
        ]


def read_source(module: ModuleType, name: str, imports: Imports) -> SourceSignature:
    """A function of a module as it is written, with imports of the types that it names."""
    tree = ast.parse(Path(str(module.__file__)).read_text())
    found = next(one for one in tree.body if isinstance(one, ast.FunctionDef) and one.name == name)
    homes = {
        alias.asname or alias.name: (str(node.module), alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }

    def shown(annotation: ast.expr | None) -> str:
        assert annotation is not None
        for part in ast.walk(annotation):
            if isinstance(part, ast.Name) and part.id != "Any":
                if part.id in homes:
                    imports.add(*homes[part.id])
                elif hasattr(module, part.id):
                    imports.add(module.__name__, part.id)
        return ast.unparse(annotation)

    args = found.args
    missing: list[ast.expr | None] = [None] * (len(args.args) - len(args.defaults))
    plain = zip(args.args, [*missing, *args.defaults], strict=True)
    named = zip(args.kwonlyargs, args.kw_defaults, strict=True)
    parameters = [
        Argument(one.arg, shown(one.annotation), _source(default), by_name)
        for pairs, by_name in ((plain, False), (named, True))
        for one, default in pairs
    ]
    returns = "" if _source(found.returns) in OF_ANY else shown(found.returns)
    return SourceSignature(parameters, returns, ast.get_docstring(found) or "")


def _source(expression: ast.expr | None) -> str:
    if expression is None:
        return ""
    text = ast.unparse(expression)
    return text.replace("'", '"') if isinstance(expression, ast.Constant) else text


def types_of(kind: AnyKind, imports: Imports) -> list[str]:
    """Problem, plan and evaluation of a kind, by name, imported."""
    found: tuple[Any, ...] = ()
    for each in type(kind).__mro__:
        for base in vars(each).get("__orig_bases__", ()):
            if (
                not found
                and typing.get_origin(base) is Kind
                and not isinstance(typing.get_args(base)[0], typing.TypeVar)
            ):
                found, home = typing.get_args(base), each.__module__
    names = []
    for part in found:
        if isinstance(part, typing.ForwardRef):
            tree = ast.parse(Path(str(sys.modules[home].__file__)).read_text())
            module = next(
                str(node.module)
                for node in ast.walk(tree)
                if isinstance(node, ast.ImportFrom) and part.__forward_arg__ in {alias.name for alias in node.names}
            )
            names.append(imports.add(module, part.__forward_arg__))
        else:
            names.append(imports.add_type(part))
    return names


def call_text(head: str, parts: Sequence[str], tail: str) -> str:
    """What has parts in brackets, on as many lines as the formatter gives it."""
    joined = ", ".join(parts)
    if len(head) + len(joined) + len(tail) <= WIDTH:
        return head + joined + tail
    if len(joined) + 4 <= WIDTH:
        return f"{head}\n    {joined}\n{tail}"
    return "\n".join([head, *(f"    {part}," for part in parts), tail])


def signature_text(name: str, parameters: Sequence[Argument], settings: str, returns: str, end: str) -> str:
    """The first lines of a function."""
    placed = [str(one) for one in parameters if not one.named]
    named = [str(one) for one in parameters if one.named]
    rest = [f"**settings: Unpack[{settings}]"] if settings else []
    return call_text(f"def {name}(", [*placed, *(["*"] if named else []), *named, *rest], f") -> {returns}:{end}")


def import_lines(imports: Imports) -> str:
    """Imports in the order of the linter."""
    modules: dict[str, list[str]] = {}
    for name, home in imports.homes.items():
        modules.setdefault(home, []).append(name)
    groups: tuple[list[str], list[str]] = ([], [])
    for module in sorted(modules):
        names = sorted(modules[module], key=lambda name: (not name.isupper(), not name[0].isupper(), name))
        line = f"from {module} import {', '.join(names)}"
        if len(line) > WIDTH:
            line = f"from {module} import (\n" + "".join(f"    {name},\n" for name in names) + ")"
        groups[module.startswith("partita")].append(line)
    return "\n\n".join("\n".join(group) for group in groups if group) + "\n"
