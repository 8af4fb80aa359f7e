"""Plan: a model and a cluster in, the best plan beside what people do by hand out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from partita.api.answer import Answer, AnyAnswer
from partita.api.arguments import Devices, Inputs, Model
from partita.conductor.plan import plan as plan_graph
from partita.engines.search.result import Progress
from partita.frontends.models import load_model
from partita.nouns.graph import Graph


def plan(
    model: Model,
    cluster: Devices | None = None,
    *,
    objective: str | None = None,
    time_limit_s: float | None = 60.0,
    seed: int = 0,
    solver: str | None = None,
    threads: int = 2,
    progress: Progress | None = None,
    baselines: bool = True,
    training: bool = False,
    batch_size: int | None = None,
    sequence_length: int | None = None,
    dtype: str | None = None,
    set: Mapping[str, object] | None = None,
    task: str | None = None,
    decode: int | None = None,
    inputs: Inputs | None = None,
    search_replicas: bool = False,
    jobs: int = 1,
    backend: str = "processes",
    address: str | None = None,
    **settings: Any,
) -> AnyAnswer:
    """Split a model over a cluster."""
    graph = model if isinstance(model, Graph) else load_model(str(model), training=training)
    assert cluster is not None
    found = plan_graph(
        graph,
        cluster,
        objective=objective,
        time_limit_s=time_limit_s,
        seed=seed,
        solver=solver,
        threads=threads,
        progress=progress,
        baselines=baselines,
        **settings,
    )
    return Answer(found.result, found)
