"""A layer placement for people, and as plain values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from partita.documents.tables.text import new_table
from partita.problems.facets.records import StageSummary
from partita.problems.facets.report import Reporting, network_sentences
from partita.problems.layer_placement.evaluate import LayerPlacementEvaluation
from partita.problems.layer_placement.problem import LayerPlacement, LayerPlacementProblem
from partita.problems.layer_placement.served import ServedRun

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from partita.problems.facets.model import ModelPlan

#: What is named of many.
_NAMED = 6


class LayerPlacementReport(Reporting[LayerPlacementProblem, LayerPlacement, LayerPlacementEvaluation]):
    """Machines along the layers with what flows through them, what limits the flow, and what is published."""

    doing = "placing layers"

    def per(self, problem: LayerPlacementProblem) -> str:
        return " per token"

    def sentences(
        self, problem: LayerPlacementProblem, plan: LayerPlacement, evaluation: LayerPlacementEvaluation
    ) -> Sequence[str]:
        return list(_sentences(problem, evaluation))

    def tables(
        self, problem: LayerPlacementProblem, plan: LayerPlacement, evaluation: LayerPlacementEvaluation
    ) -> Sequence[RenderableType]:
        found: list[RenderableType] = [_machines(problem, evaluation)]
        if evaluation.run is not None:
            found.append(_run(evaluation, evaluation.run))
        if problem.published is not None:
            found.append(_published(problem, evaluation))
        return found

    def stages(
        self, problem: LayerPlacementProblem, plan: LayerPlacement, evaluation: LayerPlacementEvaluation
    ) -> Sequence[StageSummary]:
        """Every machine that holds layers, along these; its time is that of a token at the most that it passes."""
        return [
            StageSummary(
                number=number,
                device=one.name,
                operators=tuple(range(*one.layers)),
                time=1 / one.most_tokens_per_s if one.most_tokens_per_s > 0 else None,
            )
            for number, one in enumerate(sorted(evaluation.machines, key=lambda one: (one.layers, one.name)))
        ]

    def figures(
        self, problem: LayerPlacementProblem, plan: LayerPlacement, evaluation: LayerPlacementEvaluation
    ) -> Mapping[str, str]:
        return {"tokens/s": f"{evaluation.tokens_per_s:.6g}", "machines": str(len(evaluation.machines))}

    def verdict(self, problem: LayerPlacementProblem, evaluation: LayerPlacementEvaluation) -> dict[str, Any]:
        return {
            "tokens_per_s": evaluation.tokens_per_s,
            "flow_tokens_per_s": evaluation.flow_tokens_per_s,
            "limiting_machines": [machine.name for machine in evaluation.machines if machine.limits],
            "limiting_links": [list(pair) for pair in evaluation.limiting_links],
        }

    def result_document(self, result: Any) -> dict[str, Any]:
        document: dict[str, Any] = dict.fromkeys(("tokens_per_s", "flow_tokens_per_s")) | {
            "limiting_machines": [],
            "limiting_links": [],
        }
        if result.evaluation is not None:
            document = self.verdict(result.problem, result.evaluation)
        bound = None if result.bound is None else result.bound.value
        return {**document, "tokens_per_s_bound": 1.0 / bound if bound else None}

    def answer_document(self, answer: ModelPlan[LayerPlacementProblem], document: dict[str, Any]) -> None:
        document["model"]["layers"] = answer.problem.layers
        for one in (document.get("plan") or {}).get("machines", ()):
            first, behind = one["layers"]
            one["modules"] = [name for layer in answer.priced.details[first:behind] for name in layer]

    def answer_tables(self, answer: ModelPlan[LayerPlacementProblem]) -> Sequence[RenderableType]:
        about = [f"{answer.graph.name}, {answer.problem.layers} layers", *network_sentences(answer.cluster)]
        return [*about, *super().answer_tables(answer)]

    def row_document(self, result: Any, row: Any) -> dict[str, Any]:
        found = row.evaluation
        return {
            "tokens_per_s": found.tokens_per_s if row.feasible else None,
            "flow_tokens_per_s": found.flow_tokens_per_s if row.feasible else None,
        }

    def why(self, result: Any, row: Any) -> str:
        if result.evaluation is None or row.evaluation.tokens_per_s >= result.evaluation.tokens_per_s:
            return str(row.summary)
        if row.evaluation.run is not None:
            return (
                f"{row.evaluation.run.stages} machines in a row, flow {row.evaluation.flow_tokens_per_s:.6g} tokens/s"
            )
        return _limits(row.evaluation)


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _limits(evaluation: LayerPlacementEvaluation) -> str:
    """What is used up between source and sink, in words."""
    machines = [machine.name for machine in evaluation.machines if machine.limits]
    links = [f"{source} to {target}" for source, target in evaluation.limiting_links]
    parts = [f"machine{'s' * (len(machines) > 1)} {_named(machines)}"] if machines else []
    parts += [f"link{'s' * (len(links) > 1)} {_named(links)}"] if links else []
    return f"limited by {' and '.join(parts)}" if parts else "nothing flows"


def _sentences(problem: LayerPlacementProblem, evaluation: LayerPlacementEvaluation) -> Iterator[str]:
    held = len(evaluation.machines)
    run = evaluation.run
    doing = "tokens/s" if run is None else "tokens/s served"
    yield f"{evaluation.tokens_per_s:.6g} {doing} over {held} of {len(problem.machines)} machines"
    if run is not None:
        yield (
            f"{run.requests} requests in {run.duration_s:.4g} s, {run.under_way:.4g} of them under way on average, up "
            f"to {run.stages} machines in a row; {run.first_token_s:.3g} s to the first token, {run.token_s:.3g} s for "
            "each behind it"
        )
        yield f"the largest flow of these layers is {evaluation.flow_tokens_per_s:.6g} tokens/s, of full steps"
    yield f"the flow is {_limits(evaluation)}"
    full = [machine.name for machine in evaluation.machines if machine.tokens_per_s >= machine.most_tokens_per_s]
    idle = sorted({machine.name for machine in problem.machines} - {machine.name for machine in evaluation.machines})
    if full:
        yield f"{len(full)} of the machines pass all that they can"
    if idle:
        yield f"{_named(idle)} hold{'s' * (len(idle) == 1)} nothing"
    if problem.published is not None:
        share = evaluation.flow_tokens_per_s / problem.published.objective
        what = "published" if run is None else "published flow"
        yield f"{what}: {problem.published.objective:.6g} tokens/s; this plan has {share:.3f} times as many"


def _machines(problem: LayerPlacementProblem, evaluation: LayerPlacementEvaluation) -> Table:
    """One row per machine, along the layers."""
    types = {machine.name: machine.type for machine in problem.machines}
    table = new_table(
        "Machines", ("first layer", "layers", "tokens/s", "at most", "used"), "machine", ("type", "limits")
    )
    for one in sorted(evaluation.machines, key=lambda one: (one.layers, one.name)):
        first, behind = one.layers
        used = one.tokens_per_s / one.most_tokens_per_s if one.most_tokens_per_s > 0 else 0.0
        rates = f"{one.tokens_per_s:.6g}", f"{one.most_tokens_per_s:.6g}"
        limits = "yes" if one.limits else ""
        table.add_row(str(first), str(behind - first), *rates, f"{used:.0%}", one.name, types[one.name], limits)
    return table


def _run(evaluation: LayerPlacementEvaluation, run: ServedRun) -> Table:
    """What machines did in the run, along the layers."""
    table = new_table("In the run", ("first layer", "requests", "room for", "tokens a step", "busy"), "machine")
    for one in sorted(evaluation.machines, key=lambda one: (one.layers, one.name)):
        did = run.machines.get(one.name)
        if did is not None:
            figures = f"{did.held:.1f}", str(did.requests), f"{did.batch:.1f}", f"{did.busy:.0%}"
            table.add_row(str(one.layers[0]), *figures, one.name)
    return table


def _published(problem: LayerPlacementProblem, evaluation: LayerPlacementEvaluation) -> Table:
    """What is published beside the plan."""
    assert problem.published is not None
    one = problem.published
    table = new_table("Beside what is published", ("tokens/s", "bound", "seconds"), "plan")
    table.add_row(f"{evaluation.flow_tokens_per_s:.6g}", "", "", "this plan")
    bound = "" if one.bound is None else f"{one.bound:.6g}"
    table.add_row(f"{one.objective:.6g}", bound, "" if one.seconds is None else f"{one.seconds:g}", "published")
    return table
