"""What people read of a problem."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic

import msgspec

from partita.engines.search.result import Result, Rival
from partita.ground.units import format_bytes, format_count
from partita.problems.facets import E, Facet, L, P
from partita.problems.facets.records import MemoryUse, OperatorPlace, StageSummary

if TYPE_CHECKING:
    from rich.console import RenderableType

    from partita.nouns.cluster import Cluster
    from partita.nouns.graph import Graph
    from partita.nouns.topology.topology import Topology
    from partita.problems.facets.model import ModelPlan


def per_microbatch(samples: int) -> str:
    """What a time of one microbatch is a time of: `` per sample`` where it is just one."""
    return " per sample" if samples == 1 else f" per microbatch of {samples} samples"


def model_sentence(graph: Graph, cut: str = "") -> str:
    """A model for people; ``cut`` says what its operators are in."""
    kind = "training (forward and backward)" if graph.training else "inference"
    return (
        f"{graph.name}: {len(graph.operators)} operators{cut}, {format_count(graph.parameter_count)} parameters "
        f"({format_bytes(graph.parameter_bytes)}), {format_count(graph.flops)}FLOP per microbatch, {kind}"
    )


def network_sentences(cluster: Cluster) -> tuple[str, ...]:
    """What joins the machines of a cluster; nothing of a single one."""
    if len(cluster.machines) < 2 or cluster.matrix_bytes_per_s is not None:
        return ()
    rates = {cluster.machine_network_bytes_per_s(number) for number in range(len(cluster.machines))}
    speed = " to ".join(f"{rate / 1e9:.4g}" for rate in sorted({min(rates), max(rates)}))
    found = f"{len(cluster.machines)} machines joined by {cluster.network}, {speed} GB/s each"
    if cluster.network_presumed:
        found += f" (presumed: the cluster names no network; {cluster.name}:infiniband-ndr would, for example)"
    return (found,)


class Reporting(Facet, Generic[P, L, E]):
    """Tables and sentences for people, and the figures beside the objective; by default the plan as it is."""

    doing: str = "solving"  #: What a run does, for the line of progress: ``splitting``.

    def per(self, problem: P) -> str:
        """What the objective is a time of: `` per sample``; empty for nothing."""
        return ""

    def less(self, problem: P) -> str:
        """What a better plan takes less of: ``time``."""
        return "time"

    def scope(self, scope: str) -> str:
        """A plan of a scope, in words: ``acyclic split``."""
        return f"{scope} plan".strip()

    def sentences(self, problem: P, plan: L, evaluation: E) -> Sequence[str]:
        """What is said of a plan beside its objective."""
        return ()

    def verdict(self, problem: P, evaluation: E) -> dict[str, Any]:
        """What an evaluation says beside objective and feasibility, as plain values."""
        return {}

    def tables(self, problem: P, plan: L, evaluation: E) -> Sequence[RenderableType]:
        """A plan as tables."""
        return [f"{name}: {value}" for name, value in msgspec.to_builtins(plan, str_keys=True).items()]

    def stages(self, problem: P, plan: L, evaluation: E) -> Sequence[StageSummary]:
        """What runs where, in the order of the plan."""
        return ()

    def memory(self, problem: P, plan: L, evaluation: E) -> Sequence[MemoryUse]:
        """What the devices of every stage hold, where anything is known of that."""
        return [
            MemoryUse(
                stage=stage.number,
                device=stage.device,
                total_bytes=stage.memory_bytes,
                limit_bytes=stage.memory_limit_bytes,
            )
            for stage in self.stages(problem, plan, evaluation)
            if stage.memory_bytes
        ]

    def operators(self, problem: P, plan: L, evaluation: E) -> Sequence[OperatorPlace]:
        """Where every operator, layer, or what else a problem places, runs; nothing where that is not one by one."""
        return ()

    def topology(self, problem: P, plan: L) -> tuple[Topology, dict[int, str]] | None:
        """The devices that the problem itself states, and by number the stage there; None where it states none."""
        return None

    def figures(self, problem: P, plan: L, evaluation: E) -> Mapping[str, str]:
        """Further columns of a comparison, by title."""
        return {}

    def step(self, problem: P, plan: L, evaluation: E) -> float | None:
        """The time of one batch as it runs, by simulation; None if it cannot run or has no time line."""
        return None

    def why(self, result: Result[P, L, E], row: Rival) -> str:
        """What makes a feasible row worse than the plan, or what it does."""
        return row.summary

    def row_documents(self, result: Result[P, L, E], rows: Sequence[Rival]) -> list[dict[str, Any]]:
        """Rows of a comparison as plain values; the objective of a plan that does not fit is null."""
        return [
            {
                "name": row.name,
                "summary": row.summary,
                "objective": row.evaluation.objective if row.feasible else None,
                "feasible": row.feasible,
                "reason": row.note or None,
                "runtime_s": row.runtime_s,
                **self.row_document(result, row),
            }
            for row in rows
        ]

    def row_document(self, result: Result[P, L, E], row: Rival) -> dict[str, Any]:
        """What a row of a comparison says beyond name, objective and feasibility, as plain values."""
        return {}

    def result_document(self, result: Result[P, L, E]) -> dict[str, Any]:
        """Further top-level keys of a result document."""
        return {}

    def answer_document(self, answer: ModelPlan[P], document: dict[str, Any]) -> None:
        """Add to a model's result document what only its plan has."""

    def answer_tables(self, answer: ModelPlan[P]) -> Sequence[RenderableType]:
        """A model's plan for people, without the comparison: tables and paragraphs."""
        result = answer.result
        if result.plan is None or result.evaluation is None:
            return []
        return self.tables(result.problem, result.plan, result.evaluation)
