"""Processes that check instances: one that crashes or hangs is a finding, and another one takes its place."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import msgspec

from crosscheck.claims import Contradiction, Said, ask, ask_all, compare
from crosscheck.instances import Instance
from crosscheck.minimise import TRIES, minimise, shown_again
from crosscheck.parts import parts_of
from partita.problems import find_kind

__all__ = ["Checked", "Minimised", "Pool", "check", "make_smaller"]

#: Seconds of its own work without a word after which a worker counts as hung; compiling a component takes a minute.
PATIENCE_S = 240.0

#: The same by the clock, for one that waits and does nothing; a busy machine may need long.
WAITING_S = 900.0

#: Where a worker is before it is asked anything.
STARTING, READY = "starting", "ready"

#: Tasks after which a worker is replaced by a new one: libraries keep memory.
RENEWED = 400


@dataclass(frozen=True)
class Checked:
    """What came out of one instance."""

    instance: Instance
    said: tuple[Said, ...] = ()
    wrong: tuple[Contradiction, ...] = ()
    compared: int = 0


@dataclass(frozen=True)
class Minimised:
    """The smallest form of an instance with the same contradiction; ``shown`` is None if it did not show again."""

    instance: Instance
    wrong: Contradiction
    problem: bytes
    shown: Contradiction | None


def check(instance: Instance, at: Callable[[str], None] = lambda label: None) -> Checked:
    """Ask all about an instance and compare; nobody where everything was to be tried and cannot be."""
    kind, problem = find_kind(instance.kind), instance.problem()
    parts = instance.parts()
    said = ask_all(kind, problem, [part for part in parts if part.role == "everything"], at)
    if instance.whole and not any(one.claims for one in said):
        return Checked(instance)
    said += ask_all(kind, problem, [part for part in parts if part.role != "everything"], at)
    wrong, compared = compare(kind, said)
    return Checked(instance, tuple(said), tuple(wrong), compared)


def make_smaller(
    instance: Instance,
    wrong: Contradiction,
    seconds: float,
    at: Callable[[str], None] = lambda label: None,
    smaller: Callable[[Minimised], None] = lambda found: None,
) -> Minimised:
    """Minimise an instance that shows a contradiction; ``smaller`` is called with every step."""
    kind, problem = find_kind(instance.kind), instance.problem()
    parts = instance.parts()
    asked = [part for part in parts if part.label in (wrong.by, wrong.against)]
    if wrong.against:
        # Another plan against the claim shows the same.
        first = next(part.options for part in parts if part.options is not None)
        usual = kind.default_solver(problem, type(first)())
        also = [part for part in parts if part not in asked and not part.wording]
        asked += [part for part in also if part.role == "everything" or part.name == usual]
    best = Minimised(instance, wrong, msgspec.json.encode(problem), None)
    shown = shown_again(kind, problem, asked, wrong.key, TRIES)
    if shown is None:
        return best
    best = replace(best, shown=shown)

    def fails(candidate: Any) -> bool:
        nonlocal shown
        at(f"{wrong.by}, on a smaller instance")
        found = shown_again(kind, candidate, asked, wrong.key)
        shown = found or shown
        return found is not None

    def step(candidate: Any) -> None:
        nonlocal best
        best = replace(best, problem=msgspec.json.encode(candidate), shown=shown)
        smaller(best)

    minimise(problem, fails, seconds, step)
    return best


def _warm(names: tuple[str, ...], at: Callable[[str], None]) -> None:
    """Run every component once on small problems: what has to be compiled is, and does not count as time."""
    for name in names:
        kind = find_kind(name)
        for group in kind.samples:
            for problem in group:
                for part in parts_of(kind):
                    at(f"{name}: {part.label}")
                    ask(kind, problem, replace(part, limit_s=0.1))


def _serve(pipe: Connection, setup: Callable[[], None] | None) -> None:
    """What a worker does until it is told to end."""
    if setup is not None:
        setup()

    def at(label: str) -> None:
        pipe.send(("at", label))

    at(READY)
    with contextlib.suppress(EOFError, KeyboardInterrupt):
        while (task := pipe.recv()) is not None:
            verb, *arguments = task
            try:
                if verb == "warm":
                    result: Any = _warm(arguments[0], at)
                elif verb == "check":
                    result = check(arguments[0], at)
                else:
                    result = make_smaller(*arguments, at=at, smaller=lambda each: pipe.send(("smaller", each)))
            except Exception:
                # Whatever a component raises is noted where it is asked: this is the cross-check's own.
                pipe.send(("failed", traceback.format_exc()))
            else:
                pipe.send(("done", result))


@dataclass
class _Worker:
    """A process, what it works on, and when it last said something."""

    process: Any
    pipe: Connection
    task: tuple[Any, ...] | None = None
    label: str = STARTING
    heard: float = 0.0
    worked_s: float = 0.0
    smaller: Minimised | None = None
    tasks: int = 0


def _work_s(pid: int) -> float:
    """Processor time of a process so far; 0 where the system does not say."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@dataclass
