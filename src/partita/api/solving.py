"""Solve: a problem in, the best plan and what is proven about it out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from partita.api.answer import Answer, AnyAnswer
from partita.conductor.solve import solve as solve_problem
from partita.engines.search.result import Progress
from partita.problems.importers import read_problem
from partita.problems.kind import Stated


def solve(
    problem: Stated | str | Path,
    *,
    time_limit_s: float | None = 60.0,
    seed: int = 0,
    solver: str | None = None,
    threads: int = 2,
    progress: Progress | None = None,
    target: float | None = None,
    explain: bool = True,
    **options: Any,
) -> AnyAnswer:
    """Find the best plan of a problem, and prove how good it is."""
    stated = read_problem(problem) if isinstance(problem, str | Path) else problem
    return Answer(
        solve_problem(
            stated,
            time_limit_s=time_limit_s,
            seed=seed,
            solver=solver,
            threads=threads,
            progress=progress,
            target=target,
            explain=explain,
            **options,
        )
    )
