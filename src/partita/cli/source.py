"""Reading what a command is about: a problem file with its changes, or a model with its cluster.

Options that do not fit what it is raise ``InputError``.
"""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from partita.cli.common import quiet_stdout, warn
from partita.cli.flags import PREFIX, read_flags, take_flags
from partita.cli.options import read_fields, take_inputs, take_reading
from partita.ground.errors import InputError, NoBatchSizeError, TraceError, UnsupportedError
from partita.nouns.graph import Workload
from partita.problems import find_kind, kind_of, kinds
from partita.problems.kind import AnyKind
from partita.problems.settings import flags_of, read_settings

if TYPE_CHECKING:
    from partita.nouns.cluster import Cluster
    from partita.nouns.graph import Graph
    from partita.nouns.topology.topology import Topology
    from partita.problems.facets.model import Priced


def read_source(what: str, parameters: dict[str, Any], solver: str | None) -> ModelSource | FileSource:
    """A file or a model, from what a command with the options of both was given."""
    if not is_model(what):
        if (given := _given("model", "machine", "training")) is not None:
            raise InputError(f"{what} is a file, which states its own problem; leave {given} out")
        del parameters["cluster"], parameters["objective"]
        return read_file(what, parameters)
    take_reading(parameters)
    return read_model(what, parameters, solver)


def _given(*groups: str) -> str | None:
    """The first option of some groups of the help page that is on the command line, but for those of problems."""
    context = click.get_current_context()
    for parameter in context.command.params:
        name = str(parameter.name)
        asked = getattr(parameter, "group", "") in groups and not name.startswith(PREFIX)
        if asked and context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            return parameter.opts[0]
    return None


@dataclass(frozen=True)
class FileSource:
    """A problem of a file, changed as was asked, and the options of its search."""

    kind: AnyKind
    problem: Any
    options: dict[str, Any]
    notes: Sequence[str] = ()

    @property
    def name(self) -> str:
        return str(self.problem.name)

    @property
    def unit(self) -> str:
        return str(self.problem.unit)

    def at(self, point: Mapping[str, Any]) -> Any:
        """The problem at a point of a grid."""
        return self.kind.sweep.at(self.problem, point)


def read_file(path: str, parameters: dict[str, Any]) -> FileSource:
    """The problem of a file, from what a command with the options of files was given."""
    from partita.problems.importers import open_problem

    file_format, problem_kind, scale = take_reading(parameters)
    problem, foreign = open_problem(path, file_format, problem_kind, scale_communication=scale)
    kind = kind_of(problem)
    what = f"{path}, which states a {kind.name} problem"
    options, changes = read_flags(take_flags(parameters), (kind.options, kind.changes), what)
    for name, value in changes.items():
        if foreign is not None and (name, value) in foreign.refusals:
            raise UnsupportedError(f"{path} {foreign.refusals[name, value]}")
    problem = _changed(kind, problem, changes, path)
    # A problem that partita wrote carries notes about its making; only foreign files are a surprise to warn of.
    for note in () if foreign is None else problem.notes:
        warn(f"note: {note}")
    return FileSource(kind, problem, options)


def read_placing(path: str, parameters: dict[str, Any]) -> FileSource | None:
    """A result file with a plan of stages as the problem of placing it; None for any other file."""
    from partita.conductor.place import placing_facet, staged_plan
    from partita.documents.result_file import RESULT_FORMAT
    from partita.nouns.topology.read import topology
    from partita.problems.planned import read_planned

    if _format(path) != RESULT_FORMAT:
        return None
    take_reading(parameters)
    facet = placing_facet()
    kind = find_kind(facet.kind.name)
    planned = read_planned(path)
    problem, plan = planned.problem, planned.plan
    what = f"{path}, which holds a plan to be placed"
    options, changes = read_flags(take_flags(parameters), (kind.options, kind.changes), what)
    where = changes.pop("topology", None)
    if where is None:
        raise InputError(f"{path} holds a plan; say where to place it with --topology, for example dgx1:4")
    if "replicas" in changes:
        raise InputError(f"{path} holds a plan, which says how many replicas there are; leave --replicas out")
    found = facet.placing(staged_plan(problem, plan), topology(where)).problem
    return FileSource(kind, _changed(kind, found, changes, path), options)


