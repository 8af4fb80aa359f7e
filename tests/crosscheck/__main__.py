"""Check every component of every problem against every other on drawn instances; exit status 1 on a contradiction.

Every solver, bound and baseline that takes an instance on is asked. No claim may be above a plan that it is about, no
plan of a solver may fail, two evaluators agree, and nothing raises what it does not declare. What contradicts is made
small and written to the output folder as a file that ``partita solve`` reads.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from crosscheck.instances import Instance
from crosscheck.report import Tally, write_found
from crosscheck.workers import Checked, Minimised, Pool
from partita.problems import kinds

__all__ = ["Run", "main"]

#: Contradictions of one sort by one component that are made small; the others are counted.
MOST_ALIKE = 2

#: Seconds between two lines that say how far it is.
SAID_EVERY_S = 600.0


class Run:
    """One run: instances of the problems in turn until the clock or their number ends it, and what was wrong.

    Parameters
    ----------
    names
        The problems.
    seed, first, count
        Instances have the numbers from ``first`` on, ``count`` of each problem; None for no end but the clock.
    seconds
        Wall time, of which the last part is for making small what was found; None for no end but the number.
    minimise_s
        Wall time for making one instance small.
    whole
        Only instances on which everything can be tried, until so many have been; None for all instances.
    files
        Instances to check instead of drawn ones, ``count`` times each.
    longer
        Components get so many times the usual time.
    output
        Where files go.
    say
        Called with every line for people.
    setup
        Called first in every worker.
    """

    def __init__(
        self,
        names: tuple[str, ...],
        *,
        seed: int = 0,
        first: int = 0,
        count: int | None = None,
        seconds: float | None = None,
        minimise_s: float = 60.0,
        jobs: int = 2,
        warm: bool = True,
        whole: int | None = None,
        files: tuple[str, ...] = (),
        longer: float = 1.0,
        output: Path = Path("results/crosscheck"),
        say: Callable[[str], None] = print,
        setup: Callable[[], None] | None = None,
    ) -> None:
        self.names, self.seed, self.first, self.count, self.seconds = names, seed, first, count, seconds
        self.minimise_s, self.jobs, self.warm, self.output, self.say, self.setup = (
            minimise_s,
            jobs,
            warm,
            output,
            say,
            setup,
        )
        self.files, self.longer, self.whole = files, longer, whole
        self.tally = Tally()
        self.found: list[Minimised] = []
        self._alike: Counter[tuple[str, str, str]] = Counter()
        self._small: deque[tuple[Any, ...]] = deque()
        self._spent = dict.fromkeys(names, 0.0)
        self._started = time.perf_counter()

    def _over(self) -> bool:
        late = self.seconds is not None and time.perf_counter() - self._started > self.seconds
        return late or (self.whole is not None and self.tally.whole.total() >= self.whole)

    def _tasks(self) -> Iterator[tuple[Any, ...] | None]:
        """What is next: what is to be made small first, then an instance of the problem that had the least time."""
        given = Counter[str]()
        for number in range(self.first, self.first + (self.count or 1)):
            for path in self.files:
                yield "check", Instance.read(path, self.seed, number, self.longer)
        while True:
            if self._small:
                yield self._small.popleft()
                continue
            names = () if self.files else self.names
            left = [name for name in names if self.count is None or given[name] < self.count]
            if not left or self._over():
                yield None
                continue
            # Without a clock in turn, so that a run is the same every time.
            name = min(left, key=lambda each: (self._spent[each] if self.count is None else 0.0, given[each]))
            yield "check", Instance(name, self.seed, self.first + given[name], "", self.longer, self.whole is not None)
            given[name] += 1

    def run(self) -> bool:
        """Whether nothing was wrong; the table is shown and written, and what is found as soon as it is."""
        try:
            with Pool(self.jobs, self.setup) as pool:
                if self.warm:
                    self.say("kernels are compiled or loaded")
                    for _ in pool.run(iter([("warm", self.names)])):
                        pass
                self._started = time.perf_counter()
                said_s = 0.0
                for _, result in pool.run(self._tasks()):
                    self._take(result)
                    elapsed_s = time.perf_counter() - self._started
                    if elapsed_s - said_s > SAID_EVERY_S:
                        said_s = elapsed_s
                        counts = ", ".join(f"{count} {name}" for name, count in sorted(self.tally.instances.items()))
                        self.say(f"after {elapsed_s:.0f} s: {counts}; {self.tally.wrong.total()} contradictions")
        finally:
            # Also of a run that is ended early.
            self.tally.write(self.output)
            self.say(self.tally.table())
        wrong = self.tally.wrong.total()
        self.say(f"{wrong} contradictions" + (f"; files in {self.output}" if wrong else ""))
        return not wrong

    def _take(self, result: Any) -> None:
        if isinstance(result, Checked):
            self.tally.add(result)
            self._spent[result.instance.kind] = (
                self._spent.get(result.instance.kind, 0.0) + 0.05 + sum(said.seconds for said in result.said)
            )
            for wrong in result.wrong:
                # In other words it is the same.
                key = (result.instance.kind, wrong.sort, wrong.by.split(" (other ")[0])
                self._alike[key] += 1
                if self._alike[key] > MOST_ALIKE:
                    continue
                self.say(f"CONTRADICTION {result.instance}: {wrong}")
                self._small.append(("minimise", result.instance, wrong, self.minimise_s))
        elif isinstance(result, Minimised):
            self.found.append(result)
            path, line = write_found(self.output, result)
            self.say(f"{path}: {line}")


def main() -> None:
    """As the command line says."""
    every = [kind.name for kind in kinds()]
    parser = argparse.ArgumentParser(prog="python -m crosscheck", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--problem", nargs="+", choices=every, default=every, metavar="NAME", help=", ".join(every))
    parser.add_argument("--seconds", type=float, help="wall time of the whole run; 180 unless a number is given")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first instance of each problem")
    parser.add_argument("--count", type=int, help="instances of each problem")
    parser.add_argument("--whole", type=int, metavar="N", help="only where everything can be tried, until N have been")
    parser.add_argument("--file", nargs="+", default=[], help="check these instances instead, COUNT times each")
    parser.add_argument(
        "--longer", type=float, default=1.0, metavar="X", help="X times the usual time for each component"
    )
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--minimise", type=float, default=60.0, metavar="S", help="wall time for making one small")
    parser.add_argument("--cold", action="store_true", help="do not load all kernels first")
    parser.add_argument("--output", type=Path, default=Path("results/crosscheck"))
    given = parser.parse_args()
    # Ended from outside it still ends its workers, and writes what it counted.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    endless = given.seconds is None and given.count is None and given.whole is None
    seconds = 180.0 if endless else given.seconds
    run = Run(
        tuple(given.problem),
        seed=given.seed,
        first=given.first,
        count=given.count,
        seconds=seconds,
        minimise_s=given.minimise,
        jobs=given.jobs,
        warm=not given.cold,
        whole=given.whole,
        files=tuple(given.file),
        longer=given.longer,
        output=given.output,
        say=lambda line: print(line, flush=True),
    )
    sys.exit(0 if run.run() else 1)


if __name__ == "__main__":
    main()
