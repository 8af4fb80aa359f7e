"""Solve: a problem in, the best plan and what is proven about it out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from partita.api.answer import Answer, AnyAnswer
from partita.api.arguments import Devices
from partita.api.given import Keywords
from partita.api.search import Search
from partita.api.source import Reading, StatedSource, placing_source, read_placing, read_stated
from partita.conductor.place import placing_facet
from partita.conductor.solve import check_time_limit, options_of, run_solver
from partita.engines.search.monitor import Monitor
from partita.engines.search.result import Progress
from partita.ground.collecting import collecting_rarely
from partita.ground.errors import InputError
from partita.problems import find_kind
from partita.problems.kind import Stated


@collecting_rarely()
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
    format: str | None = None,
    kind: str | None = None,
    scale_communication: float = 1.0,
    **settings: Any,
) -> AnyAnswer:
    """Find the best plan of a problem, and prove how good it is.

    Parameters
    ----------
    problem
        What to plan: what ``read_problem`` or ``price`` returns, or the path of its file.
    time_limit_s
        Wall time after which the best plan so far is returned; None runs until the proof is done.
    seed
        Same seed, same answer, when the clock is not what stops the run.
    solver
        A solver's or baseline's name; None for the default.
    threads
        Most threads to use.
    progress
        Called with an ``Event`` for every better plan or bound.
    target
        Stop as soon as a plan at most this good is known.
    explain
        For an infeasible problem, look for what would be enough.
    format, kind, scale_communication
        Of a file: its format and the problem that it is read as, recognised if None, and a factor on transfers.
    settings
        The problem's own: options of its search (``contiguity`` of throughput problems, for example), and changes of
        the problem (``devices``, ``memory``, …).

    Returns
    -------
    Answer
        Never raises for a time limit or Ctrl-C; the answer says why it stopped.

    Raises
    ------
    InputError
        If a setting has no meaning, the solver does not support the problem, or the file cannot be read.
    DisagreementError
        If a solver's claim does not survive the evaluator: a defect.
    """
    reading = Reading(file_format=format, problem=kind, scale_communication=scale_communication)
    source = read_stated(problem, Keywords(settings), reading)
    how = Search(time_limit_s=time_limit_s, seed=seed, solver=solver, threads=threads, progress=progress)
    return solve_source(source, how, target=target, explain=explain)


def solve_source(
    source: StatedSource, search: Search, *, target: float | None = None, explain: bool = True
) -> AnyAnswer:
    """``solve`` for a problem with its options."""
    check_time_limit(search.time_limit_s)
    options = options_of(source.kind, search.seed, search.threads, source.options)
    monitor = Monitor(search.time_limit_s, search.progress, target)
    return Answer.of(run_solver(source.problem, search.solver, options, monitor, explain=explain))


@collecting_rarely()
def map_stages(
    what: AnyAnswer | Stated | str | Path,
    topology: Devices | None = None,
    *,
    time_limit_s: float | None = 60.0,
    seed: int = 0,
    solver: str | None = None,
    threads: int = 2,
    progress: Progress | None = None,
    **settings: Any,
) -> Answer[Any, Any, Any]:
    """Give the stages of a plan, and their replicas, devices of a topology, and prove how good that is.

    Parameters
    ----------
    what
        An answer whose plan has stages, the path of its result file, or the problem of placing stages or its file.
    topology
        The devices, as for ``plan``; None where the problem has them.
    time_limit_s, seed, solver, threads, progress
        As for ``solve``.
    settings
        Options of the search, and changes of the problem of placing.

    Raises
    ------
    InputError
        If a setting has no meaning, the plan has no stages, or the topology cannot hold it.
    UnsupportedError
        If plans of the problem are not made of stages.
    """
    given = Keywords({**settings, **({} if topology is None else {"topology": topology})})
    how = Search(time_limit_s=time_limit_s, seed=seed, solver=solver, threads=threads, progress=progress)
    return solve_source(_placing(what, given), how)


def _placing(what: AnyAnswer | Stated | str | Path, given: Keywords) -> StatedSource:
    kind = find_kind(placing_facet().kind.name)
    if isinstance(what, Answer):
        if what.plan is None:
            raise InputError(f"there is no plan to be placed: {what.reason or what.status}")
        options, changes = given.of_stated(kind, "a plan to be placed")
        return placing_source(what.problem, what.plan, "the answer", dict(options), dict(changes))
    if isinstance(what, str | Path) and (found := read_placing(str(what), given)) is not None:
        return found
    source = read_stated(what, given)
    if source.kind.name != kind.name:
        raise InputError(f"{source.name} is a {source.kind.name} problem; give it to partita.solve")
    return source
