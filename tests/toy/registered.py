"""A problem from elsewhere among the problems, for a block of code."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import partita as pt
from partita.problems.kind import AnyKind

__all__ = ["registered"]


@contextlib.contextmanager
def registered(kind: AnyKind) -> Iterator[None]:
    """Register it, and take that back in any case."""
    pt.register(kind)
    try:
        yield
    finally:
        pt.unregister(kind)
