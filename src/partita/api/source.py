"""What is to be planned: a stated problem with its changes, or a model with its cluster.

Options that do not fit what it is raise ``InputError``.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from partita.api.arguments import Devices, Model
from partita.api.given import Given
from partita.api.retracing import Retraced
from partita.api.tracing import (
    Tracing,
    decoding_graph,
    first_graph,
    format_of,
    is_graph_file,
    is_model,
    model_name,
)
from partita.conductor.ahead import compile_ahead
from partita.conductor.place import placing_facet, staged_plan
from partita.conductor.plan import choose_problem, price_all
from partita.conductor.solve import check_solver
from partita.costs.profile import Measured, Profile
from partita.costs.table import cost_source
from partita.documents.result_file import RESULT_FORMAT
from partita.ground.errors import InputError, UnsupportedError
from partita.nouns.catalogue.files import read_document
from partita.nouns.cluster import Cluster
from partita.nouns.cluster_sizes import with_devices
from partita.nouns.graph import Graph, Workload
from partita.nouns.topology.read import read_cluster, topology
from partita.nouns.topology.topology import Topology
from partita.problems import find_kind, kind_of
from partita.problems.facets.model import Priced
from partita.problems.importers import open_problem
from partita.problems.kind import AnyKind, Stated
from partita.problems.planned import read_planned
from partita.problems.settings import read_settings


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How a problem file is read: its format and problem, recognised if None, and a factor on transfers."""

    file_format: str | None = None
    problem: str | None = None
    scale_communication: float = 1.0


@dataclass(frozen=True)
class StatedSource:
    """A problem, changed as was asked, and the options of its search.

    ``notes`` are those of a foreign file about its reading.
    """

    kind: AnyKind
    problem: Any
    options: dict[str, Any]
    notes: Sequence[str] = ()

    @property
    def name(self) -> str:
        """The problem's."""
        return str(self.problem.name)

    def at(self, point: Mapping[str, Any]) -> Any:
        """The problem at a point of a grid."""
        return self.kind.sweep.at(self.problem, point)


def read_stated(what: Any, given: Given, reading: Reading | None = None) -> StatedSource:
    """A problem, or that of a file, with what was asked of it."""
    how = Reading() if reading is None else reading
    if not isinstance(what, str | Path):
        kind = kind_of(what)
        options, changes = given.of_stated(kind, f"a {kind.name} problem")
        return StatedSource(kind, _changed(kind, what, changes, what.name), dict(options))
    path = str(what)
    problem, foreign = open_problem(path, how.file_format, how.problem, scale_communication=how.scale_communication)
    kind = kind_of(problem)
    options, changes = given.of_stated(kind, f"{path}, which states a {kind.name} problem")
    for name, value in changes.items():
        if foreign is not None and (name, value) in foreign.refusals:
            raise UnsupportedError(f"{path} {foreign.refusals[name, value]}")
    # A problem that partita wrote carries notes about its making; only foreign files are a surprise to warn of.
    notes = () if foreign is None else problem.notes
    return StatedSource(kind, _changed(kind, problem, changes, path), dict(options), notes)


def read_placing(path: str, given: Given) -> StatedSource | None:
    """A result file with a plan of stages as the problem of placing it; None for any other file."""
    if format_of(path) != RESULT_FORMAT:
        return None
    kind = find_kind(placing_facet().kind.name)
    planned = read_planned(path)
    options, changes = given.of_stated(kind, f"{path}, which holds a plan to be placed")
    return placing_source(planned.problem, planned.plan, path, dict(options), dict(changes))


def placing_source(
    problem: Any, plan: Any, name: str, options: dict[str, Any], changes: dict[str, Any]
) -> StatedSource:
    """A plan of stages as the problem of placing it, with the options and changes of that one."""
    facet = placing_facet()
    kind = find_kind(facet.kind.name)
    where = changes.pop("topology", None)
    if where is None:
        raise InputError(f"{name} holds a plan; say where to place it with --topology, for example dgx1:4")
    if "replicas" in changes:
        raise InputError(f"{name} holds a plan, which says how many replicas there are; leave --replicas out")
    found = facet.placing(staged_plan(problem, plan), topology(where)).problem
    return StatedSource(kind, _changed(kind, found, changes, name), options)


