"""Reading what a command is about: a problem file with its changes, or a model with its cluster."""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from partita.cli.common import quiet_stdout, warn
from partita.cli.flags import Positive, axis_settings, grouped, read_flags, setting_flags, take_flags
from partita.errors import InputError, UnsupportedError
from partita.problems import kind_of, kinds
from partita.problems.kind import AnyKind

if TYPE_CHECKING:
    from partita.cluster import Cluster
    from partita.graph import Graph
    from partita.problems.facets.model import Priced

__all__ = [
    "Model",
    "Stated",
    "all_settings",
    "cluster_options",
    "file_options",
    "is_model",
    "machine_options",
    "model_options",
    "read_file",
    "read_model",
    "read_source",
    "settings_beside_axes",
    "settings_of_conversion",
    "settings_of_files",
    "settings_of_models",
    "take_reading",
]

Command = TypeVar("Command", bound=Callable[..., Any])


# -- flags ----------------------------------------------------------------------------------------------------------


def settings_of_files(command: Command) -> Command:
    """A flag for whatever may be asked of some problem, or changed of a stated one."""
    return setting_flags([(_title(kind), (kind.options, kind.changes)) for kind in kinds()])(command)


def settings_of_models(command: Command) -> Command:
    """A flag for whatever may be asked of some problem, of its pricing, or changed of the priced one."""
    declarations = [(_title(kind), _of_model(kind)) for kind in kinds() if kind.model is not None]
    return setting_flags(declarations, stated=False)(command)


def _title(kind: AnyKind) -> str:
    return f"{kind.name.capitalize()} problems"


def _of_model(kind: AnyKind) -> tuple[type[msgspec.Struct], ...]:
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
        (_title(kind), (*(() if kind.model is None else _of_model(kind)), kind.options, kind.changes))
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


def read_source(
    what: str, cluster: str | None, objective: str | None, parameters: dict[str, Any], *, solver: str | None
) -> Model | Stated:
    """A file or a model, from what a command with the options of both was given.

    Raises
    ------
    InputError
        If options do not fit what it is.
    """
    given, reading = take_flags(parameters), take_reading(parameters)
    if not is_model(what):
        _refuse_model_options(what)
        return read_file(what, *reading, given)
    found = read_model(what, cluster, objective, given, parameters, solver=solver)
    for note in found.notes:
        warn(f"note: {note}")
    return found


def _refuse_model_options(what: str) -> None:
    """Refuse options of models on the command line of a file.

    Raises
    ------
    InputError
        If there is one.
    """
    context = click.get_current_context()
    for parameter in context.command.params:
        given = context.get_parameter_source(str(parameter.name)) is click.core.ParameterSource.COMMANDLINE
        if given and getattr(parameter, "group", "") in ("model", "machine", "training"):
            if str(parameter.name).startswith("setting_"):
                continue
            raise InputError(f"{what} is a file, which states its own problem; leave {parameter.opts[0]} out")


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


# -- files ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Stated:
    """A problem of a file, changed as was asked, and the options of its search."""

    kind: AnyKind
    problem: Any
    options: dict[str, Any]
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The problem's."""
        return str(self.problem.name)

    @property
    def unit(self) -> str:
        """The problem's."""
        return str(self.problem.unit)

    def at(self, point: Mapping[str, Any]) -> Any:
        """The problem at a point of a grid."""
        return self.kind.sweep.at(self.problem, point)


def read_file(
    path: str, file_format: str | None, problem_kind: str | None, scale_communication: float, given: Mapping[str, Any]
) -> Stated:
    """The problem of a file, with the settings that were given."""
    from partita.problems.importers import open_problem
    from partita.problems.settings import read_settings

    opened = open_problem(path, file_format, problem_kind, scale_communication=scale_communication)
    kind = kind_of(opened.problem)
    others: dict[str, Iterable[type[msgspec.Struct]]] = {}
    options, changes = read_flags(
        kind,
        given,
        (kind.options, kind.changes),
        others,
        what=f"{path}, which states a {kind.name} problem",
        model=False,
    )
    for name, value in changes.items():
        if (name, value) in opened.refusals:
            raise UnsupportedError(f"{path} {opened.refusals[name, value]}")
    problem = opened.problem
    if changes:
        problem = kind.change(problem, read_settings(kind.changes, changes, path))
    # A problem that partita wrote carries notes about its making; only foreign files are a surprise to warn of.
    for note in problem.notes if opened.foreign else ():
        warn(f"note: {note}")
    return Stated(kind, problem, options)


# -- models ---------------------------------------------------------------------------------------------------------


def is_model(text: str) -> bool:
    """Whether an argument names a model rather than a problem file."""
    if text.startswith("hf:") or ".py:" in text or text.endswith((".py", ".onnx")):
        return True
    path = Path(text)
    if path.suffix == ".json" and path.is_file():
        from partita.documents.document import document_keys, read_bytes
        from partita.documents.stated import GRAPH_FORMAT

        tag = document_keys(read_bytes(path), path).get("format")
        return tag is not None and bytes(tag) == msgspec.json.encode(GRAPH_FORMAT)
    return False


