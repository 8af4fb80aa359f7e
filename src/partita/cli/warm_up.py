"""Compile every kernel once, so that the first answer a person waits for is fast: ``python -m partita.cli.warm_up``.

Compiled code is kept beside the package; running this again only loads it.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

from partita.conductor.simulate import simulate
from partita.engines.search.monitor import Monitor
from partita.ground.errors import UnsupportedError
from partita.problems import find_kind, kind_of, kinds
from partita.problems.kind import AnyKind
from partita.problems.settings import read_settings, settings_of

#: Wall time for one component on one tiny problem; compiling does not count its own time against it.
_LIMIT_S = 5.0

#: Each of them holds what it compiled, up to a gigabyte and a half.
_MOST_PROCESSES = 4


def _options(kind: AnyKind) -> Iterator[Any]:
    """The options of a search: as they are, and with every other choice."""
    yield kind.options()
    for name, entry in settings_of(kind.options).items():
        for choice in entry.choices:
            if choice != entry.default:
                yield read_settings(kind.options, {name: choice}, kind.name)


def _run(problems: Sequence[Any]) -> None:
    """Run every component that takes them on over some problems."""
    plans: list[tuple[Any, Any]] = []
    for problem in problems:
        kind = kind_of(problem)
        for options in _options(kind):
            for solver in (*kind.solvers, *kind.baselines):
                if solver.supports(problem, options) is None:
                    plan = solver.solve(problem, options, Monitor(_LIMIT_S)).plan
                    if plan is not None:
                        plans.append((problem, kind.complete(problem, plan)))
        for bound in kind.bounds:
            if bound.supports(problem) is None:
                bound.bound(problem, Monitor(_LIMIT_S))
    for problem, plan in plans[:1]:
        # Not all plans have time lines that are simulated.
        with contextlib.suppress(UnsupportedError):
            simulate(problem, plan)


def _run_group(name: str, number: int) -> None:
    """Run a problem's components over one of its groups of samples."""
    _run(find_kind(name).samples[number])


def _units() -> list[tuple[str, int]]:
    """All groups of samples: the first of every problem, then the second ones.

    Groups of one problem want the same kernels, and a process waits for what another one compiles.
    """
    groups = [(number, place, kind.name) for place, kind in enumerate(kinds()) for number in range(len(kind.samples))]
    return [(name, number) for number, _, name in sorted(groups)]


def main() -> int:
    """Run everything over the samples of every problem, in as many processes as there are processors."""
    started = time.perf_counter()
    units = _units()
    with ProcessPoolExecutor(min(os.cpu_count() or 1, _MOST_PROCESSES), get_context("spawn")) as pool:
        for done in [pool.submit(_run_group, *unit) for unit in units]:
            done.result()
    print(f"kernels ready after {time.perf_counter() - started:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
