"""Options of commands that read files, models, or both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click
import msgspec

from partita.cli.flags import Positive, axis_settings, grouped, setting_flags
from partita.problems import kinds
from partita.problems.kind import AnyKind

Command = TypeVar("Command", bound=Callable[..., Any])


def settings_of_files(command: Command) -> Command:
    """A flag for whatever may be asked of some problem, or changed of a stated one."""
    return setting_flags([(_title(kind), (kind.options, kind.changes)) for kind in kinds()])(command)


def settings_of_models(command: Command) -> Command:
    """A flag for whatever may be asked of some problem, of its pricing, or changed of the priced one."""
    declarations = [(_title(kind), settings_of_model(kind)) for kind in kinds() if kind.model is not None]
    return setting_flags(declarations, stated=False)(command)


def _title(kind: AnyKind) -> str:
    return f"{kind.name.capitalize()} problems"


def settings_of_model(kind: AnyKind) -> tuple[type[msgspec.Struct], ...]:
    """The declarations that a model planned as this problem is asked with."""
    assert kind.model is not None
    return kind.options, kind.model.pricing, kind.changes


def file_options(command: Command) -> Command:
    """Options that say how to read a problem file."""
    from partita.problems.importers import format_names

    return grouped(
        "problem",
        (
            ("--format", "file_format"),
            {"type": click.Choice(format_names()), "help": "Recognised from the content if not given."},
        ),
        (
            ("--problem", "problem_kind"),
            {"metavar": "NAME", "help": f"{', '.join(kind.name for kind in kinds())}; usually the format says."},
        ),
        (
            ("--scale-communication",),
            {"type": Positive(allow_zero=True), "default": 1.0, "help": "Factor on transfers."},
        ),
    )(command)


def all_settings(command: Command) -> Command:
    """The flags of files and of models."""
    return setting_flags(_declarations())(command)


def settings_beside_axes(command: Command) -> Command:
    """The flags of files and of models, but for those that are lists of values on a sweep."""
    return setting_flags(_declarations(), axis_settings())(command)


def _declarations() -> list[tuple[str, tuple[type[msgspec.Struct], ...]]]:
    return [
        (_title(kind), (*(() if kind.model is None else settings_of_model(kind)), kind.options, kind.changes))
        for kind in kinds()
    ]


def settings_of_conversion(command: Command) -> Command:
    """The flags of conversions, of pricing, and of changes."""
    declarations = []
    for kind in kinds():
        if kind.converter is not None:
            pricing = () if kind.model is None else (kind.model.pricing,)
            declarations.append((_title(kind), (kind.converter.settings, *pricing, kind.changes)))
    return setting_flags(declarations)(command)


def machine_options(command: Command) -> Command:
    """The option that says on what a model runs."""
    details = {"metavar": "CLUSTER", "help": "For a model: short form such as 8xA100-80GB, or a file."}
    return grouped("machine", (("--cluster",), details))(command)


def cluster_options(command: Command) -> Command:
    """Options that say on what a model runs, and what it is planned for."""
    objectives = [kind.model.objective for kind in kinds() if kind.model is not None]
    command = machine_options(command)
    return grouped(
        "machine",
        (
            ("--objective",),
            {
                "metavar": f"[{'|'.join(objectives)}]",
                "help": "What a model is planned for; what suits it and the cluster if not given.",
            },
        ),
    )(command)


def take_reading(parameters: dict[str, Any]) -> tuple[str | None, str | None, float]:
    """Take what ``file_options`` gave out of a command's parameters."""
    return (
        parameters.pop("file_format"),
        parameters.pop("problem_kind"),
        parameters.pop("scale_communication"),
    )


def model_options(command: Command) -> Command:
    """Options that say what the model is and how it runs."""
    size = click.IntRange(min=1)
    command = grouped(
        "training", (("--training",), {"is_flag": True, "help": "Forward and backward, with gradients and optimizer."})
    )(command)
    return grouped(
        "model",
        (("--batch-size",), {"type": size, "default": 1, "show_default": True, "help": "Samples per microbatch."}),
        (("--sequence-length",), {"type": size, "help": "Tokens per sample."}),
        (("--dtype",), {"metavar": "NAME", "help": "Number format, for example float16."}),
        (
            ("--set", "set_fields"),
            {"multiple": True, "metavar": "FIELD=VALUE", "help": "Change the configuration of an hf: model."},
        ),
        (("--task",), {"metavar": "NAME", "help": "The head of an hf: model, for example causal-lm."}),
    )(command)
