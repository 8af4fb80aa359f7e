"""What can be asked of a throughput plan: one declaration for keywords, flags and settings."""

from __future__ import annotations

from typing import Annotated

from partita.problems.kind import SearchOptions
from partita.problems.settings import setting
from partita.problems.throughput.plan import Contiguity

__all__ = ["Options"]


class Options(SearchOptions, frozen=True, kw_only=True):
    """What a search may use.

    Attributes
    ----------
    contiguity
        The splits to search.
    """

    contiguity: Annotated[Contiguity, setting("acyclic: stages in a row; free: any assignment.")] = "acyclic"
