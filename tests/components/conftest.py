"""Toys among the components, for one test at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import partita as pt
from components.toys import COMPONENTS
from partita.ground.registry import given
from running.command_line import Run, partita

__all__ = ["partita"]


@pytest.fixture
def toys() -> Iterator[None]:
    """All of them registered."""
    for component in COMPONENTS:
        pt.register(component)
    try:
        yield
    finally:
        for component in reversed(COMPONENTS):
            pt.unregister(component)
        assert not given()


@pytest.fixture
def document(partita: Callable[..., Run]) -> Callable[..., dict[str, Any]]:
    """What a command prints as JSON."""
    return lambda *arguments: partita(*arguments, "--json").document
