"""partita: how should this neural network be split over these devices, and how far from the best is that answer?

Names are imported on first use, so that ``import partita`` stays fast and needs no solver, torch or plotting package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from partita.cluster import Cluster
    from partita.conductor.bound import bound
    from partita.conductor.compare import compare
    from partita.conductor.judge import evaluate
    from partita.conductor.plan import plan, price
    from partita.conductor.solve import solve
    from partita.documents.stated import read_graph, write_graph, write_problem
    from partita.errors import (
        DisagreementError,
        FormatError,
        InputError,
        MissingExtraError,
        PartitaError,
        TraceError,
        UnsupportedError,
    )
    from partita.frontends.models import load_model
    from partita.frontends.torch import trace
    from partita.graph import Graph
    from partita.problems.hybrid.plan import HybridPlan, HybridStage
    from partita.problems.hybrid.pricing import hybrid_problem
    from partita.problems.hybrid.problem import HybridProblem
    from partita.problems.importers import read_problem
    from partita.problems.throughput.evaluate import Evaluation
    from partita.problems.throughput.generators.plain import plain_problem
    from partita.problems.throughput.generators.regal import regal_problem
    from partita.problems.throughput.plan import Plan, Stage
    from partita.problems.throughput.problem import ThroughputProblem
    from partita.run.result import Bound, Event, Result, Status, StopReason

_HOMES = {
    "Bound": "partita.run.result",
    "Cluster": "partita.cluster",
    "DisagreementError": "partita.errors",
    "Evaluation": "partita.problems.throughput.evaluate",
    "Event": "partita.run.result",
    "FormatError": "partita.errors",
    "Graph": "partita.graph",
    "HybridPlan": "partita.problems.hybrid.plan",
    "HybridProblem": "partita.problems.hybrid.problem",
    "HybridStage": "partita.problems.hybrid.plan",
    "InputError": "partita.errors",
    "MissingExtraError": "partita.errors",
    "PartitaError": "partita.errors",
    "Plan": "partita.problems.throughput.plan",
    "Result": "partita.run.result",
    "Stage": "partita.problems.throughput.plan",
    "Status": "partita.run.result",
    "StopReason": "partita.run.result",
    "ThroughputProblem": "partita.problems.throughput.problem",
    "TraceError": "partita.errors",
    "UnsupportedError": "partita.errors",
    "bound": "partita.conductor.bound",
    "compare": "partita.conductor.compare",
    "evaluate": "partita.conductor.judge",
    "hybrid_problem": "partita.problems.hybrid.pricing",
    "load_model": "partita.frontends.models",
    "plain_problem": "partita.problems.throughput.generators.plain",
    "plan": "partita.conductor.plan",
    "price": "partita.conductor.plan",
    "read_graph": "partita.documents.stated",
    "read_problem": "partita.problems.importers",
    "regal_problem": "partita.problems.throughput.generators.regal",
    "solve": "partita.conductor.solve",
    "trace": "partita.frontends.torch",
    "write_graph": "partita.documents.stated",
    "write_problem": "partita.documents.stated",
}

__version__ = "0.1.0"

__all__ = [
    "Bound",
    "Cluster",
    "DisagreementError",
    "Evaluation",
    "Event",
    "FormatError",
    "Graph",
    "HybridPlan",
    "HybridProblem",
    "HybridStage",
    "InputError",
    "MissingExtraError",
    "PartitaError",
    "Plan",
    "Result",
    "Stage",
    "Status",
    "StopReason",
    "ThroughputProblem",
    "TraceError",
    "UnsupportedError",
    "__version__",
    "bound",
    "compare",
    "evaluate",
    "hybrid_problem",
    "load_model",
    "plain_problem",
    "plan",
    "price",
    "read_graph",
    "read_problem",
    "regal_problem",
    "solve",
    "trace",
    "write_graph",
    "write_problem",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'partita' has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
