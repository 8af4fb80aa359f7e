"""The command line with independent tasks among the problems; says on stderr when the search has its first plan."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from partita.cli import main
from partita.components.register import register
from toy.tasks import Branching, Tasks


class Telling(Branching):
    """The search, and a word about its first plan."""

    def solve(self, problem: Any, options: Any, monitor: Any) -> Any:
        """As the search does."""
        told: list[float] = []

        def tell(event: Any) -> None:
            if event.objective is not None and not told:
                told.append(event.objective)
                print("first plan", file=sys.stderr, flush=True)

        monitor.progress = tell
        return super().solve(problem, options, monitor)


class TellingTasks(Tasks):
    """Independent tasks, with that search."""

    solvers = (Telling(),)


if __name__ == "__main__":
    register(TellingTasks())
    main()
