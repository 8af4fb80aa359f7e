"""partita generate and partita convert: make problem files for comparing bounds and solvers."""

from __future__ import annotations

from typing import Any

import click

from partita.cli.common import check_writable, warn
from partita.cli.flags import path_option, read_flags, setting_flags, subcommand, take_flags
from partita.cli.options import cluster_option, file_options, model_options, settings_of_conversion, take_reading
from partita.cli.source import read_file, read_model
from partita.ground.errors import InputError, UnsupportedError
from partita.problems import kinds
from partita.problems.kind import AnyKind, ProblemFamily
from partita.problems.settings import flags_of, read_settings

_output = path_option("--output", metavar="P.json", help="Write the problem.", required=True)


def generate() -> click.Command:
    """The group of commands, one for each generator of each problem."""
    group = click.Group("generate", help="Make a random problem.")
    for kind in kinds():
        for generator in kind.generators:
            if not generator.simplifies:
                group.add_command(_generating(kind, generator))
    return group


def _generating(kind: AnyKind, generator: ProblemFamily) -> click.Command:
    flags = setting_flags([(kind, (generator.settings,))])

    @subcommand(flags, _output, name=generator.name, help=generator.help)
    def command(output: str, **parameters: Any) -> None:
        check_writable(output)
        _write(output, generator, f"generator {generator.name}", take_flags(parameters))

    return command()


def convert() -> click.Command:
    """The command, with a flag for every setting of some conversion."""
    converters = {kind.name: made for kind in kinds() for made in kind.generators if made.simplifies}
    flags = (file_options, model_options, cluster_option, settings_of_conversion, _output)

    @subcommand(
        click.argument("what", metavar="FILE|MODEL"),
        *flags,
        help="\n\n".join(made.help for made in converters.values()),
    )
    def command(what: str, output: str, **parameters: Any) -> None:
        from partita.api.tracing import is_model

        check_writable(output)
        # Flags of conversions are theirs even where the problem has them, too.
        own = take_flags(parameters, flags_of(made.settings for made in converters.values()))
        if is_model(what):
            parameters["objective"] = next(kind.objective for kind in kinds() if kind.name in converters and kind.model)
            scale = take_reading(parameters).scale_communication
            source = read_model(what, parameters, None)
            if scale == 0:
                raise InputError("--scale-communication 0 makes a model's transfers free; use a small factor instead")
            kind, problem = source.kind, source.at({"bandwidth": 1.0 / scale}).problem
        else:
            stated = read_file(what, parameters)
            kind, problem = stated.kind, stated.problem
        if kind.name not in converters:
            raise UnsupportedError(f"{what}: {kind.name} problems have no simpler form")
        _write(output, converters[kind.name], "a conversion", own, problem)

    return command()


def _write(output: str, generator: ProblemFamily, what: str, given: dict[str, Any], *of: Any) -> None:
    from partita.documents.stated import write_problem

    (values,) = read_flags(given, (generator.settings,), what)
    problem = generator.make(*of, read_settings(generator.settings, values, what))
    write_problem(output, problem)
    warn(f"problem {problem.name}: {output}")
