"""Which code is installed, and so has a version, and which is somebody's own and may change between two runs."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
import sysconfig
from functools import cache
from importlib import metadata
from pathlib import Path
from types import FunctionType
from typing import Any

from partita.ground.sources import ROOT, digest_of

#: Files up to this size are compared by content, larger ones by size and time of change.
MOST_READ_BYTES = 2**28

#: What stands for a file where libraries make functions from text.
_MADE = ("<string>", "<frozen ", "<eval_with_key>", "<attrs generated ", "<__array_function__ internals>")


@cache
def _folders() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    found = {paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")} | {str(ROOT)}
    if sys.prefix != sys.base_prefix:
        # All of a virtual environment.
        found.add(sys.prefix)
    return tuple(sorted({each + os.sep for name in found for each in (name, os.path.realpath(name))}))


@cache
def is_installed(file: str) -> bool:
    """Whether a file is of Python, of an installed package or of partita, or none at all, as of a named tuple."""
    if file.startswith((*_MADE, *_folders())):
        return True
    return not {"site-packages", "dist-packages"}.isdisjoint(Path(file).parts)


def is_of_system(file: str) -> bool:
    """Whether a file says something about the machine rather than the model."""
    return file.startswith(("/proc/", "/sys/", "/dev/")) or file == os.devnull


@cache
def installed_packages() -> str:
    """A digest of all that is installed, by names and versions as their folders have them."""
    names: list[str] = []
    for folder in sys.path:
        try:
            names += (name for name in os.listdir(folder or ".") if name.endswith((".dist-info", ".egg-info")))
        except OSError:
            continue
    return hashlib.sha256("\n".join(sorted(set(names))).encode()).hexdigest()


def version_of(package: str) -> str | None:
    """The version of an installed package, which is not imported.

    None for one that is not there, and for one that is imported from elsewhere, where its source may be worked on.
    """
    try:
        found = metadata.distribution(package)
    except metadata.PackageNotFoundError:
        return None
    spec = importlib.util.find_spec(package)
    own = os.path.realpath(str(found.locate_file(f"{package}/__init__.py")))
    return found.version if spec is not None and spec.origin and os.path.realpath(spec.origin) == own else None


@cache
def frontends_digest() -> str:
    """Of partita's own code that makes graphs, with its tables."""
    rooms = [ROOT / "frontends", ROOT / "inside"]
    code = [path for room in rooms for path in room.rglob("*.py")]
    return digest_of(
        code, [path for room in rooms for end in ("toml", "txt") for path in sorted(room.rglob(f"*.{end}"))]
    )


def content_of(file: str) -> str | None:
    """What is in a file, in short; None if it cannot be read."""
    try:
        with open(file, "rb") as stream:
            known = os.fstat(stream.fileno())
            if known.st_size > MOST_READ_BYTES:
                return f"{known.st_size} bytes of {known.st_mtime_ns}"
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError:
        return None


def own_modules() -> dict[str, str]:
    """The files of all loaded modules that are not installed, by module; not that of the running script."""
    found = {name: getattr(module, "__file__", None) for name, module in sys.modules.copy().items()}
    return {
        name: file
        for name, file in found.items()
        if name != "__main__" and isinstance(file, str) and not is_installed(os.path.abspath(file))
    }


def is_installed_module(module: str) -> bool:
    """Whether a loaded module is of an installed package."""
    file = getattr(sys.modules.get(module), "__file__", None)
    return module != "__main__" and isinstance(file, str) and is_installed(os.path.abspath(file))


def is_as_installed(module: str) -> bool:
    """Whether no function of a module or of its classes was put there by somebody's own code; or it is not loaded."""
    loaded = sys.modules.get(module)
    if loaded is None:
        return True
    values = list(vars(loaded).values())
    values += [value for each in values if isinstance(each, type) for value in vars(each).values()]
    return all(is_installed(code.co_filename) for value in values if (code := _code_of(value)) is not None)


def _code_of(value: Any) -> Any:
    function = getattr(value, "__func__", value)
    return function.__code__ if isinstance(function, FunctionType) else None
