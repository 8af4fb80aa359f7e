"""Reading a TOML or JSON file into plain values, and plain values strictly into types."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from partita.ground.errors import FormatError, InputError
from partita.ground.files import text_of

T = TypeVar("T")


def check_keys(where: str, data: Mapping[str, Any], valid: Iterable[str]) -> None:
    """Refuse keys that are not among the valid ones, naming both."""
    names = list(valid)
    for key in data:
        if key not in names:
            raise FormatError(f"{where}: unknown key {key!r}; valid keys are {', '.join(names)}")


def converted(where: str, data: Any, kind: type[T], *, strict: bool = True) -> T:
    """Plain values as a type: a wrong type or missing field is a ``FormatError``, what it refuses an ``InputError``."""
    try:
        return msgspec.convert(data, kind, strict=strict)
    except msgspec.ValidationError as error:
        known = InputError if isinstance(error.__cause__, InputError) else FormatError
        raise known(f"{where}: {error.__cause__ or error}") from None


def read_document(path: Path) -> dict[str, Any]:
    """The table a TOML or JSON file holds; a file without either suffix is tried as JSON, then as TOML."""
    text = text_of(path)
    is_json = path.suffix.lower() == ".json" or (path.suffix.lower() != ".toml" and text.lstrip()[:1] == "{")
    try:
        data = json.loads(text) if is_json else tomllib.loads(text)
    except ValueError as error:
        raise FormatError(f"{path} is not valid {'JSON' if is_json else 'TOML'}: {error}") from None
    if not isinstance(data, dict):
        raise FormatError(f"{path} must hold a table of keys, not {type(data).__name__}")
    return data


def shipped_tables(kind: str) -> list[dict[str, Any]]:
    """The tables of a file of the catalogue."""
    text = resources.files("partita.nouns.catalogue").joinpath(f"{kind}.toml").read_text(encoding="utf-8")
    tables: list[dict[str, Any]] = tomllib.loads(text)[kind]
    return tables
