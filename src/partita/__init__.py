"""partita: how should this neural network be split over these devices, and how far from the best is that answer?

Names are imported on first use, so that ``import partita`` stays fast and needs no solver, torch or plotting package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from partita.cluster import Cluster
    from partita.costs.menus.problem import hybrid_problem
    from partita.costs.price import price
    from partita.errors import (
        DisagreementError,
        FormatError,
        InputError,
        MissingExtraError,
        PartitaError,
        TraceError,
        UnsupportedError,
    )
    from partita.formats.detect import read_problem
    from partita.formats.native import read_graph, write_graph, write_problem
    from partita.frontends.models import load_model
    from partita.frontends.torch import trace
    from partita.generators.plain import plain_problem
    from partita.generators.regal import regal_problem
    from partita.graph import Graph
    from partita.hybrid.plan import HybridPlan, HybridStage
    from partita.hybrid.problem import HybridProblem
    from partita.hybrid_planning import plan_hybrid
    from partita.judging import evaluate
    from partita.pipeline import bound, compare, plan, solve
    from partita.result import Bound, Event, Result, Status, StopReason
    from partita.throughput.evaluate import Evaluation
    from partita.throughput.plan import Plan, Stage
    from partita.throughput.problem import ThroughputProblem

_HOMES = {
    "Bound": "partita.result",
    "Cluster": "partita.cluster",
    "DisagreementError": "partita.errors",
    "Evaluation": "partita.throughput.evaluate",
    "Event": "partita.result",
    "FormatError": "partita.errors",
    "Graph": "partita.graph",
    "HybridPlan": "partita.hybrid.plan",
    "HybridProblem": "partita.hybrid.problem",
    "HybridStage": "partita.hybrid.plan",
    "InputError": "partita.errors",
    "MissingExtraError": "partita.errors",
    "PartitaError": "partita.errors",
    "Plan": "partita.throughput.plan",
    "Result": "partita.result",
    "Stage": "partita.throughput.plan",
    "Status": "partita.result",
    "StopReason": "partita.result",
    "ThroughputProblem": "partita.throughput.problem",
    "TraceError": "partita.errors",
    "UnsupportedError": "partita.errors",
    "bound": "partita.pipeline",
    "compare": "partita.pipeline",
    "evaluate": "partita.judging",
    "hybrid_problem": "partita.costs.menus.problem",
    "load_model": "partita.frontends.models",
    "plain_problem": "partita.generators.plain",
    "plan": "partita.pipeline",
    "plan_hybrid": "partita.hybrid_planning",
    "price": "partita.costs.price",
    "read_graph": "partita.formats.native",
    "read_problem": "partita.formats.detect",
    "regal_problem": "partita.generators.regal",
    "solve": "partita.pipeline",
    "trace": "partita.frontends.torch",
    "write_graph": "partita.formats.native",
    "write_problem": "partita.formats.native",
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
    "plan_hybrid",
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
