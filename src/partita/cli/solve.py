"""partita solve: plan the problem of a file."""

from __future__ import annotations

import sys
from typing import Any

import click

from partita.cli.common import (
    STDOUT,
    check_writable,
    emit_json,
    exit_code,
    output_options,
    progress_line,
    run_options,
    show,
    write_document,
)
from partita.cli.flags import GroupedCommand, grouped, take_flags
from partita.cli.source import file_options, read_file, settings_of_files
from partita.errors import InputError
from partita.problems import kinds

__all__ = ["command"]


def command() -> click.Command:
    """The command, with a flag for every setting and every format of a plan that some problem has."""
    writers = {writer.flag: writer for kind in kinds() for writer in kind.files.writers}
    extra = grouped(
        "output",
        *(
            ((flag,), {"type": click.Path(), "metavar": writer.metavar, "help": writer.help})
            for flag, writer in writers.items()
        ),
    )

    @click.command("solve", cls=GroupedCommand)
    @click.argument("file", type=click.Path())
    @file_options
    @settings_of_files
    @run_options
    @output_options
    @extra
    def solve(
        file: str,
        file_format: str | None,
        problem_kind: str | None,
        scale_communication: float,
        solver: str | None,
        time_limit: float,
        seed: int,
        threads: int,
        output: str | None,
        as_json: bool,
        **parameters: Any,
    ) -> int:
        """Find the best plan for the problem in FILE, and prove how good it is."""
        from partita.conductor.documents import result_document
        from partita.conductor.solve import solve as run
        from partita.tables.summary import summary_lines

        given = take_flags(parameters)
        asked = {"--" + name.replace("_", "-"): path for name, path in parameters.items() if path is not None}
        check_writable(output, *asked.values())
        stated = read_file(file, file_format, problem_kind, scale_communication, given)
        own = {writer.flag: writer for writer in stated.kind.files.writers}
        for flag in asked:
            if flag not in own:
                raise InputError(f"{flag} does not write {stated.kind.name} plans; use --output")
        report = stated.kind.report
        with progress_line(stated.problem.unit, report.doing) as progress:
            result = run(
                stated.problem,
                time_limit_s=time_limit,
                seed=seed,
                solver=solver,
                threads=threads,
                progress=progress,
                **stated.options,
            )
        document = result_document(result)
        write_document(output, document)
        if result.plan is not None:
            for flag, path in asked.items():
                own[flag].write(path, stated.problem, result.plan, result.evaluation)
        if as_json and output != STDOUT:
            emit_json(document)
        shown = [] if result.plan is None else report.tables(stated.problem, result.plan, result.evaluation)
        if not as_json:
            to_stdout = output != STDOUT
            show([*shown, *summary_lines(report, result)], stream=None if to_stdout else sys.stderr)
        elif result.plan is None:
            show(summary_lines(report, result), stream=sys.stderr)
        return exit_code(result)

    return solve
