"""Results as documents: what every problem's have in common, and the problem's own part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from partita.conductor.runtimes import runtime_document
from partita.conductor.split import split_of
from partita.costs.profile import Measured
from partita.documents import result_file
from partita.documents.result_file import split_document
from partita.engines.search.result import Rival
from partita.problems import kind_of
from partita.problems.facets.model import ModelPlan
from partita.problems.kind import AnyResult


def result_document(result: AnyResult, rows: Sequence[Rival] | None = None) -> dict[str, Any]:
    """A ``partita.result`` document; rows of a comparison are its ``baselines``."""
    kind = kind_of(result.problem)
    plan = None
    if result.plan is not None:
        plan = kind.files.plan_document(result.problem, result.plan, result.evaluation)
    document = result_file.result_document(result, plan, **kind.report.result_document(result))
    if rows is not None:
        document["baselines"] = kind.report.row_documents(result, rows)
    return document


def answer_document(answer: ModelPlan[Any], notes: Sequence[str] = ()) -> dict[str, Any]:
    """The result document of a model's plan, with the model, the cluster, and the baselines."""
    graph, result = answer.graph, answer.result
    document = result_document(result, answer.baselines)
    document["notes"] = [*notes, *dict.fromkeys([*answer.cluster.notes, *graph.notes, *result.problem.notes])]
    document["model"] = {
        "name": graph.name,
        "operators": len(graph.operators),
        "parameters": graph.parameter_count,
        "parameter_bytes": graph.parameter_bytes,
        "flops": graph.flops,
        "training": graph.training,
        "source": graph.source,
    }
    document["cluster"] = answer.cluster
    source = answer.priced.settings.costs
    if isinstance(source, Measured):
        measured, count = source.coverage(graph)
        document["costs"] = {"source": source.source, "measured": measured, "operators": count}
    document["runtime"] = runtime_document(answer)
    split = split_of(answer)
    document["split"] = None if split is None else split_document(split)
    kind_of(result.problem).report.answer_document(answer, document)
    return document


def evaluation_document(problem: Any, plan: Any, evaluation: Any) -> dict[str, Any]:
    """What a given plan is worth."""
    kind = kind_of(problem)
    return {
        "objective": evaluation.objective,
        "bound": None,
        "gap": None,
        "status": "feasible" if evaluation.feasible else "infeasible",
        "stop_reason": "finished",
        "unit": problem.unit,
        "feasible": evaluation.feasible,
        **kind.report.verdict(problem, evaluation),
        "violations": list(evaluation.violations),
        "reason": evaluation.violations[0] if evaluation.violations else None,
        "plan": kind.files.plan_document(problem, plan, evaluation),
    }