def _changed(kind: AnyKind, problem: Any, changes: dict[str, Any], path: str) -> Any:
    return kind.change(problem, read_settings(kind.changes, changes, path)) if changes else problem


def _format(path: str | Path) -> Any:
    from partita.documents.document import document_keys, read_bytes

    return msgspec.json.decode(document_keys(read_bytes(path), path).get("format", b"null"))


def is_model(text: str) -> bool:
    """Whether an argument names a model rather than a problem file."""
    if text.startswith("hf:") or ".py:" in text or text.endswith((".py", ".onnx")):
        return True
    from partita.documents.stated import GRAPH_FORMAT

    path = Path(text)
    return path.suffix == ".json" and path.is_file() and _format(path) == GRAPH_FORMAT


@dataclass(frozen=True)
class ModelSource:
    """A model to be planned on a cluster, as which problem, and how.

    Settings are of the search, of the pricing, and changes of the priced problem; ``notes`` say what a reader should
    know about the choice of the problem, ``where`` is the cluster as it was given.
    """

    kind: AnyKind
    graph: Graph
    cluster: Cluster
    options: dict[str, Any]
    pricing: dict[str, Any]
    changes: dict[str, Any]
    notes: Sequence[str]
    unit: str = "s"
    where: str = ""

    @property
    def name(self) -> str:
        return self.graph.name

    def topology(self) -> Topology:
        """The devices with their names and links, as far as what was given says them."""
        from partita.nouns.topology.read import topology

        return topology(self.where)

    def price(self, cluster: Cluster | None = None) -> list[Priced[Any]]:
        """The candidate problems, on another cluster if one is given."""
        from partita.conductor.plan import price_all

        machines = self.cluster if cluster is None else cluster
        return list(price_all(self.kind, self.graph, machines, self.pricing, self.changes))

    def at(self, point: Mapping[str, Any]) -> Priced[Any]:
        """The priced problem at a point of a grid, if it is one; another number of devices is another cluster."""
        from partita.nouns.cluster_sizes import with_devices

        rest = dict(point)
        devices = rest.pop("devices", None)
        candidates = self.price(None if devices is None else with_devices(self.cluster, devices))
        if len(candidates) > 1:
            raise InputError(f"these settings make {len(candidates)} problems of the model; a sweep takes one")
        found = candidates[0]
        return dataclasses.replace(found, problem=self.kind.sweep.at(found.problem, rest))


def measured_machine(parameters: Mapping[str, Any]) -> str | None:
    """The profile that ``--costs`` names, whose machine is a cluster; None for tables, and without it."""
    costs = parameters.get(f"{PREFIX}costs")
    if costs is None or not str(costs).lower().endswith(".json"):
        return None
    from partita.costs.profile import Profile
    from partita.nouns.catalogue.files import read_document

    return str(costs) if read_document(Path(costs)).get("format") == Profile.format else None


