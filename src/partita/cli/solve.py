"""partita solve: plan the problem of a file; or place a plan of stages, with ``partita map``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import click

from partita.cli.common import Output, exit_code, output_options, progress_line, run_options, take_search
from partita.cli.flags import path_option, subcommand, together
from partita.cli.options import file_options, settings_of
from partita.cli.source import read_file, read_mapped
from partita.ground.errors import InputError
from partita.problems import kinds
from partita.problems.kind import AnyKind


def solve() -> click.Command:
    """The command, with a flag for every setting and every format of a plan that some problem has."""
    return _command("solve", kinds(), "Find the best plan for the problem in FILE, and prove how good it is.")


def map_command() -> click.Command:
    """``partita map``: the command of the problem that plans of stages become, with the flags of that one."""
    kind = next(kind for kind in kinds() if kind.from_result is not None)
    text = f"As `partita solve`, to {kind.summary}. FILE has a {kind.name} problem or is a result of stages."
    return _command("map", (kind,), text, results=True)


def _command(name: str, known: Sequence[AnyKind], text: str, *, results: bool = False) -> click.Command:
    writers = {writer.flag: writer for kind in known for writer in kind.files.writers}
    paths = {flag.lstrip("-").replace("-", "_"): flag for flag in writers}

    files = together(*(path_option(flag, metavar=writer.metavar, help=writer.help) for flag, writer in writers.items()))
    flags = (file_options, settings_of(known), run_options, output_options, files)

    @subcommand(click.argument("file", type=click.Path()), *flags, name=name, help=text)
    def command(file: str, **parameters: Any) -> int:
        from partita.api.solving import solve_source

        asked = {flag: path for name, flag in paths.items() if (path := parameters.pop(name)) is not None}
        output, search = Output.take(parameters, *asked.values()), take_search(parameters)
        stated = read_mapped(file, parameters) if results else read_file(file, parameters)
        kind = stated.kind
        if all(kind not in one.parts for one in known):
            raise InputError(f"{file} states a {kind.name} problem; give it to `partita solve`")
        own = {writer.flag: writer for writer in kind.files.writers}
        for flag in asked:
            if flag not in own:
                raise InputError(f"{flag} does not write {kind.name} plans; use --output")
        with progress_line(kind.report.doing) as progress:
            answer = solve_source(stated, replace(search, progress=progress))
        output.answer(answer)
        if answer.plan is not None:
            for flag, path in asked.items():
                own[flag].write(path, answer.problem, answer.plan, answer.evaluation)
            output.show(answer.tables())
        output.show(answer.verdict(), always=answer.plan is None)
        return exit_code(answer.result)

    return command()
