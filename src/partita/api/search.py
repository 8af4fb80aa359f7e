"""How a search runs, for all public functions that search."""

from __future__ import annotations

from dataclasses import dataclass

from partita.engines.search.result import Progress


@dataclass(frozen=True, kw_only=True)
class Search:
    """How long, from which seed, by what and on how many threads is searched; None is no limit, or the usual."""

    time_limit_s: float | None = 60.0
    seed: int = 0
    solver: str | None = None
    threads: int = 2
    progress: Progress | None = None
