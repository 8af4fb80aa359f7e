"""The heavier rooms of a problem: pricing from a model, files, report, sweep; and plain ones for problems without."""

from __future__ import annotations

from typing import Protocol, TypeVar

P = TypeVar("P")
L = TypeVar("L")
E = TypeVar("E")


class FromModel(Protocol[P]):
    """How a model on a cluster becomes a problem."""


class Files(Protocol[P, L, E]):
    """How plans are written and read."""


class Report(Protocol[P, L, E]):
    """Tables and sentences for people."""


class Sweep(Protocol[P, L]):
    """What can be swept."""
