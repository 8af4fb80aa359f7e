"""The decorators of the compiled kernels and of their steps, and whether a kernel has been compiled before.

numba keeps machine code on disk and marks it with the file that defines the kernel, but the code also holds what the
kernel calls in other files. Here the mark is a digest of that file and of all that it imports, directly or not: an edit
makes the kernels compile again that could have read it, over their old code, and no others.

Where neither the package's folder nor the user's can be written, the code is kept in a folder of the user's own among
the temporary files; where that cannot be had, or the disk is full, every process compiles for itself.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import os
import re
import stat
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.event import Listener, register

from partita.run import compiling


class _Compiling(Listener):  # type: ignore[misc]
    """Says when something is compiled, so that it counts against nobody's time limit."""

    def on_start(self, event: object) -> None:
        compiling.begin()

    def on_end(self, event: object) -> None:
        compiling.end()


# Not sent for machine code that is read from disk.
register("numba:compile", _Compiling())

Function = TypeVar("Function", bound=Callable[..., object])


#: The folder of the package that this file is of, and its name; of what is imported from elsewhere the version counts.
_ROOT, _PACKAGE = Path(__file__).resolve().parents[__name__.count(".") - 1], __name__.partition(".")[0]


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
            path = _ROOT.joinpath(*rest).with_suffix(".py") if rest else _ROOT / "__init__.py"
            if package == _PACKAGE and path.is_file():
                found.add(path)
    return text, frozenset(found)


def sources(module: Path) -> list[Path]:
    """A source file and all of the package that it imports, directly or not, in one order."""
    found, left = {module}, [module]
    while left:
        new = _read(left.pop())[1] - found
        found |= new
        left.extend(new)
    return sorted(found)


@cache
def _digest(module: Path) -> str:
    """Of all that the kernels of a source file can call; every file is read once in a process."""
    digest = hashlib.sha256()
    for path in sources(module):
        for part in (os.path.relpath(path, _ROOT).encode(), _read(path)[0]):
            digest.update(len(part).to_bytes(8, "little"))
            digest.update(part)
    return digest.hexdigest()


class _Index(IndexDataCacheFile):  # type: ignore[misc]
    """numba's list of the machine code of one function; empty where it names types that are no longer there."""

    def _load_index(self) -> dict[Any, str]:
        try:
            return cast("dict[Any, str]", super()._load_index())
        except (ImportError, AttributeError, TypeError):
            # Read before the mark could be compared, but made by other sources all the same.
            return {}


@cache
def _own_temporary_folder() -> str | None:
    """A folder among the temporary files that nobody else can write to; None where there is none to be had.

    Machine code is run as it is read, so a folder that somebody else made under that name is not used.
    """
    user = os.getuid() if hasattr(os, "getuid") else "user"
    try:
        folder = Path(tempfile.gettempdir()) / f"partita-kernels-{user}"
        folder.mkdir(mode=stat.S_IRWXU, exist_ok=True)
        found = folder.lstat()
    except OSError:
        return None
    mine = not hasattr(os, "getuid") or found.st_uid == os.getuid()
    shut = not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) or os.name == "nt"
    return str(folder) if stat.S_ISDIR(found.st_mode) and mine and shut else None


def _source_of(function: Callable[..., object]) -> Path:
    """Where a function is defined: in the package, or in a test."""
    return Path(inspect.getfile(function)).resolve()


class _PackageCache(FunctionCache):  # type: ignore[misc]
    """numba's cache of one function, where numba puts it, fresh as long as no source changes that it can call."""

    def __init__(self, function: Callable[..., object]) -> None:
        super().__init__(function)
        self._cache_file = _Index(
            cache_path=self._cache_path,
            filename_base=self._impl.filename_base,
            source_stamp=_digest(_source_of(function)),
        )

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep machine code, unless the disk takes none: it is in memory all the same."""
        with contextlib.suppress(OSError):
            super().save_overload(sig, data)

    def holds(self, processor: tuple[Any, ...]) -> bool:
        """Whether there is machine code for a processor, for whatever types."""
        return any(made_for == processor for _, made_for, _ in self._cache_file._load_index())


def _cache_of(function: Callable[..., object]) -> _PackageCache | None:
    """Where the machine code of a function is kept; None for nowhere."""
    # numba raises a RuntimeError where it finds no folder that can be written.
    with contextlib.suppress(RuntimeError):
        return _PackageCache(function)
    folder, stated = _own_temporary_folder(), numba.config.CACHE_DIR
    if folder is None:
        return None
    numba.config.CACHE_DIR = folder
    try:
        return _PackageCache(function)
    except RuntimeError:
        return None
    finally:
        numba.config.CACHE_DIR = stated


def compiled(function: Function) -> Function:
    """Compile on first use, keep the machine code on disk, and run without the interpreter lock."""
    return _kept(function, {})


def allocating_nothing(function: Function) -> Function:
    """As ``compiled``, for kernels that make no arrays: those they are given are then not counted on every access.

    What it returns must be numbers, unless the caller allocates nothing either.
    """
    return _kept(function, {"_nrt": False})


def inlined(function: Function) -> Function:
    """A step of a kernel that allocates nothing, compiled into it: a call would pass all arrays of its tuples."""
    options = {"_nrt": False, "forceinline": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return cast("Function", numba.njit(**options)(function))


def _kept(function: Function, options: dict[str, bool]) -> Function:
    kernel = numba.njit(nogil=True, **options)(function)
    if kernel is not function:  # numba leaves functions as they are where it is switched off
        kernel._cache = _cache_of(function) or kernel._cache
    return cast("Function", kernel)


def is_compiled(kernel: Callable[..., object]) -> bool:
    """Whether a kernel's machine code, made from the sources as they are, is loaded or on disk for this processor."""
    held = getattr(kernel, "_cache", None)
    if held is None or cast("Any", kernel).signatures:
        return True
    return isinstance(held, _PackageCache) and bool(held.holds(cast("Any", kernel).targetctx.codegen().magic_tuple()))
