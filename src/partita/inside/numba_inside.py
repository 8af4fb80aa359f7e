"""Private parts of numba: where machine code is kept on disk, when it compiles, what it loads, and hidden options.

numba marks its code with the file that defines a function; a mark of one's own needs the class of its index. All of it
has been there since numba 0.56.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol, cast

import numba
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.event import Listener, register
from numba.np import linalg

#: Options of a function that makes no arrays: those that it is given are not counted.
UNCOUNTED = {"_nrt": False}
#: Options of a step that compiled functions alone call, and of one that becomes a part of whoever calls it, too.
OF_CALLERS = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
PART_OF_CALLER = {"forceinline": True, **OF_CALLERS}


def on_compiling(begin: Callable[[], None], end: Callable[[], None]) -> None:
    """From now on, call these before and after something is compiled, not where machine code is read from disk."""

    class Compiling(Listener):  # type: ignore[misc]
        def on_start(self, event: object) -> None:
            begin()

        def on_end(self, event: object) -> None:
            end()

    register("numba:compile", Compiling())


class Turn(Protocol):
    """Who compiles a function, of several processes that want it."""

    def take(self) -> bool:
        """Wait for it; whether somebody else may have compiled the function meanwhile."""

    def drop(self) -> None:
        """The function is compiled, or was found."""


class CodeIndex(IndexDataCacheFile):  # type: ignore[misc]
    """numba's list of the machine code of one function; empty where it names types that are no longer there."""

    def _load_index(self) -> dict[Any, str]:
        try:
            return cast("dict[Any, str]", super()._load_index())
        except (ImportError, AttributeError, TypeError):
            # Read before the mark could be compared, but made by other sources all the same.
            return {}

    def processors(self) -> set[tuple[Any, ...]]:
        """The processors that there is machine code for, for whatever types."""
        return {made_for for _, made_for, _ in self._load_index()}


@contextlib.contextmanager
def _without_blas() -> Iterator[None]:
    """Let numba load its functions of arrays, as it does before its first kernel, without SciPy's linear algebra.

    It loads that, in a sixth of a second, to see whether it is there; what needs it loads it for itself.
    """
    if "numba.np.arraymath" in sys.modules or find_spec("scipy") is None:
        yield
        return
    loads = linalg.ensure_blas
    linalg.ensure_blas = lambda: None
    try:
        yield
    finally:
        linalg.ensure_blas = loads


class CodeCache(FunctionCache):  # type: ignore[misc]
    """The machine code of one function, where numba puts it, fresh as long as its ``mark`` is the same.

    ``turn`` makes what processes take turns by, from the path of a file that is for this alone.

    Raises
    ------
    RuntimeError
        If there is no folder that can be written.
    """

    def __init__(self, function: Callable[..., object], mark: str, turn: Callable[[Path], Turn]) -> None:
        super().__init__(function)
        self._cache_file = CodeIndex(
            cache_path=self._cache_path, filename_base=self._impl.filename_base, source_stamp=mark
        )
        self._turn = turn(Path(self._cache_path) / f"{self._impl.filename_base}.lock")

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Machine code that is there, or that another process is about to make; None for what is to be compiled."""
        with _without_blas():
            found = super().load_overload(sig, target_context)
        if found is None and self._turn.take():
            found = super().load_overload(sig, target_context)
        if found is not None:
            self._turn.drop()
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep machine code, unless the disk takes none: it is in memory all the same."""
        try:
            with contextlib.suppress(OSError):
                super().save_overload(sig, data)
        finally:
            self._turn.drop()


def cache_in(folder: str, function: Callable[..., object], mark: str, turn: Callable[[Path], Turn]) -> CodeCache:
    """A cache in a folder of one's own."""
    stated = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = folder
    try:
        return CodeCache(function, mark, turn)
    finally:
        numba.config.CACHE_DIR = stated


def keep_code(kernel: Any, cache: CodeCache | None) -> None:
    """Let a function that numba compiles keep its machine code in a cache; None for nowhere."""
    kernel._cache = cache or kernel._cache


def has_code(kernel: Any) -> bool:
    """Whether a function's machine code is loaded, or in its cache for this processor."""
    cache = getattr(kernel, "_cache", None)
    if cache is None or kernel.signatures:
        return True
    return isinstance(cache, CodeCache) and kernel.targetctx.codegen().magic_tuple() in cache._cache_file.processors()
