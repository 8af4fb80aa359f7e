"""partita report: an answer as a page to look at and to share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from partita.cli.common import STDOUT, check_writable, emit_bytes, warn
from partita.cli.flags import Whole, option, path_option, problem_option, subcommand
from partita.cli.simulate import simulation_options


@subcommand(
    click.argument("file", type=click.Path(), metavar="FILE"),
    problem_option,
    simulation_options,
    option("schedule", "--microbatches", type=Whole(min=1), metavar="N", help="Microbatches of the batch."),
    path_option(
        "--output",
        metavar="OUT.html",
        help="Where the page goes; FILE with the ending .html if not given, - is stdout.",
    ),
)
def report(file: str, problem_file: str | None, output: str | None, **settings: Any) -> int:
    """Show FILE as one HTML page that opens without a network (needs partita[report]).

    FILE is what --output of plan, solve, map, compare or sweep writes, or what simulate --json prints. The page says
    the verdict and its proof, what is where, memory, the time line, what limits the plan, what others do, and how to
    make it again. With a schedule or a number of microbatches the time line is that of such a batch.
    """
    from partita.documents.document import decode, read_bytes
    from partita.documents.result_file import with_problem
    from partita.ground.errors import require
    from partita.problems.importers import read_problem
    from partita.report.pages import check_page, page, write_page

    require("plotly", "report")
    where = str(Path(file).with_suffix(".html")) if output is None else output
    check_page(where)
    check_writable(where)
    document = decode(read_bytes(file), dict[str, Any], file)
    if problem_file is not None:
        document = with_problem({"problem": {}, **document}, read_problem(problem_file))
    given = click.get_current_context().get_parameter_source
    asked = {name: value for name, value in settings.items() if given(name) is ParameterSource.COMMANDLINE}
    if where == STDOUT:
        emit_bytes(page(document, file, **asked).encode())
    else:
        write_page(where, document, file, **asked)
        warn(f"wrote {where}")
    return 0
