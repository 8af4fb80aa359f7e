"""Values in one short line: what large nouns show of themselves, instead of all that they hold."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

#: Characters of a line, of a part of it, and parts of a collection that are written out.
_LINE, _PART, _FEW = 1000, 80, 4


def brief(value: Any) -> str:
    """A structure or data class as one line: its short fields, and of long ones how much there is.

    It is what such a class takes as its ``__repr__``.
    """
    shown = []
    for name, part in _fields(value):
        shown.append(f"{name}={_part(part)}")
    return _cut(f"{type(value).__name__}({', '.join(shown)})", _LINE)


def _fields(value: Any) -> Iterator[tuple[str, Any]]:
    names = getattr(value, "__struct_fields__", None)
    if names is None:
        names = [field.name for field in dataclasses.fields(value) if field.repr]
    for name in names:
        yield name, getattr(value, name)


def _part(part: Any) -> str:
    if isinstance(part, str):
        return repr(part) if len(part) <= _PART else f"{part[: _PART - 1]!r}…"
    if part is None or isinstance(part, bool | int | float):
        return repr(part)
    if isinstance(part, Mapping) or hasattr(part, "__len__"):
        return _collection(part)
    if hasattr(part, "__struct_fields__") or dataclasses.is_dataclass(part):
        name = getattr(part, "name", None)
        return f"<{type(part).__name__}{f' {name[:_PART]!r}' if isinstance(name, str) else ''}>"
    return _cut(repr(part), _PART)


def _collection(part: Any) -> str:
    count = len(part)
    if count > _FEW:
        return f"<{count} entries>"
    if isinstance(part, Mapping):
        text = ", ".join(f"{key!r:.40}: {_part(each)}" for key, each in part.items())
        return "{" + text + "}" if len(text) <= _PART else f"<{count} entries>"
    if isinstance(part, tuple | list):
        text = ", ".join(map(_part, part))
        inside = f"({text}{',' if count == 1 else ''})" if isinstance(part, tuple) else f"[{text}]"
        return inside if len(text) <= _PART else f"<{count} entries>"
    return f"<{count} entries>"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
