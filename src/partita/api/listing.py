"""Settings for what looks at functions while they run: completion in notebooks reads a signature, help a docstring."""

from __future__ import annotations

import ast
import functools
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import Any, TypeVar, cast

FunctionT = TypeVar("FunctionT", bound=Callable[..., object])

_LITERAL = re.compile(r"Literal\[([^\]]*)\]")


class _Unset:
    """Stands for the default of a setting, which its description says."""

    def __repr__(self) -> str:
        return "…"


@dataclass(frozen=True)
class _Described:
    """A setting as help shows it."""

    name: str
    type: str
    sentence: str

    def lines(self) -> list[str]:
        """As in the docstring of a function, without its indentation."""
        types = _LITERAL.sub(r"{\1}", self.type)
        return _wrapped(f"{self.name} : {types}", "        ", "") + _wrapped(self.sentence, "    ", "    ")


@functools.cache
def _classes(module: str) -> Mapping[str, ast.ClassDef]:
    """The classes of a module as they are written; of one whose source is not there none."""
    try:
        tree = ast.parse(inspect.getsource(sys.modules[module]))
    except OSError:
        return {}
    return {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}


def _described(settings: type[Any]) -> Iterator[_Described]:
    """The fields of a ``TypedDict`` below which its source says what they mean: those of its bases, and its own."""
    node = _classes(settings.__module__).get(settings.__name__)
    if node is None:
        return
    for base in node.bases:
        found = resolve_name(f"{settings.__module__}:{ast.unparse(base)}")
        if isinstance(found, type):
            yield from _described(found)
    for field, said in zip(node.body, node.body[1:], strict=False):
        match field, said:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                shown = ast.unparse(field.annotation).replace("'", '"')
                yield _Described(name, shown, " ".join(text.split()))


def _wrapped(text: str, indent: str, first: str) -> list[str]:
    wrapper = textwrap.TextWrapper(
        112, initial_indent=first, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return wrapper.wrap(text)


def _help(titled: Mapping[str, type[Any]], shared: str) -> Iterator[str]:
    """Settings by title; those that all have, and mean alike, come first, under a title of their own."""
    own = {title: list(dict.fromkeys(_described(settings))) for title, settings in titled.items()}
    first, *others = own.values()
    alike = [one for one in first if others and all(one in other for other in others)]
    for title, entries in {shared: alike, **own}.items():
        kept = [one for one in entries if title == shared or one not in alike]
        if kept:
            yield from ("", title, "-" * len(title))
            for one in kept:
                yield from one.lines()


def listed(
    settings: type[Any],
    titled: Mapping[str, type[Any]] | None = None,
    shared: str = "",
    *,
    written: Callable[..., object] | None = None,
) -> Callable[[FunctionT], FunctionT]:
    """A function that takes ``**settings`` lists each of them, a ``TypedDict``'s, in its signature.

    Its docstring has those that are ``titled`` under their titles, and those that all of these have under one more.
    One with overloads may be ``written`` elsewhere, whose parameters it then has.
    """

    def wrap(function: FunctionT) -> FunctionT:
        signature = inspect.signature(function if written is None else written)
        *known, rest = signature.parameters.values()
        each = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=_Unset(), annotation=kind.__forward_arg__)
            for name, kind in settings.__annotations__.items()
        ]
        rest = rest.replace(annotation=f"Unpack[{settings.__name__}]")
        found = function if written is None else calling(written)(function)
        found.__signature__ = signature.replace(parameters=[*known, *each, rest])  # type: ignore[attr-defined]
        if found.__doc__ is not None and titled is not None:
            found.__doc__ = "\n".join([inspect.cleandoc(found.__doc__), *_help(titled, shared)])
        return found

    return wrap


def calling(written: Callable[..., object]) -> Callable[[FunctionT], FunctionT]:
    """A function with overloads calls what is written elsewhere, whose parameters it has."""

    def wrap(function: FunctionT) -> FunctionT:
        @functools.wraps(function)
        def called(*given: object, **named: object) -> object:
            return written(*given, **named)

        del called.__wrapped__
        called.__signature__ = inspect.signature(written)  # type: ignore[attr-defined]
        return cast("FunctionT", called)

    return wrap
