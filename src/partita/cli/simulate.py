"""partita simulate: what happens when a plan runs."""

from __future__ import annotations

from typing import Any

import click

from partita.cli.common import check_writable, emit_json, show, warn
from partita.cli.flags import Whole, json_option, option, path_option, problem_option, subcommand, together

#: How a plan is simulated, for every command that simulates.
simulation_options = together(
    option(
        "schedule",
        "--schedule",
        metavar="NAME|FILE.csv",
        help="See `partita schedules`; a CSV file as torch pipelining writes it. What suits the plan if not given.",
    ),
    option("schedule", "--chunks", type=Whole(min=1), metavar="V", help="Stages each rank is cut into."),
    option(
        "schedule",
        "--contention",
        type=click.Choice(("dedicated", "shared", "serial")),
        default="dedicated",
        help="Of transfers: none, fair shares of each card and link, or one at a time.",
    ),
    option(
        "schedule",
        "--weight-sync",
        type=click.Choice(("after", "behind")),
        default="after",
        help="Synchronise weights after the batch, or behind its last backward part.",
    ),
)


@subcommand(
    click.argument("result", type=click.Path(), metavar="R.json"),
    problem_option,
    simulation_options,
    option("schedule", "--microbatches", type=Whole(min=1), metavar="N", help="Microbatches of the batch."),
    path_option("--trace", metavar="TRACE.json", help="Write the time line for Perfetto or chrome://tracing."),
    path_option("--gantt", metavar="OUT.png|svg|html", help="Draw the time line."),
    json_option,
)
def simulate(
    result: str, problem_file: str | None, trace: str | None, gantt: str | None, as_json: bool, **settings: Any
) -> int:
    """Run the plan of a result file R.json through the simulator.

    Prints when each device works, moves data and waits, what the length of the step is made of, and what would
    change it.
    """
    from partita.api.simulation import SimulationAnswer
    from partita.conductor.simulate import simulate_plan
    from partita.problems.planned import read_planned
    from partita.simulator.gantt_plot import check_picture, write_gantt
    from partita.simulator.trace_file import write_trace

    check_writable(trace, gantt)
    if gantt is not None:
        check_picture(gantt)
    planned = read_planned(result, problem_file)
    for note in planned.notes:
        warn(f"note: {note}")
    asked = {name: value for name, value in settings.items() if value is not None}
    found = SimulationAnswer(simulate_plan(planned.problem, planned.plan, **asked))
    if trace is not None:
        write_trace(trace, found.timeline)
    if gantt is not None:
        write_gantt(gantt, found.timeline)
    if as_json:
        emit_json(found.document())
    else:
        show(found.tables())
    return 0
