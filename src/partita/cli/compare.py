"""partita compare: every baseline that applies, beside the plan."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from partita.cli.common import Output, exit_code, output_options, progress_line, run_options, take_search
from partita.cli.flags import option, subcommand
from partita.cli.options import all_settings, file_options, machine_options, model_options
from partita.cli.source import read_source


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
    from partita.api.comparing import compare_source

    output, search = Output.take(parameters), take_search(parameters)
    source = read_source(what, parameters, search.solver)
    with progress_line(source.kind.report.doing) as progress:
        found = compare_source(source, replace(search, progress=progress), experts=experts, rank=by)
    output.answer(found.answer)
    output.show([*found.tables(), *found.answer.verdict()])
    return exit_code(found.answer.result)