@dataclass(frozen=True)
class Model:
    """A model to be planned on a cluster, and how.

    Attributes
    ----------
    kind
        The problem it is planned as.
    graph, cluster
        The model and the devices.
    options, pricing, changes
        Settings of the search, of the pricing, and changes of the priced problem.
    notes
        What a reader should know about the choice of the problem.
    """

    kind: AnyKind
    graph: Graph
    cluster: Cluster
    options: dict[str, Any]
    pricing: dict[str, Any]
    changes: dict[str, Any]
    notes: tuple[str, ...] = ()
    unit: str = "s"

    @property
    def name(self) -> str:
        """The model's."""
        return self.graph.name

    def price(self, cluster: Cluster | None = None) -> list[Priced[Any]]:
        """The candidate problems, on another cluster if one is given."""
        from partita.conductor.plan import price_all

        machines = self.cluster if cluster is None else cluster
        assert self.kind.model is not None
        pricing = {**self.kind.model.usual(self.graph, machines), **self.pricing}
        return list(price_all(self.kind, self.graph, machines, pricing, self.changes))

    def at(self, point: Mapping[str, Any]) -> Priced[Any]:
        """The priced problem at a point of a grid; another number of devices is another cluster.

        Raises
        ------
        InputError
            If the cluster cannot have so many devices, or several problems are to be chosen from.
        """
        from partita.cluster_size import with_devices

        rest = dict(point)
        devices = rest.pop("devices", None)
        candidates = self.price(None if devices is None else with_devices(self.cluster, devices))
        if len(candidates) > 1:
            raise InputError(f"these settings make {len(candidates)} problems of the model; a sweep takes one")
        found = candidates[0]
        return dataclasses.replace(found, problem=self.kind.sweep.at(found.problem, rest))


def read_model(
    text: str,
    cluster: str | None,
    objective: str | None,
    given: Mapping[str, Any],
    tracing: dict[str, Any],
    *,
    solver: str | None,
) -> Model:
    """A model argument with its cluster, and the settings that were given.

    What can be wrong with the cluster, the settings and the solver's name is looked at first: a mistake there should
    not cost the time of tracing.
    """
    from partita.cluster import parse_cluster
    from partita.conductor.plan import choose_problem
    from partita.conductor.solve import check_solver

    if cluster is None:
        raise InputError(f"{text} is a model; say what to split it over with --cluster, for example 4xA100-80GB")
    machines = parse_cluster(cluster)
    training: bool = tracing["training"]
    # A graph file may hold a backward part without being asked for one.
    certain = training or text.startswith("hf:") or not text.endswith(".json")
    if certain:
        kind, notes = choose_problem(objective, machines, training)
        sorted_flags = _sorted(kind, given)
        check_solver(kind, solver)
        graph = _read_graph(text, **tracing)
    else:
        graph = _read_graph(text, **tracing)
    if not certain or graph.training != training:
        kind, notes = choose_problem(objective, machines, graph.training)
        sorted_flags = _sorted(kind, given)
        check_solver(kind, solver)
    return Model(kind, graph, machines, *sorted_flags, tuple(notes))


def _sorted(kind: AnyKind, given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    assert kind.model is not None
    others = {
        f"--objective {other.model.objective}": _of_model(other)
        for other in kinds()
        if other.model is not None and other.name != kind.name
    }
    what = f"a plan with objective {kind.model.objective}"
    options, pricing, changes = read_flags(kind, given, _of_model(kind), others, what=what, model=True)
    return options, pricing, changes


def _read_graph(
    text: str,
    batch_size: int,
    sequence_length: int | None,
    dtype: str | None,
    set_fields: tuple[str, ...],
    task: str | None,
    training: bool,
) -> Graph:
    """The graph of a model argument."""
    if text.endswith(".onnx"):
        raise UnsupportedError(f"{text}: ONNX models are not read yet; give a PyTorch callable or a graph file")
    if not text.startswith("hf:") and text.endswith(".json"):
        from partita.documents.stated import read_graph

        graph = read_graph(text)
        if training and not graph.training:
            raise InputError(f"{text} was traced without its backward part; trace it again with training")
        return graph
    fields: dict[str, str] = {}
    for entry in set_fields:
        name, equals, value = entry.partition("=")
        if not equals or not name:
            raise InputError(f"--set {entry!r} is not of the form FIELD=VALUE")
        fields[name] = value
    from partita.frontends.models import load_model

    started = time.perf_counter()
    if sys.stderr.isatty():
        warn(f"tracing {text} …")
    with quiet_stdout():
        graph = load_model(
            text,
            batch_size=batch_size,
            sequence_length=sequence_length,
            dtype=dtype,
            set_fields=fields,
            task=task,
            training=training,
        )
    elapsed = time.perf_counter() - started
    if sys.stderr.isatty():
        warn(f"{len(graph.operators)} operators in {elapsed:.1f} s")
    return graph
