"""Public names say which types they take and return, and none of these is ``Any``."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import sys
import types
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import partita

#: What classes have from elsewhere, and what only Python itself calls.
INHERITED = (object, float, Exception, type)


@functools.cache
def names_of(module: str) -> dict[str, Any]:
    """Whatever a module's annotations may name: its globals, and what it imports for annotations alone."""
    found = dict(vars(importlib.import_module(module)))
    for node in ast.walk(ast.parse(Path(str(sys.modules[module].__file__)).read_text())):
        if isinstance(node, ast.ImportFrom) and node.module is not None and node.module.startswith("partita"):
            for alias in node.names:
                found.setdefault(alias.asname or alias.name, getattr(importlib.import_module(node.module), alias.name))
            if node.module == "partita.api.typed":
                # Classes of settings derive from those there.
                found = names_of(f"{node.module}.{node.names[0].name}") | found
    return found


def evaluated(annotation: Any, names: dict[str, Any]) -> Any:
    """An annotation as a type; a name that is nowhere (of a library that may be missing) is some class."""
    while isinstance(annotation, (str, typing.ForwardRef)):
        text = annotation if isinstance(annotation, str) else annotation.__forward_arg__
        try:
            annotation = eval(text, names)
        except NameError as error:
            names[str(error.name)] = type(str(error.name), (), {})
    return annotation


def parts(kind: Any, names: dict[str, Any]) -> Iterator[Any]:
    """A type and what it is made of, through aliases."""
    kind = evaluated(kind, names)
    yield kind
    if typing.get_origin(kind) in (typing.Literal, np.ndarray):
        # Numpy says of the shape of an array that it is any.
        return
    for part in typing.get_args(kind):
        for one in part if isinstance(part, list) else [part]:
            yield from parts(one, names)


def says_any(kind: Any, module: str) -> bool:
    """Whether ``Any`` is somewhere in a type; of settings, also in what each is."""
    names = names_of(module)
    for part in parts(kind, names):
        if part is Any:
            return True
        if typing.is_typeddict(part) and any(says_any(entry, module) for entry in part.__annotations__.values()):
            return True
    return False


def unclear(function: Callable[..., Any], name: str) -> Iterator[str]:
    """Parameters and results of a function that say nothing, or ``Any``."""
    function = inspect.unwrap(function)
    if not isinstance(function, types.FunctionType):
        return
    signature = inspect.signature(function)
    given = {one.name: one.annotation for one in signature.parameters.values() if one.name not in ("self", "cls")}
    for parameter, annotation in {**given, "return": signature.return_annotation}.items():
        if annotation is inspect.Signature.empty:
            yield f"{name}: {parameter} has no type"
        elif says_any(annotation, function.__module__):
            yield f"{name}: {parameter} is {annotation}"


def functions_of(owner: type, name: str) -> Iterator[tuple[Callable[..., Any], str]]:
    """Public methods and properties of a class, and what it is made with, but for what it has from elsewhere."""
    for member in dir(owner):
        home = next((each for each in owner.__mro__ if member in vars(each)), object)
        if home in INHERITED or not home.__module__.startswith("partita") or member.startswith("_"):
            continue
        found = vars(home)[member]
        if isinstance(found, (classmethod, staticmethod)):
            found = found.__func__
        if isinstance(found, property):
            found = found.fget
        if isinstance(found, functools.cached_property):
            found = found.func
        if callable(found):
            yield found, f"{name}.{member}"


def fields_of(owner: type, name: str) -> Iterator[str]:
    """Public fields of a class that are ``Any``."""
    for each in owner.__mro__:
        if each.__module__.startswith("partita"):
            for member, annotation in vars(each).get("__annotations__", {}).items():
                if not member.startswith("_") and says_any(annotation, each.__module__):
                    yield f"{name}: {member} is {annotation}"


#: What components derive from, and what declares a setting: of any problem, plan and value, as whoever derives says.
BASES = {
    *("Exporter", "FileExporter", "FolderExporter", "ForeignFormat", "Kind", "Option", "SearchOptions", "setting"),
}


@pytest.mark.parametrize("name", [name for name in partita.__all__ if not name.startswith("__") and name not in BASES])
def test_types_are_said(name: str) -> None:
    public = getattr(partita, name)
    found: list[str] = []
    if inspect.isclass(public):
        found += fields_of(public, name)
        for function, title in functions_of(public, name):
            found += unclear(function, title)
    else:
        found += unclear(public, name)
        for overload in typing.get_overloads(public):
            found += unclear(overload, name)
    assert found == []