def read_model(text: str, parameters: dict[str, Any], solver: str | None) -> ModelSource:
    """A model argument with its cluster, and the settings that were given; takes these out of the parameters.

    What can be wrong with the cluster, the settings and the solver's name is looked at first: a mistake there should
    not cost the time of tracing.
    """
    from partita.conductor.plan import choose_problem
    from partita.conductor.solve import check_solver
    from partita.nouns.topology.read import read_cluster

    cluster, objective = parameters.pop("cluster"), parameters.pop("objective")
    if cluster is None:
        # A profile of the model says what machine it was measured on.
        cluster = measured_machine(parameters)
    if cluster is None:
        raise InputError(f"{text} is a model; say what to split it over with --cluster, for example 4xA100-80GB")
    machines = read_cluster(cluster)
    given = take_flags(parameters)

    def chosen(workload: Workload) -> tuple[AnyKind, list[str], list[dict[str, Any]]]:
        """Which problem is planned, why, and the settings of its search, of its pricing, and changes."""
        kind, notes = choose_problem(objective, machines, workload, given.get("--runtime"))
        declarations = {each.objective: each.declarations for each in kinds() if each.model is not None}
        assert kind.model is not None
        own = declarations.pop(kind.objective)
        others = {f"--objective {name}": structures for name, structures in declarations.items()}
        settings = read_flags(given, own, f"a plan with objective {kind.objective}", others=others)
        if workload is not Workload.TRAINING:
            of_training = [flag for flag, entry in flags_of(own).items() if entry.training and flag in given]
            if of_training:
                raise InputError(f"{of_training[0]} is about training; add --training, or leave it out")
        check_solver(kind, solver)
        kind.model.check(read_settings(kind.model.pricing, settings[1], f"{kind.name} pricing"), machines)
        return kind, notes, settings

    asked = Workload.of(training=parameters["training"])
    # A graph file may hold a backward part without being asked for one.
    known = chosen(asked) if parameters["training"] or text.startswith("hf:") or not text.endswith(".json") else None
    steps = known[0].model.traced_after if known is not None and known[0].model is not None else ()
    if text.startswith("hf:") and steps and parameters["decode"] is None:
        graph, free = _decoding_graph(text, parameters, steps), False
    else:
        graph, free = _first_graph(text, parameters, sized="--global-batch" in given)
    kind, notes, settings = known if known is not None and graph.workload is asked else chosen(graph.workload)
    for note in notes:
        warn(f"note: {note}")
    options, pricing, changes = settings
    assert kind.model is not None
    if "trace" in kind.model.pricing.__struct_fields__:
        pricing["trace"] = (lambda size: _read_graph(text, **{**parameters, "batch_size": size})) if free else None
    return ModelSource(kind, graph, machines, options, pricing, changes, notes, where=cluster)


def _first_graph(text: str, parameters: dict[str, Any], *, sized: bool) -> tuple[Graph, bool]:
    """The graph of a model, and whether the size of its microbatch is free: not given, and the model takes any.

    Where the size matters (``sized``) and is free, the first graph has one sample.
    """
    traced = text.startswith("hf:") or not text.endswith(".json")
    # Arrays that are given have the size that they have.
    free = parameters["batch_size"] is None and not parameters["input_entries"] and parameters["inputs_file"] is None
    if not (sized and traced and free):
        return _read_graph(text, **parameters), False
    try:
        return _read_graph(text, **{**parameters, "batch_size": 1}), True
    except NoBatchSizeError:
        # A callable without that parameter has one size.
        return _read_graph(text, **parameters), False


def _decoding_graph(text: str, parameters: dict[str, Any], steps: Sequence[int]) -> Graph:
    """The graph of a step of decoding, after the first so many tokens that the model has positions for."""
    failure = None
    for tokens in steps:
        try:
            return _read_graph(text, **{**parameters, "decode": tokens})
        except TraceError:
            raise
        except InputError as error:
            failure = failure or error
    assert failure is not None
    raise failure


def _read_graph(text: str, *, set_fields: tuple[str, ...], training: bool, **tracing: Any) -> Graph:
    """The graph of a model argument; the rest is what ``load_model`` takes."""
    if not text.startswith("hf:") and text.endswith(".json"):
        from partita.documents.stated import read_graph

        if (given := _given("model")) is not None:
            raise InputError(
                f"{text} is a traced graph, which {given} cannot change; leave it out, or trace the model again"
            )
        graph = read_graph(text)
        if training and not graph.training:
            raise InputError(f"{text} was traced without its backward part; trace it again with training")
        return graph
    fields, inputs = read_fields(set_fields), take_inputs(tracing)
    from partita.frontends.models import load_model

    started = time.perf_counter()
    if sys.stderr.isatty():
        warn(f"tracing {text} …")
    with quiet_stdout():
        graph = load_model(text, set_fields=fields, training=training, inputs=inputs, **tracing)
    if sys.stderr.isatty():
        warn(f"{len(graph.operators)} operators in {time.perf_counter() - started:.1f} s")
    return graph
