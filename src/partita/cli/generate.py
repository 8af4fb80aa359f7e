"""partita generate and partita convert: make problem files for comparing bounds and solvers."""

from __future__ import annotations

from typing import Any

import click

from partita.cli.common import check_writable, warn
from partita.cli.flags import GroupedCommand, grouped, read_flags, setting_flags, take_flags
from partita.cli.options import file_options, machine_options, model_options, settings_of_conversion, take_reading
from partita.cli.source import is_model, read_file, read_model
from partita.errors import InputError, UnsupportedError
from partita.problems import kinds
from partita.problems.facets.making import Generator
from partita.problems.kind import AnyKind
from partita.problems.settings import read_settings

_output = grouped(
    "output",
    (
        ("--output",),
        {"required": True, "type": click.Path(), "metavar": "P.json", "help": "Write the problem."},
    ),
)


def generate() -> click.Command:
    """The group of commands, one for each generator of each problem."""
    group = click.Group("generate", help="Make a random problem.")
    for kind in kinds():
        for generator in kind.generators:
            group.add_command(_generating(kind, generator))
    return group


def _generating(kind: AnyKind, generator: Generator) -> click.Command:
    @click.command(generator.name, cls=GroupedCommand, help=generator.help)
    @setting_flags([(f"{kind.name.capitalize()} problems", (generator.settings,))])
    @_output
    def command(output: str, **parameters: Any) -> int:
        check_writable(output)
        (values,) = read_flags(
            kind, take_flags(parameters), (generator.settings,), {}, what=f"generator {generator.name}", model=False
        )
        _write(output, generator.make(read_settings(generator.settings, values, f"generator {generator.name}")))
        return 0

    return command


def convert() -> click.Command:
    """The command, with a flag for every setting of some conversion."""

    @click.command("convert", cls=GroupedCommand)
    @click.argument("what", metavar="FILE|MODEL")
    @file_options
    @model_options
    @machine_options
    @settings_of_conversion
    @_output
    def command(what: str, cluster: str | None, output: str, **parameters: Any) -> int:
        """Write FILE or MODEL as a problem in a simpler form: identical devices without CPUs, variants, memory limit.

        With --memory, what exceeds it is streamed. The backward part of training is left out (docs/instances.md).
        """
        check_writable(output)
        own = take_flags(parameters, _own_flags())
        if is_model(what):
            first = next(kind for kind in kinds() if kind.converter is not None and kind.model is not None)
            assert first.model is not None
            scale = take_reading(parameters)[2]
            given = take_flags(parameters)
            source = read_model(what, cluster, first.model.objective, given, parameters, solver=None)
            if scale == 0:
                raise InputError("--scale-communication 0 makes a model's transfers free; use a small factor instead")
            kind, problem = source.kind, source.at({"bandwidth": 1.0 / scale}).problem
        else:
            stated = read_file(what, parameters)
            kind, problem = stated.kind, stated.problem
        if kind.converter is None:
            raise UnsupportedError(f"{what}: {kind.name} problems have no simpler form")
        settings = kind.converter.settings
        (values,) = read_flags(kind, own, (settings,), {}, what="a conversion", model=False)
        _write(output, kind.converter.convert(problem, read_settings(settings, values, "conversion")))
        return 0

    return command


def _own_flags() -> set[str]:
    """Flags of conversions, which are theirs even where the problem has them, too."""
    from partita.problems.settings import flags_of

    return set(flags_of(kind.converter.settings for kind in kinds() if kind.converter is not None))


def _write(output: str, problem: Any) -> None:
    from partita.documents.stated import write_problem

    write_problem(output, problem)
    warn(f"problem {problem.name}: {output}")
