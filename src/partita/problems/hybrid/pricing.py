"""From a training graph and a cluster to a hybrid problem."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypedDict, Unpack

from partita.costs.roofline import CostSource
from partita.nouns.cluster import Cluster
from partita.nouns.graph import Graph
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.spaces import Offload, StrategySpaces
from partita.problems.hybrid.steady.from_model import steady_spaces
from partita.problems.hybrid.step.degrees import DegreeChoices
from partita.problems.hybrid.step.pricing import step_spaces
from partita.problems.hybrid.training import Training


class SpacesSettings(TypedDict, total=False):
    """What ``strategy_spaces`` and ``spaces.priced_model`` take beside model and cluster."""

    microbatches: int
    optimizer: str
    optimizer_dtype: str
    master_weights: bool | None
    sequence_parallel: bool
    gather_again: bool
    degrees: Sequence[int] | None
    memory_options: Sequence[str]
    offload: Offload | None
    costs: CostSource | None
    fused: bool | None
    precision: str
    behind: Sequence[str]
    issue_s: float
    name: str | None
    zero1: bool
    training: Training | None
    gradient_dtype: str
    sharing: DegreeChoices | None
    host_activations: bool
    host_optimizer: bool


def hybrid_problem(graph: Graph, cluster: Cluster | str | Path, **settings: Unpack[SpacesSettings]) -> HybridProblem:
    """The hybrid problem of training a model on a cluster; parameters and errors are those of ``strategy_spaces``."""
    return strategy_spaces(graph, cluster, **settings).problem


def strategy_spaces(graph: Graph, cluster: Cluster | str | Path, **settings: Unpack[SpacesSettings]) -> StrategySpaces:
    """The hybrid problem of training a model on a cluster, in seconds and bytes, and what its numbers are made of.

    Parameters
    ----------
    graph, cluster, settings
        As for ``spaces.priced_model``, which names further settings: ``microbatches``, ``optimizer``, ``degrees`` …
    zero1
        Share optimizer states out among data-parallel replicas (Rajbhandari et al., "ZeRO", SC 2020, stage 1). Replicas
        exchange as many bytes as without: gradients are scattered, and updated weights gathered.
    training
        For a problem about one optimizer step, what its plans may choose; ``zero1`` then has no meaning. None for one
        about the time per sample.
    gradient_dtype
        Of a step, the number format in which gradients are added up and exchanged; ``parameter`` for that of weights.
    sharing
        Of a step, context- and expert-parallel degrees; those that suit unless stated.
    host_activations
        Of a step, whether layers may keep their activations in the host's memory, over each device's link to it.
    host_optimizer
        Of a step, whether the optimizer with its states is on the host.

    Returns
    -------
    StrategySpaces
        docs/strategy-spaces.md says what every number means.

    Raises
    ------
    InputError, UnsupportedError
        As ``spaces.priced_model`` does.
    """
    asked: dict[str, Any] = dict(settings)
    training = asked.pop("training", None)
    if training is not None:
        return step_spaces(graph, cluster, training, **asked)
    of_steps = ("gradient_dtype", "sharing", "host_activations", "host_optimizer")
    return steady_spaces(graph, cluster, **{name: one for name, one in asked.items() if name not in of_steps})
