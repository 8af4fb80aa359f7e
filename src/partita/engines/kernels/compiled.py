"""The decorators of the compiled kernels and of their steps, and whether a kernel has been compiled before.

numba keeps machine code on disk and marks it with the file that defines the kernel, but the code also holds what the
kernel calls in other files. Here the mark is a digest of that file and of all that it imports, directly or not: an edit
makes the kernels compile again that could have read it, over their old code, and no others.

Where neither the package's folder nor the user's can be written, the code is kept in a folder of the user's own among
the temporary files; where that cannot be had, or the disk is full, every process compiles for itself.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import stat
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TypeVar, cast

import numba

from partita.engines.processes.claim import Claim
from partita.engines.search import compiling
from partita.ground.sources import digest_of
from partita.inside.numba_inside import (
    OF_CALLERS,
    PART_OF_CALLER,
    UNCOUNTED,
    CodeCache,
    cache_in,
    has_code,
    keep_code,
    on_compiling,
)

# It counts against nobody's time limit.
on_compiling(compiling.begin, compiling.end)

#: Seconds after which a process that should have compiled a kernel is taken to hang.
_MOST_WAIT_S = 120.0

Function = TypeVar("Function", bound=Callable[..., object])


@cache
def _digest(module: Path) -> str:
    """Of all that the kernels of a source file can call."""
    return digest_of([module])


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


class _Turn:
    """One process compiles a kernel, others that want it wait: for them that is compiling, too."""

    def __init__(self, path: Path) -> None:
        self.claim = Claim(path)

    def take(self) -> bool:
        compiling.begin()
        try:
            return self.claim.take(_MOST_WAIT_S)
        finally:
            compiling.end()

    def drop(self) -> None:
        self.claim.drop()


def _cache_of(function: Callable[..., object]) -> CodeCache | None:
    """Where the machine code of a function is kept; None for nowhere."""
    mark = _digest(_source_of(function))
    with contextlib.suppress(RuntimeError):
        return CodeCache(function, mark, _Turn)
    folder = _own_temporary_folder()
    with contextlib.suppress(RuntimeError):
        return None if folder is None else cache_in(folder, function, mark, _Turn)
    return None


def compiled(function: Function) -> Function:
    """Compile on first use, keep the machine code on disk, and run without the interpreter lock."""
    return _kept(function, {})


def allocating_nothing(function: Function) -> Function:
    """As ``compiled``, for kernels that make no arrays: those they are given are then not counted on every access.

    What it returns must be numbers, unless the caller allocates nothing either.
    """
    return _kept(function, UNCOUNTED)


def inlined(function: Function) -> Function:
    """A step of a kernel that allocates nothing, compiled into it: a call would pass all arrays of its tuples."""
    return cast("Function", numba.njit(**UNCOUNTED, **PART_OF_CALLER)(function))


def called(function: Function) -> Function:
    """A step that kernels call, and nobody else: not inlined, for it is large or called in several places."""
    return cast("Function", numba.njit(**OF_CALLERS)(function))


def called_allocating_nothing(function: Function) -> Function:
    """As ``called``, for steps of kernels that allocate nothing."""
    return cast("Function", numba.njit(**UNCOUNTED, **OF_CALLERS)(function))


def _kept(function: Function, options: dict[str, bool]) -> Function:
    kernel = numba.njit(nogil=True, **options)(function)
    if kernel is not function:  # numba leaves functions as they are where it is switched off
        keep_code(kernel, _cache_of(function))
    return cast("Function", kernel)


def is_compiled(kernel: Callable[..., object]) -> bool:
    """Whether a kernel's machine code, made from the sources as they are, is loaded or on disk for this processor."""
    return has_code(kernel)
