"""Documents as pages to look at."""

from __future__ import annotations

import html
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from partita.documents.document import write_atomic


def cell(document: Mapping[str, Any]) -> str:
    """What a notebook shows of a document."""
    shown = {key: value for key, value in document.items() if isinstance(value, str | int | float)}
    return f"<pre>{html.escape(msgspec.json.encode(shown).decode())}</pre>"


def page(document: Mapping[str, Any]) -> str:
    """One self-contained page."""
    return f"<!doctype html>\n<html lang='en'><body>{cell(document)}</body></html>\n"


def write_page(path: str | Path, document: Mapping[str, Any]) -> None:
    """Write the page, atomically."""
    write_atomic(path, page(document).encode())
