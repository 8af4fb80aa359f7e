"""The one decorator of the compiled kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numba

__all__ = ["compiled"]

Function = TypeVar("Function", bound=Callable[..., object])


def compiled(function: Function) -> Function:
    """Compile on first use, keep the machine code on disk, and run without the interpreter lock."""
    return cast("Function", numba.njit(cache=True, nogil=True)(function))