class Pool:
    """Workers, started when they are needed; each has its own kernels loaded.

    Parameters
    ----------
    jobs
        Processes.
    setup
        Called first in each of them; a function of a module.
    patience_s, waiting_s
        Seconds without a word, of its own work and by the clock, after which one counts as hung.
    """

    jobs: int
    setup: Callable[[], None] | None = None
    patience_s: float = PATIENCE_S
    waiting_s: float = WAITING_S
    _workers: list[_Worker] = field(default_factory=list)

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.process.kill()
            worker.process.join()

    def _start(self) -> _Worker:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs, self.setup), daemon=True)
        process.start()
        theirs.close()
        return _Worker(process, ours)

    def run(self, tasks: Iterator[tuple[Any, ...] | None]) -> Iterator[tuple[tuple[Any, ...], Any]]:
        """Every task with what came of it, as they end; what a worker dies of is a contradiction, too.

        A task is ``("warm", names)``, ``("check", instance)`` or ``("minimise", instance, contradiction, seconds)``;
        the next one is asked for when a worker is free, and None says that there is none for now.

        Raises
        ------
        RuntimeError
            If the cross-check itself fails: a family that draws no instance, for example.
        """
        waiting = True
        while True:
            busy = [worker for worker in self._workers if worker.task is not None]
            while waiting and len(busy) < self.jobs:
                task = next(tasks, None)
                if task is None:
                    waiting = False
                    break
                busy.append(self._give(task))
            if not busy:
                return
            # New tasks may have come while the others ran.
            waiting = True
            ready = wait([worker.pipe for worker in busy], timeout=1.0)
            for worker in busy:
                task = worker.task
                result = self._heard(worker) if worker.pipe in ready else self._silent(worker)
                if result is not None:
                    yield task or (), result[0]

    def _give(self, task: tuple[Any, ...]) -> _Worker:
        worker = next((each for each in self._workers if each.task is None), None)
        if worker is not None and worker.tasks >= RENEWED:
            self._end(worker)
            worker = None
        if worker is None:
            worker = self._start()
            self._workers.append(worker)
        worker.task, worker.smaller, worker.heard = task, None, time.perf_counter()
        worker.tasks += 1
        worker.worked_s = _work_s(worker.process.pid)
        worker.pipe.send(task)
        return worker

    def _heard(self, worker: _Worker) -> tuple[Any] | None:
        """What a worker has done, None if it only said where it is."""
        try:
            verb, value = worker.pipe.recv()
        except (EOFError, OSError):
            worker.process.join(5.0)
            return (self._lost(worker, "crash", f"the process ended with {worker.process.exitcode}"),)
        worker.heard, worker.worked_s = time.perf_counter(), _work_s(worker.process.pid)
        if verb == "at":
            worker.label = value
        elif verb == "smaller":
            worker.smaller = value
        elif verb == "failed":
            raise RuntimeError(f"the cross-check failed on {worker.task}:\n{value}")
        else:
            worker.task = None
            return (value,)
        return None

    def _silent(self, worker: _Worker) -> tuple[Any] | None:
        silent_s = time.perf_counter() - worker.heard
        worked_s = _work_s(worker.process.pid) - worker.worked_s
        # Imports take their time.
        if worker.label == STARTING or (worked_s <= self.patience_s and silent_s <= self.waiting_s):
            return None
        return (self._lost(worker, "hang", f"no word for {silent_s:.0f} s, {worked_s:.0f} s of work"),)

    def _end(self, worker: _Worker) -> None:
        worker.process.kill()
        worker.process.join()
        worker.pipe.close()
        self._workers.remove(worker)

    def _lost(self, worker: _Worker, sort: str, text: str) -> Any:
        """What is known of the task of a worker that is no more."""
        self._end(worker)
        assert worker.task is not None
        verb, *arguments = worker.task
        if verb == "check":
            return Checked(arguments[0], wrong=(Contradiction(sort, worker.label, text=text),))
        if verb == "minimise":
            instance, wrong, _ = arguments
            return worker.smaller or Minimised(instance, wrong, msgspec.json.encode(instance.problem()), None)
        return None
