"""partita: how should this neural network be split over these devices, and how far from the best is that answer?

Names are imported on first use, so that ``import partita`` stays fast and needs no solver, torch or plotting package.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from partita.conductor.bound import bound as bound
    from partita.conductor.check import check as check
    from partita.conductor.compare import compare as compare
    from partita.conductor.judge import evaluate as evaluate
    from partita.conductor.place import place as place
    from partita.conductor.plan import plan as plan
    from partita.conductor.plan import price as price
    from partita.conductor.simulate import simulate as simulate
    from partita.conductor.solve import solve as solve
    from partita.documents.stated import read_graph as read_graph
    from partita.documents.stated import write_graph as write_graph
    from partita.documents.stated import write_problem as write_problem
    from partita.engines.search.result import Bound as Bound
    from partita.engines.search.result import Event as Event
    from partita.engines.search.result import Result as Result
    from partita.engines.search.result import Status as Status
    from partita.engines.search.result import StopReason as StopReason
    from partita.frontends.models import load_model as load_model
    from partita.frontends.torch import trace as trace
    from partita.ground.errors import DisagreementError as DisagreementError
    from partita.ground.errors import FormatError as FormatError
    from partita.ground.errors import InputError as InputError
    from partita.ground.errors import MissingExtraError as MissingExtraError
    from partita.ground.errors import PartitaError as PartitaError
    from partita.ground.errors import TraceError as TraceError
    from partita.ground.errors import UnsupportedError as UnsupportedError
    from partita.ground.version import __version__ as __version__
    from partita.nouns.cluster import Cluster as Cluster
    from partita.nouns.graph import Graph as Graph
    from partita.nouns.pipeline import Plan as Plan
    from partita.nouns.pipeline import Stage as Stage
    from partita.nouns.topology.read import read_cluster as read_cluster
    from partita.nouns.topology.topology import Topology as Topology
    from partita.problems.hybrid.pricing import hybrid_problem as hybrid_problem
    from partita.problems.hybrid.problem import HybridProblem as HybridProblem
    from partita.problems.importers import read_problem as read_problem
    from partita.problems.latency.plan import LatencyPlan as LatencyPlan
    from partita.problems.latency.problem import LatencyOperator as LatencyOperator
    from partita.problems.latency.problem import LatencyProblem as LatencyProblem
    from partita.problems.layer_placement.problem import LayerPlacement as LayerPlacement
    from partita.problems.layer_placement.problem import LayerPlacementProblem as LayerPlacementProblem
    from partita.problems.makespan.problem import MakespanProblem as MakespanProblem
    from partita.problems.mapping.problem import MappingProblem as MappingProblem
    from partita.problems.mapping.problem import Placement as Placement
    from partita.problems.throughput.evaluation import Evaluation as Evaluation
    from partita.problems.throughput.generators.plain import plain_problem as plain_problem
    from partita.problems.throughput.generators.regal import regal_problem as regal_problem
    from partita.problems.throughput.problem import ThroughputProblem as ThroughputProblem

#: Where the public names are.
_NAMES = {
    "partita.nouns.cluster": "Cluster",
    "partita.conductor.bound": "bound",
    "partita.conductor.check": "check",
    "partita.conductor.compare": "compare",
    "partita.conductor.judge": "evaluate",
    "partita.conductor.place": "place",
    "partita.conductor.plan": "plan price",
    "partita.conductor.simulate": "simulate",
    "partita.conductor.solve": "solve",
    "partita.documents.stated": "read_graph write_graph write_problem",
    "partita.ground.errors": "DisagreementError FormatError InputError MissingExtraError PartitaError TraceError "
    "UnsupportedError",
    "partita.frontends.models": "load_model",
    "partita.frontends.torch": "trace",
    "partita.nouns.graph": "Graph",
    "partita.nouns.pipeline": "Plan Stage",
    "partita.problems.hybrid.pricing": "hybrid_problem",
    "partita.problems.hybrid.problem": "HybridProblem",
    "partita.problems.makespan.problem": "MakespanProblem",
    "partita.problems.importers": "read_problem",
    "partita.problems.latency.plan": "LatencyPlan",
    "partita.problems.latency.problem": "LatencyOperator LatencyProblem",
    "partita.problems.layer_placement.problem": "LayerPlacement LayerPlacementProblem",
    "partita.problems.mapping.problem": "MappingProblem Placement",
    "partita.problems.throughput.evaluation": "Evaluation",
    "partita.problems.throughput.generators.plain": "plain_problem",
    "partita.problems.throughput.generators.regal": "regal_problem",
    "partita.problems.throughput.problem": "ThroughputProblem",
    "partita.engines.search.result": "Bound Event Result Status StopReason",
    "partita.nouns.topology.read": "read_cluster",
    "partita.nouns.topology.topology": "Topology",
    "partita.ground.version": "__version__",
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'partita' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
