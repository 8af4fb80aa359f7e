"""partita: how should this neural network be split over these devices, and how far from the best is that answer?

Names are imported on first use, so that ``import partita`` stays fast and needs no solver, torch or plotting package.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from partita.api.answer import Answer as Answer
    from partita.api.comparing import Comparison as Comparison
    from partita.api.exporting import Exported as Exported
    from partita.api.judging import bound as bound
    from partita.api.judging import check as check
    from partita.api.loading import load as load
    from partita.api.profiling import ProfileAnswer as ProfileAnswer
    from partita.api.profiling import load_profile as load_profile
    from partita.api.profiling import profile as profile
    from partita.api.running import MeasuredRun as MeasuredRun
    from partita.api.simulation import SimulationAnswer as SimulationAnswer
    from partita.api.sweeping import SweepAnswer as SweepAnswer
    from partita.api.training_run import training_run as training_run
    from partita.api.typed.compare import compare as compare
    from partita.api.typed.evaluate import evaluate as evaluate
    from partita.api.typed.map_stages import map_stages as map_stages
    from partita.api.typed.plan import plan as plan
    from partita.api.typed.price import price as price
    from partita.api.typed.read_problem import read_problem as read_problem
    from partita.api.typed.solve import solve as solve
    from partita.api.typed.sweep import sweep as sweep
    from partita.api.using import export as export
    from partita.api.using import run as run
    from partita.api.using import simulate as simulate
    from partita.components.catalogued import devices as devices
    from partita.components.catalogued import links as links
    from partita.components.exported import runtimes as runtimes
    from partita.components.joined import topologies as topologies
    from partita.components.register import register as register
    from partita.components.register import unregister as unregister
    from partita.components.scheduled import schedules as schedules
    from partita.components.solved import baselines as baselines
    from partita.components.solved import bounds as bounds
    from partita.components.solved import problem_kinds as problem_kinds
    from partita.components.solved import solvers as solvers
    from partita.conductor.place import place as place
    from partita.conductor.training_run import TrainingRun as TrainingRun
    from partita.documents.stated import read_graph as read_graph
    from partita.documents.stated import write_graph as write_graph
    from partita.documents.stated import write_problem as write_problem
    from partita.engines.search.monitor import Monitor as Monitor
    from partita.engines.search.result import Bound as Bound
    from partita.engines.search.result import Event as Event
    from partita.engines.search.result import PlanEvaluation as PlanEvaluation
    from partita.engines.search.result import Result as Result
    from partita.engines.search.result import Status as Status
    from partita.engines.search.result import StopReason as StopReason
    from partita.exporters.exporter import Exporter as Exporter
    from partita.exporters.exporter import FileExporter as FileExporter
    from partita.exporters.exporter import FolderExporter as FolderExporter
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
    from partita.nouns.catalogue.runtimes import Limits as Limits
    from partita.nouns.catalogue.runtimes import Runtime as Runtime
    from partita.nouns.catalogue.specs import DeviceSpec as DeviceSpec
    from partita.nouns.catalogue.specs import LinkSpec as LinkSpec
    from partita.nouns.cluster import Cluster as Cluster
    from partita.nouns.graph import Graph as Graph
    from partita.nouns.pipeline import Plan as Plan
    from partita.nouns.pipeline import Stage as Stage
    from partita.nouns.split import Split as Split
    from partita.nouns.topology.generators.generator import TopologyGenerator as TopologyGenerator
    from partita.nouns.topology.grammar import Option as Option
    from partita.nouns.topology.importers.importer import TopologyImporter as TopologyImporter
    from partita.nouns.topology.read import read_cluster as read_cluster
    from partita.nouns.topology.topology import Topology as Topology
    from partita.problems.hybrid.pricing import hybrid_problem as hybrid_problem
    from partita.problems.hybrid.problem import HybridProblem as HybridProblem
    from partita.problems.importers import ForeignFormat as ForeignFormat
    from partita.problems.kind import BoundMethod as BoundMethod
    from partita.problems.kind import Kind as Kind
    from partita.problems.kind import SearchOptions as SearchOptions
    from partita.problems.kind import Solver as Solver
    from partita.problems.kind import Stated as Stated
    from partita.problems.latency.plan import LatencyPlan as LatencyPlan
    from partita.problems.latency.problem import LatencyOperator as LatencyOperator
    from partita.problems.latency.problem import LatencyProblem as LatencyProblem
    from partita.problems.layer_placement.problem import LayerPlacement as LayerPlacement
    from partita.problems.layer_placement.problem import LayerPlacementProblem as LayerPlacementProblem
    from partita.problems.makespan.problem import MakespanProblem as MakespanProblem
    from partita.problems.mapping.problem import MappingProblem as MappingProblem
    from partita.problems.mapping.problem import Placement as Placement
    from partita.problems.outcome import Outcome as Outcome
    from partita.problems.settings import setting as setting
    from partita.problems.throughput.baselines.rules import LayerBaseline as LayerBaseline
    from partita.problems.throughput.evaluation import Evaluation as Evaluation
    from partita.problems.throughput.generators.plain import plain_problem as plain_problem
    from partita.problems.throughput.generators.regal import regal_problem as regal_problem
    from partita.problems.throughput.problem import ThroughputProblem as ThroughputProblem
    from partita.simulator.schedules.protocol import Action as Action
    from partita.simulator.schedules.protocol import Schedule as Schedule

#: Where the public names are.
_NAMES = {
    "partita.api.answer": "Answer",
    "partita.api.comparing": "Comparison",
    "partita.api.exporting": "Exported",
    "partita.api.judging": "bound check",
    "partita.api.loading": "load",
    "partita.api.profiling": "ProfileAnswer load_profile profile",
    "partita.api.running": "MeasuredRun",
    "partita.api.simulation": "SimulationAnswer",
    "partita.api.sweeping": "SweepAnswer",
    "partita.api.training_run": "training_run",
    "partita.api.typed.compare": "compare",
    "partita.api.typed.evaluate": "evaluate",
    "partita.api.typed.map_stages": "map_stages",
    "partita.api.typed.plan": "plan",
    "partita.api.typed.price": "price",
    "partita.api.typed.read_problem": "read_problem",
    "partita.api.typed.solve": "solve",
    "partita.api.typed.sweep": "sweep",
    "partita.api.using": "export run simulate",
    "partita.components.catalogued": "devices links",
    "partita.components.exported": "runtimes",
    "partita.components.joined": "topologies",
    "partita.components.register": "register unregister",
    "partita.components.scheduled": "schedules",
    "partita.components.solved": "baselines bounds problem_kinds solvers",
    "partita.conductor.place": "place",
    "partita.conductor.training_run": "TrainingRun",
    "partita.documents.stated": "read_graph write_graph write_problem",
    "partita.engines.search.monitor": "Monitor",
    "partita.engines.search.result": "Bound Event PlanEvaluation Result Status StopReason",
    "partita.exporters.exporter": "Exporter FileExporter FolderExporter",
    "partita.frontends.models": "load_model",
    "partita.frontends.torch": "trace",
    "partita.ground.errors": "DisagreementError FormatError InputError MissingExtraError PartitaError TraceError "
    "UnsupportedError",
    "partita.ground.version": "__version__",
    "partita.nouns.catalogue.runtimes": "Limits Runtime",
    "partita.nouns.catalogue.specs": "DeviceSpec LinkSpec",
    "partita.nouns.cluster": "Cluster",
    "partita.nouns.graph": "Graph",
    "partita.nouns.pipeline": "Plan Stage",
    "partita.nouns.split": "Split",
    "partita.nouns.topology.generators.generator": "TopologyGenerator",
    "partita.nouns.topology.grammar": "Option",
    "partita.nouns.topology.importers.importer": "TopologyImporter",
    "partita.nouns.topology.read": "read_cluster",
    "partita.nouns.topology.topology": "Topology",
    "partita.problems.hybrid.pricing": "hybrid_problem",
    "partita.problems.hybrid.problem": "HybridProblem",
    "partita.problems.importers": "ForeignFormat",
    "partita.problems.kind": "BoundMethod Kind SearchOptions Solver Stated",
    "partita.problems.latency.plan": "LatencyPlan",
    "partita.problems.latency.problem": "LatencyOperator LatencyProblem",
    "partita.problems.layer_placement.problem": "LayerPlacement LayerPlacementProblem",
    "partita.problems.makespan.problem": "MakespanProblem",
    "partita.problems.mapping.problem": "MappingProblem Placement",
    "partita.problems.outcome": "Outcome",
    "partita.problems.settings": "setting",
    "partita.problems.throughput.baselines.rules": "LayerBaseline",
    "partita.problems.throughput.evaluation": "Evaluation",
    "partita.problems.throughput.generators.plain": "plain_problem",
    "partita.problems.throughput.generators.regal": "regal_problem",
    "partita.problems.throughput.problem": "ThroughputProblem",
    "partita.simulator.schedules.protocol": "Action Schedule",
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = sorted(_HOMES)


# Type checkers know the names above, and refuse others.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module 'partita' has no attribute {name!r}")
        value = getattr(importlib.import_module(home), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return __all__
