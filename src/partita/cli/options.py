"""Options of commands that read files, models, or both."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

from partita.cli.flags import Command, Positive, Whole, axis_settings, option, setting_flags, together
from partita.ground.errors import InputError
from partita.problems import kinds
from partita.problems.kind import AnyKind

if TYPE_CHECKING:
    from partita.api.source import Reading


def settings_of(known: Sequence[AnyKind]) -> Callable[[Command], Command]:
    """A flag for whatever may be asked of some problems, or changed of a stated one."""
    return setting_flags((kind, (kind.options, kind.changes)) for kind in known)


def settings_of_files(command: Command) -> Command:
    """The same of all problems."""
    return settings_of(kinds())(command)


def settings_of_models(command: Command) -> Command:
    """A flag for whatever may be asked of some problem, of its pricing, or changed of the priced one."""
    declarations = [(kind, kind.declarations) for kind in kinds() if kind.model is not None]
    return setting_flags(declarations, stated=False)(command)


def all_settings(command: Command) -> Command:
    """The flags of files and of models."""
    return setting_flags((kind, kind.declarations) for kind in kinds())(command)


def settings_beside_axes(command: Command) -> Command:
    """The same but for those that are lists of values on a sweep."""
    return setting_flags(((kind, kind.declarations) for kind in kinds()), axis_settings())(command)


def settings_of_conversion(command: Command) -> Command:
    """The flags of conversions, of pricing, and of changes."""
    return setting_flags(
        (kind, (made.settings, *kind.declarations[1:]))
        for kind in kinds()
        for made in kind.generators
        if made.simplifies
    )(command)


def file_options(command: Command) -> Command:
    """Options that say how to read a problem file."""
    from partita.problems.importers import format_names

    names = ", ".join(kind.name for kind in kinds())
    formats = click.Choice(format_names())
    factor = Positive(allow_zero=True)
    return together(
        option("problem", "--format", "file_format", type=formats, help="Recognised from the content if not given."),
        option("problem", "--problem", "problem_kind", metavar="NAME", help=f"{names}; usually the format says."),
        option(
            "problem",
            "--scale-communication",
            type=factor,
            default=1.0,
            show_default=False,
            help="Factor on transfers.",
        ),
    )(command)


def take_reading(parameters: dict[str, Any]) -> Reading:
    """Take what ``file_options`` gave out of a command's parameters."""
    from partita.api.source import Reading

    return Reading(
        file_format=parameters.pop("file_format"),
        problem=parameters.pop("problem_kind"),
        scale_communication=parameters.pop("scale_communication"),
    )


cluster_option = option(
    "machine",
    "--cluster",
    metavar="CLUSTER",
    help="For a model: 8xA100-80GB, dgx1:2 (see `partita topologies`), or a file.",
)


def machine_options(command: Command) -> Command:
    """Options that say on what a model runs, and what it is planned for."""
    objectives = "|".join(kind.objective for kind in kinds() if kind.model is not None)
    text = "What a model is planned for; what suits it and the cluster if not given."
    return together(option("machine", "--objective", metavar=f"[{objectives}]", help=text), cluster_option)(command)


_size = Whole(min=1)

#: Arguments of the model that are given rather than made.
input_options = together(
    option(
        "model",
        "--input",
        "input_entries",
        multiple=True,
        metavar="NAME=SHAPE:DTYPE[:LOW..HIGH]",
        help="Give an argument of the model, for example pixel_values=1x3x224x224:float32; or NAME=VALUE.",
    ),
    option("model", "--inputs", "inputs_file", metavar="FILE", help="Such arguments in a JSON or TOML file."),
)

#: What the model is and how it runs.
model_options = together(
    option("model", "--batch-size", type=_size, help="Samples per microbatch; 1, or a callable's own default."),
    option("model", "--sequence-length", type=_size, help="Tokens per sample."),
    option("model", "--dtype", metavar="NAME", help="Number format, for example float16."),
    option(
        "model",
        "--set",
        "set_fields",
        multiple=True,
        metavar="FIELD=VALUE",
        help="Change the configuration of an hf: model, or give an open size of an ONNX file.",
    ),
    option("model", "--task", metavar="NAME", help="The head of an hf: model, for example causal-lm."),
    option(
        "model",
        "--decode",
        type=_size,
        metavar="TOKENS",
        help="One step of an hf: decoder: one token after so many in its key-value cache.",
    ),
    input_options,
    option(
        "model",
        "--no-cache",
        "cache",
        flag_value=False,
        default=True,
        show_default=False,
        help="Trace the model again, and keep no graph of it.",
    ),
    option("training", "--training", is_flag=True, help="Forward and backward, with gradients and optimizer."),
    option(
        "training",
        "--lora",
        type=_size,
        metavar="RANK",
        help="Train low-rank adapters of this rank, with all other weights frozen.",
    ),
    option(
        "training",
        "--lora-targets",
        metavar="NAME,…",
        help="Linear layers that have adapters, by the ends of their names; all but the output head if not given.",
    ),
)

#: Numbers of stages and replicas.
replicas_option = option(
    "search",
    "--search-replicas",
    is_flag=True,
    help="Training: search numbers of stages and replicas, schedule and recomputation, each placed and simulated.",
)

#: Who searches, where there is more than one thing to look at.
worker_options = together(
    option("search", "--jobs", type=_size, default=1, help="Workers, each with --threads."),
    option(
        "search",
        "--backend",
        type=click.Choice(("processes", "dask", "ray")),
        default="processes",
        help="Where the workers are: this machine, or a cluster.",
    ),
    option("search", "--address", metavar="HOST:PORT", help="Of the Dask or Ray cluster; a local one if not given."),
)


def take_workers(parameters: dict[str, Any]) -> tuple[int, Any, str | None]:
    """Take what ``worker_options`` gave out of a command's parameters: what a pool is made of."""
    return parameters.pop("jobs"), parameters.pop("backend"), parameters.pop("address")


def read_fields(entries: Iterable[str]) -> dict[str, str]:
    """What ``--set`` was given, by field."""
    fields: dict[str, str] = {}
    for entry in entries:
        name, equals, value = entry.partition("=")
        if not equals or not name:
            raise InputError(f"--set {entry!r} is not of the form FIELD=VALUE")
        fields[name] = value
    return fields


def read_targets(text: str | None) -> tuple[str, ...]:
    """What ``--lora-targets`` was given, one by one."""
    found = () if text is None else tuple(part.strip() for part in text.split(","))
    if not all(found) or len(set(found)) < len(found):
        raise InputError(f"--lora-targets {text!r} is not of the form NAME,NAME,… with each name once")
    return found
