"""Compare: every baseline that applies, beside the plan."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, overload

from partita.api.answer import Answer, AnyAnswer
from partita.api.arguments import Devices, Inputs, Model
from partita.api.frames import Frame, frame
from partita.api.given import Keywords
from partita.api.search import Search
from partita.api.source import ModelSource, Reading, StatedSource, read_either
from partita.api.tracing import Tracing
from partita.conductor.compare import run_baselines
from partita.conductor.judge import adopt_better, judge_plan
from partita.conductor.plan import SEARCH, plan_priced
from partita.conductor.solve import check_time_limit, options_of, run_solver
from partita.documents.tables.text import as_text
from partita.engines.search.monitor import Monitor
from partita.engines.search.result import Progress, Rival, StopReason
from partita.ground.collecting import collecting_rarely
from partita.ground.errors import InputError
from partita.problems import kind_of
from partita.problems.kind import Stated
from partita.problems.planned import read_plan
from partita.report.pages import cell, write_page
from partita.report.results import Rank, comparison_table, ranked

if TYPE_CHECKING:
    from rich.console import RenderableType


class Comparison(Sequence[Rival]):
    """What people do by hand, beside the plan: a sequence of rows.

    Attributes
    ----------
    answer
        The plan; the rows are its baselines. If the search was cut short and a row is better, that row's plan.
    by
        What of the rows is set against the plan's.
    """

    def __init__(self, answer: AnyAnswer, rows: Sequence[Rival], by: Rank) -> None:
        self.answer, self.rows, self.by = answer, tuple(rows), by

    @overload
    def __getitem__(self, place: int) -> Rival: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Rival]: ...
    def __getitem__(self, place: int | slice) -> Rival | Sequence[Rival]:
        return self.rows[place]

    def __len__(self) -> int:
        return len(self.rows)

    def document(self) -> dict[str, object]:
        """What ``partita compare --json`` prints."""
        return self.answer.document(stated=False)

    def tables(self) -> Sequence[RenderableType]:
        """The table of the command line."""
        result = self.answer.result
        return [comparison_table(kind_of(result.problem).report, result, self.rows, self.by)]

    def summary(self) -> str:
        """The table and the verdict of the plan, as text."""
        return as_text([*self.tables(), *self.answer.verdict()])

    def to_frame(self) -> Frame:
        """A row for each baseline."""
        return frame(self.answer.records("baselines"))

    def save(self, path: str | Path) -> None:
        """Write the result file of the plan with the rows, atomically."""
        self.answer.save(path)

    def report(self, path: str | Path) -> None:
        """Write one page that opens offline, atomically."""
        write_page(path, self.answer.document())

    def __str__(self) -> str:
        lines = as_text(self.tables(), 110).splitlines()
        shown = lines if len(lines) <= 20 else [*lines[:18], f"… {len(lines) - 18} more lines"]
        return "\n".join([*shown, *self.answer.verdict()[:4]])

    def __repr__(self) -> str:
        best = min((row.evaluation.objective for row in self.rows if row.feasible), default=None)
        return f"<{type(self).__name__} of {len(self.rows)} baselines, the best {best!r}, beside {self.answer!r:.1000}>"

    def _repr_html_(self) -> str:
        return cell(self.answer.document())


@collecting_rarely()
def compare(
    what: Model | Stated,
    cluster: Devices | None = None,
    *,
    experts: Sequence[str | Path] = (),
    rank: Rank | None = None,
    objective: str | None = None,
    time_limit_s: float | None = 60.0,
    seed: int = 0,
    solver: str | None = None,
    threads: int = 2,
    progress: Progress | None = None,
    training: bool = False,
    batch_size: int | None = None,
    sequence_length: int | None = None,
    dtype: str | None = None,
    set: Mapping[str, object] | None = None,
    task: str | None = None,
    decode: int | None = None,
    lora: int | None = None,
    lora_targets: Sequence[str] = (),
    inputs: Inputs | None = None,
    format: str | None = None,
    kind: str | None = None,
    scale_communication: float = 1.0,
    **settings: Any,
) -> Comparison:
    """Put every baseline beside the plan of a model, or of a problem.

    Parameters
    ----------
    what
        A model, as for ``plan``, or a problem or its file, as for ``solve``.
    cluster, objective, training, batch_size, sequence_length, dtype, set, task, decode, inputs, lora, lora_targets
        Of a model, as for ``plan``.
    experts
        Files of further plans to compare: result files, or others that plans of the problem are written in.
    rank
        What rows are ranked by: the ``objective``, or the simulated time of a batch (``step``); None leaves them in the
        order of the problem's list.
    time_limit_s
        Wall time of everything.
    seed, solver, threads, progress
        As for ``solve``.
    format, kind, scale_communication
        Of a file, as for ``solve``.
    settings
        As for ``plan`` or ``solve``; baselines that do not give what was asked for are rows without a plan.

    Raises
    ------
    InputError
        As ``plan`` and ``solve`` do, and if the plan of an expert is none of the problem.
    """
    tracing = Tracing.of(locals())
    reading = Reading(file_format=format, problem=kind, scale_communication=scale_communication)
    source = read_either(what, cluster, Keywords(settings), tracing, reading, objective=objective, solver=solver)
    how = Search(time_limit_s=time_limit_s, seed=seed, solver=solver, threads=threads, progress=progress)
    return compare_source(source, how, experts=experts, rank=rank)


def compare_source(
    source: ModelSource | StatedSource,
    search: Search,
    *,
    experts: Sequence[str | Path] = (),
    rank: Rank | None = None,
) -> Comparison:
    """``compare`` for what is read."""
    if rank is not None and rank not in get_args(Rank):
        raise InputError(f"rows are not ranked by {rank!r}; take {' or '.join(get_args(Rank))}")
    check_time_limit(search.time_limit_s)
    candidates = source.price() if isinstance(source, ModelSource) else []
    problem = source.problem if isinstance(source, StatedSource) else candidates[0].problem
    kind = kind_of(problem)
    options = options_of(kind, search.seed, search.threads, source.options)
    # Plans are read first: a mistake there should not cost the time of the search.
    plans = [(path, read_plan(path, problem)) for path in experts]

    def judged(problem: Any) -> list[Rival]:
        return [judge_plan(problem, f"expert {Path(path).stem}", f"the plan in {path}", plan) for path, plan in plans]

    judged(problem)
    found = None
    clock = Monitor(search.time_limit_s)
    if candidates:
        found = plan_priced(candidates, options, clock, search.solver, progress=search.progress)
        result, baselines = found.result, list(found.baselines)
    else:
        result = run_solver(problem, search.solver, options, clock.share(SEARCH, progress=search.progress))
        stopped = result.stop_reason is StopReason.INTERRUPTED
        baselines = [] if stopped else run_baselines(problem, options, clock=clock)
    rows = [*baselines, *judged(result.problem)]
    result = adopt_better(result, rows, options)
    rows = rows if rank is None else ranked(kind.report, result.problem, rows, rank)
    if found is None:
        return Comparison(Answer.of(result, rows=tuple(rows)), rows, rank or "objective")
    whole = dataclasses.replace(found, result=result, baselines=tuple(rows))
    return Comparison(Answer.of(result, model_plan=whole, choice=tuple(source.notes)), rows, rank or "objective")
