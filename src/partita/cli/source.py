"""Reading what a command is about: a problem file with its changes, or a model with its cluster."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from partita.cli.common import quiet_stdout, warn
from partita.cli.flags import FlagSettings, take_flags
from partita.cli.options import read_fields, read_targets, take_reading

if TYPE_CHECKING:
    from partita.api.source import ModelSource, StatedSource
    from partita.api.tracing import Tracing
    from partita.nouns.graph import Graph

#: What ``model_options`` say of a model beside its inputs.
_OF_MODELS = ("batch_size", "sequence_length", "dtype", "task", "decode", "training", "lora", "cache")


def read_source(what: str, parameters: dict[str, Any], solver: str | None) -> ModelSource | StatedSource:
    """A file or a model, from what a command with the options of both was given; takes that out of the parameters."""
    from partita.api.source import read_either

    reading, asked = take_reading(parameters), take_tracing(parameters)
    cluster, objective = parameters.pop("cluster"), parameters.pop("objective")
    given = FlagSettings(take_flags(parameters))
    found = read_either(what, cluster, given, asked, reading, objective=objective, solver=solver)
    say_notes(found.notes)
    return found


def read_file(path: str, parameters: dict[str, Any]) -> StatedSource:
    """The problem of a file, from what a command with the options of files was given."""
    from partita.api.source import read_stated

    reading = take_reading(parameters)
    found = read_stated(path, FlagSettings(take_flags(parameters)), reading)
    say_notes(found.notes)
    return found


def read_mapped(path: str, parameters: dict[str, Any]) -> StatedSource:
    """The same, or a result file with a plan of stages as the problem of placing it."""
    from partita.api.source import read_placing, read_stated

    reading, given = take_reading(parameters), FlagSettings(take_flags(parameters))
    found = read_placing(path, given) or read_stated(path, given, reading)
    say_notes(found.notes)
    return found


def read_model(model: str, parameters: dict[str, Any], solver: str | None) -> ModelSource:
    """A model with its cluster, from what a command with the options of models was given."""
    from partita.api.source import read_model as read

    asked = take_tracing(parameters)
    cluster, objective = parameters.pop("cluster"), parameters.pop("objective")
    given = FlagSettings(take_flags(parameters))
    found = read(model, cluster, given, asked, objective=objective, solver=solver)
    say_notes(found.notes)
    return found


def say_notes(notes: Iterable[str]) -> None:
    """On stderr."""
    for note in notes:
        warn(f"note: {note}")


def take_tracing(parameters: dict[str, Any]) -> Tracing:
    """Take what ``model_options`` gave out of a command's parameters."""
    from partita.api.tracing import Tracing
    from partita.frontends.given import read_short

    asked = {name: parameters.pop(name) for name in _OF_MODELS}
    entries = parameters.pop("input_entries")
    return Tracing(
        **asked,
        set=read_fields(parameters.pop("set_fields")),
        lora_targets=read_targets(parameters.pop("lora_targets")),
        inputs=read_short(entries) if entries else None,
        inputs_file=parameters.pop("inputs_file"),
        load=_load,
    )


def _load(spec: str, **asked: Any) -> Graph:
    """``load_model`` with a word on a terminal; what the model's own code prints is no part of the answer."""
    from partita.frontends.models import load_model

    started = time.perf_counter()
    if sys.stderr.isatty():
        warn(f"tracing {spec} …")
    with quiet_stdout():
        graph = load_model(spec, **asked)
    if sys.stderr.isatty():
        warn(f"{len(graph.operators)} operators in {time.perf_counter() - started:.1f} s")
    return graph