def _changed(kind: AnyKind, problem: Any, changes: Mapping[str, Any], name: str) -> Any:
    return kind.change(problem, read_settings(kind.changes, changes, name)) if changes else problem


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
    where: Devices

    @property
    def name(self) -> str:
        """The model's."""
        return self.graph.name

    def topology(self) -> Topology:
        """The devices with their names and links, as far as what was given says them."""
        return topology(self.where)

    def price(self, cluster: Cluster | None = None) -> list[Priced[Any]]:
        """The candidate problems, on another cluster if one is given."""
        machines = self.cluster if cluster is None else cluster
        return list(price_all(self.kind, self.graph, machines, self.pricing, self.changes))

    def at(self, point: Mapping[str, Any]) -> Priced[Any]:
        """The priced problem at a point of a grid, if it is one; another number of devices is another cluster."""
        rest = dict(point)
        devices = rest.pop("devices", None)
        candidates = self.price(None if devices is None else with_devices(self.cluster, devices))
        if len(candidates) > 1:
            raise InputError(f"these settings make {len(candidates)} problems of the model; a sweep takes one")
        found = candidates[0]
        return dataclasses.replace(found, problem=self.kind.sweep.at(found.problem, rest))


def measured_machine(costs: Any) -> Devices | None:
    """The machine that a profile was measured on, given as ``costs``; None for tables, and without any."""
    if isinstance(costs, Measured):
        return Cluster.from_document(costs.profile.cluster, where=costs.source)
    if not isinstance(costs, str | Path) or not str(costs).lower().endswith(".json"):
        return None
    return str(costs) if read_document(Path(costs)).get("format") == Profile.format else None


def read_model(
    model: Model,
    cluster: Devices | None,
    given: Given,
    asked: Tracing,
    *,
    objective: str | None = None,
    solver: str | None = None,
) -> ModelSource:
    """A model with its cluster, and the settings that were given.

    What can be wrong with the cluster, the settings and the solver's name is looked at first: a mistake there should
    not cost the time of tracing.
    """
    name = model_name(model)
    # A profile of the model says what machine it was measured on.
    where = measured_machine(given.value("costs")) if cluster is None else cluster
    if where is None:
        raise InputError(f"{name} is a model; say what to split it over with --cluster, for example 4xA100-80GB")
    machines = read_cluster(where)

    def chosen(workload: Workload) -> tuple[AnyKind, list[str], Sequence[dict[str, Any]]]:
        """Which problem is planned, why, and the settings of its search, of its pricing, and changes."""
        kind, notes = choose_problem(objective, machines, workload, given.value("runtime"))
        assert kind.model is not None
        settings = given.of_model(kind)
        if workload is not Workload.TRAINING and (wrong := given.training(kind)) is not None:
            raise InputError(f"{wrong} is about training; add --training, or leave it out")
        check_solver(kind, solver)
        kind.model.check(read_settings(kind.model.pricing, settings[1], f"{kind.name} pricing"), machines)
        cost_source(settings[1].get("costs"))
        return kind, notes, settings

    workload = Workload.of(training=asked.training)
    # A graph may have a backward part without being asked for one.
    is_graph = isinstance(model, Graph) or (isinstance(model, str | Path) and is_graph_file(str(model)))
    known = chosen(workload) if asked.training or not is_graph else None
    if known is not None:
        # While a model is traced, kernels can be compiled.
        compile_ahead(known[0])
    started = time.monotonic()
    steps = known[0].model.traced_after if known is not None and known[0].model is not None else ()
    if steps and asked.decode is None and isinstance(model, str) and model.startswith("hf:"):
        graph, free = decoding_graph(model, asked, steps), False
    else:
        graph, free = first_graph(model, asked, sized=given.value("global_batch") is not None)
    kind, notes, settings = known if known is not None and graph.workload is workload else chosen(graph.workload)
    options, pricing, changes = map(dict, settings)
    assert kind.model is not None
    if "trace" in kind.model.pricing.__struct_fields__ and "trace" not in pricing:
        pricing["trace"] = Retraced(str(model), asked, time.monotonic() - started) if free else None
    return ModelSource(kind, graph, machines, options, pricing, changes, notes, where)


def read_either(
    what: Model | Stated,
    cluster: Devices | None,
    given: Given,
    asked: Tracing,
    reading: Reading,
    *,
    objective: str | None = None,
    solver: str | None = None,
) -> ModelSource | StatedSource:
    """A model with its cluster, or a problem or its file, which say themselves what they are planned on and for."""
    if is_model(what):
        return read_model(what, cluster, given, asked, objective=objective, solver=solver)  # type: ignore[arg-type]
    beside = {"--objective": objective, "--cluster": cluster}
    wrong = [flag for flag, value in beside.items() if value is not None]
    wrong += [*asked.given(), *(["--training"] if asked.training else [])]
    if wrong:
        name = what if isinstance(what, str | Path) else getattr(what, "name", type(what).__name__)
        what_it_is = "a file" if isinstance(what, str | Path) else "a problem"
        raise InputError(f"{name} is {what_it_is}, which states its own problem; leave {wrong[0]} out")
    return read_stated(what, given, reading)
