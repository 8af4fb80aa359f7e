"""Digests of partita's own source: what was made by it is made again once it has changed."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

#: The folder of the package that this file is of, and its name; of what is imported from elsewhere the version counts.
ROOT, _PACKAGE = Path(__file__).resolve().parents[__name__.count(".") - 1], __name__.partition(".")[0]

#: What is imported and, after "from", the names: found as text, which is a tenth of parsing.
_IMPORT = re.compile(r"^[ \t]*(?:import[ \t]+(.*)|from[ \t]+([\w.]+)[ \t]+import[ \t]+(\([^)]*\)|.*))", re.MULTILINE)


@cache
def _read(source: Path) -> tuple[bytes, frozenset[Path]]:
    """The text of a source file and the files of the package that it imports, for types alone or not."""
    text = source.read_bytes()
    found: set[Path] = set()
    for modules, module, names in _IMPORT.findall(text.decode()):
        # What is imported from a module may be a module; "as" and what follows it name none.
        said = re.findall(r"[\w.]+", modules or names)
        for name in [module, *(f"{module}.{each}" for each in said)] if module else said:
            package, *rest = name.split(".")
            path = ROOT.joinpath(*rest).with_suffix(".py") if rest else ROOT / "__init__.py"
            if package == _PACKAGE and path.is_file():
                found.add(path)
    return text, frozenset(found)


def sources(*modules: Path) -> list[Path]:
    """Source files and all of the package that they import, directly or not, in one order."""
    found, left = set(modules), list(modules)
    while left:
        new = _read(left.pop())[1] - found
        found |= new
        left.extend(new)
    return sorted(found)


def digest_of(modules: Iterable[Path], beside: Iterable[Path] = ()) -> str:
    """Of source files with all that they import, and of files ``beside``; every source is read once in a process."""
    digest = hashlib.sha256()
    texts = [(path, _read(path)[0]) for path in sources(*modules)] + [(path, path.read_bytes()) for path in beside]
    for path, text in texts:
        for part in (os.path.relpath(path, ROOT).encode(), text):
            digest.update(len(part).to_bytes(8, "little"))
            digest.update(part)
    return digest.hexdigest()
