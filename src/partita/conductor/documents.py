"""Results as documents: what every problem's have in common, the problem's own part, and what a runtime costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from partita.conductor.split import split_of
from partita.costs.profile import Measured
from partita.documents import result_file
from partita.documents.result_file import split_document
from partita.engines.search.result import Rival
from partita.ground.units import format_time
from partita.nouns.catalogue.runtimes import find_runtime
from partita.nouns.graph import Graph
from partita.problems import kind_of
from partita.problems.facets.model import ModelPlan
from partita.problems.kind import AnyResult

#: What is lost below this, relative, is nothing.
_NOTHING = 5e-4


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
    document["operators"] = operators_document(graph)
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


def operators_document(graph: Graph) -> dict[str, Any]:
    """What every operator of a model is called, in its order: the numbers of a split are places in these lists."""
    modules = {module: place for place, module in enumerate(dict.fromkeys(op.module for op in graph.operators))}
    return {
        "names": [op.name for op in graph.operators],
        "modules": list(modules),
        "module_of": [modules[op.module] for op in graph.operators],
        "backward": [number for number, op in enumerate(graph.operators) if op.phase == "backward"],
    }


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


def cost_of_limits(answer: ModelPlan[Any]) -> tuple[float | None, float | None]:
    """By how much more the plan takes than the best plan found without limits, and than any such plan takes at most.

    Both are relative, and None where that is not known. The plan itself is one without limits, too.
    """
    free, mine = answer.free, answer.result.objective
    if free is None or mine is None:
        return None, None
    best = mine if free.objective is None else min(mine, free.objective)
    bound = None if free.bound is None else min(best, free.bound.value)
    return (
        mine / best - 1 if best > 0 else 0.0,
        mine / bound - 1 if bound is not None and bound > 0 else None,
    )


def runtime_document(answer: ModelPlan[Any]) -> dict[str, Any] | None:
    """The runtime of a result document; None where the plan is for none."""
    name = answer.priced.settings.runtime
    if name is None:
        return None
    runtime, free = find_runtime(name), answer.free
    cost, most = cost_of_limits(answer)
    return {
        "name": name,
        "limits": msgspec.to_builtins(runtime.limits),
        "cost": cost,
        "cost_at_most": most,
        "free": None
        if free is None
        else {
            "objective": free.objective,
            "bound": None if free.bound is None else free.bound.value,
            "status": str(free.status),
        },
        "sentences": runtime_sentences(answer),
    }


def runtime_sentences(answer: ModelPlan[Any]) -> list[str]:
    """What the runtime's limits cost, in words; empty where the plan is for no runtime."""
    name, free, result = answer.priced.settings.runtime, answer.free, answer.result
    if name is None or free is None:
        return []
    unit, per = result.problem.unit, kind_of(result.problem).report.per(result.problem)
    if result.plan is None:
        without = "without them there is none either" if free.plan is None else "without them there is a plan"
        if free.objective is not None:
            without += f" of {format_time(free.objective, unit)}{per}"
        return [f"no plan was found within the limits of {name}; {without}"]
    cost, most = cost_of_limits(answer)
    if cost is None:
        return []
    if most is not None and most < _NOTHING:
        return [f"{name}'s limits cost nothing: no plan without them is faster"]
    if cost < _NOTHING:
        known = "no faster plan without them was found"
        return [f"{name}'s limits cost {_at_most(most)}: {known}"]
    found = f"{name}'s limits cost {cost:.1%}"
    if free.objective is not None:
        found += f": the free plan takes {format_time(free.objective, unit)}{per}"
    if most is None or most > cost + _NOTHING:
        found += f" and is not proven best, so that they may cost more ({_at_most(most)})"
    return [found]


def _at_most(most: float | None) -> str:
    return "an unknown share" if most is None else f"at most {most:.1%}"
