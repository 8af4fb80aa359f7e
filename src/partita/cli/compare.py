"""partita compare: every baseline that applies, beside the plan."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import click

from partita.cli.common import Output, SearchArguments, exit_code, output_options, progress_line, run_options
from partita.cli.flags import option, subcommand
from partita.cli.options import all_settings, file_options, machine_options, model_options
from partita.cli.source import ModelSource, read_source
from partita.engines.search.result import Rival, StopReason
from partita.problems import kind_of


@subcommand(
    click.argument("what", metavar="FILE|MODEL"),
    machine_options,
    option(
        "search",
        "--expert",
        "experts",
        multiple=True,
        type=click.Path(),
        metavar="PLAN",
        help="A plan to compare; may repeat.",
    ),
    option(
        "search",
        "--rank",
        "by",
        type=click.Choice(("objective", "step")),
        default="objective",
        help="What rows are ranked by: the objective, or the simulated time of a batch.",
    ),
    model_options,
    file_options,
    all_settings,
    run_options,
    output_options,
)
def compare(what: str, experts: tuple[str, ...], by: Any, **parameters: Any) -> int:
    """Put every baseline beside the plan for a problem file or a model.

    Plans given with --expert (result files, or other files that plans are written in) are rows, too. If the search
    was cut short and a feasible row is better than its plan, that row's plan becomes the plan.
    """
    from partita.conductor.compare import run_baselines
    from partita.conductor.documents import answer_document, result_document
    from partita.conductor.judge import adopt_better, judge_plan
    from partita.conductor.plan import SEARCH, plan_priced
    from partita.conductor.solve import options_of, run_solver
    from partita.engines.search.monitor import Monitor
    from partita.problems.planned import read_plan
    from partita.report.results import comparison_table, ranked, summary_lines

    output, search = Output.take(parameters), SearchArguments.take(parameters)
    source = read_source(what, parameters, search.solver)
    candidates = source.price() if isinstance(source, ModelSource) else []
    problem = candidates[0].problem if isinstance(source, ModelSource) else source.problem
    kind = kind_of(problem)
    report = kind.report
    options = options_of(kind, search.seed, search.threads, source.options)
    # Plans are read first: a mistake there should not cost the time of the search.
    plans = [(path, read_plan(path, problem)) for path in experts]

    def judged(problem: Any) -> list[Rival]:
        return [judge_plan(problem, f"expert {Path(path).stem}", f"the plan in {path}", plan) for path, plan in plans]

    judged(problem)
    answer = None
    with progress_line(problem.unit, report.doing) as progress:
        clock = Monitor(search.time_limit)
        if candidates:
            answer = plan_priced(candidates, options, clock, search.solver, progress=progress)
            result, baselines = answer.result, list(answer.baselines)
        else:
            result = run_solver(problem, search.solver, options, clock.share(SEARCH, progress=progress))
            stopped = result.stop_reason is StopReason.INTERRUPTED
            baselines = [] if stopped else run_baselines(problem, options, clock=clock)
    rows = [*baselines, *judged(result.problem)]
    result = adopt_better(result, rows, options)
    rows = ranked(report, result.problem, rows, by)
    if answer is None:
        document = result_document(result, rows)
    else:
        document = answer_document(dataclasses.replace(answer, result=result, baselines=tuple(rows)), source.notes)
    output.document(document, result.problem)
    output.show([comparison_table(report, result, rows, by), *summary_lines(report, result)])
    return exit_code(result)
