"""Compile every kernel once, so that the first answer a person waits for is fast: ``python -m partita.cli.warm_up``.

Compiled code is kept beside the package; running this again only loads it.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

from partita.conductor.simulate import simulate
from partita.engines.search.monitor import Monitor
from partita.ground.errors import UnsupportedError
from partita.problems import kind_of, kinds
from partita.problems.kind import AnyKind
from partita.problems.settings import read_settings, settings_of

#: Wall time for one component on one tiny problem; compiling does not count its own time against it.
_LIMIT_S = 5.0


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


def main(arguments: list[str]) -> int:
    """Run everything over the samples of every problem, half of them in a second process."""
    groups = [group for kind in kinds() for group in kind.samples]
    if arguments:
        for group in groups[1:]:
            _run(group)
        return 0
    started = time.perf_counter()
    with subprocess.Popen([sys.executable, "-m", "partita.cli.warm_up", "others"]) as other:
        _run(groups[0])
        code = other.wait()
    print(f"kernels ready after {time.perf_counter() - started:.0f} s")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
