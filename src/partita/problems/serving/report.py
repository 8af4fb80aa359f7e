"""A deployment for people, and as plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from partita.documents.tables.text import new_table
from partita.ground.units import format_time
from partita.problems.facets.report import Reporting, network_sentences
from partita.problems.serving.evaluate import Percentiles, ServingEvaluation
from partita.problems.serving.problem import ServingPlan, ServingProblem
from partita.problems.serving.timeline import shown_s

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from partita.problems.facets.model import ModelPlan

#: Shares that are not worth a word.
_SMALL = 0.005


class ServingReport(Reporting[ServingProblem, ServingPlan, ServingEvaluation]):
    """Units, what users get, and what the time of requests is spent on."""

    doing = "serving"

    def per(self, problem: ServingProblem) -> str:
        return " per request"

    def scope(self, scope: str) -> str:
        return f"{scope} deployment".strip()

    def sentences(self, problem: ServingProblem, plan: ServingPlan, evaluation: ServingEvaluation) -> Sequence[str]:
        e = evaluation
        found = [
            f"{e.requests} requests in {format_time(e.duration_s, 's')}: {e.requests_per_s:.4g} requests/s, "
            f"{e.tokens_per_s:.4g} output tokens/s, {e.tokens_per_s_per_device:.4g} per device",
            f"TTFT {_words(e.ttft_s)}; TPOT {_words(e.tpot_s)}",
        ]
        shares = sorted(((share, name) for name, share in e.limits.items() if share >= _SMALL), reverse=True)
        found.append("time of requests: " + ", ".join(f"{name} {share:.0%}" for share, name in shares))
        if e.preemptions:
            found.append(f"{e.preemptions} times a request was put back because the cache was full")
        return found

    def tables(
        self, problem: ServingProblem, plan: ServingPlan, evaluation: ServingEvaluation
    ) -> Sequence[RenderableType]:
        return [_units(problem, plan, evaluation), _times(evaluation)]

    def figures(self, problem: ServingProblem, plan: ServingPlan, evaluation: ServingEvaluation) -> Mapping[str, str]:
        e = evaluation
        return {
            "units": ", ".join(f"{g.count} × {problem.form(g.unit).layout.label}" for g in plan.units),
            "TTFT": format_time(e.ttft_s.mean, "s"),
            "TPOT": format_time(e.tpot_s.mean, "s"),
            "tokens/s": f"{e.tokens_per_s:.4g}",
        }

    def step(self, problem: ServingProblem, plan: ServingPlan, evaluation: ServingEvaluation) -> float | None:
        return shown_s(problem, plan)

    def verdict(self, problem: ServingProblem, evaluation: ServingEvaluation) -> dict[str, Any]:
        return {"serving": serving_document(evaluation)}

    def result_document(self, result: Any) -> dict[str, Any]:
        if result.plan is None or result.evaluation is None:
            return {"serving": None}
        found = serving_document(result.evaluation)
        found["units"] = [
            {
                "count": group.count,
                "role": group.role,
                **result.problem.form(group.unit).document(),
                "share": 1.0,
                **msgspec.structs.asdict(use),
            }
            for group, use in zip(result.plan.units, result.evaluation.uses, strict=True)
        ]
        return {"serving": found}

    def row_document(self, result: Any, row: Any) -> dict[str, Any]:
        return {} if row.evaluation is None else {"serving": serving_document(row.evaluation)}

    def answer_tables(self, answer: ModelPlan[ServingProblem]) -> Sequence[RenderableType]:
        result, graph = answer.result, answer.graph
        if result.plan is None or result.evaluation is None:
            return []
        about = [f"{graph.name}, served by {answer.priced.settings.engine}", *network_sentences(answer.cluster)]
        return [*about, *self.tables(result.problem, result.plan, result.evaluation)]


def serving_document(evaluation: ServingEvaluation) -> dict[str, Any]:
    """What an evaluation says, as plain values in seconds and tokens."""
    e = evaluation
    return {
        "ttft_s": msgspec.structs.asdict(e.ttft_s),
        "tpot_s": msgspec.structs.asdict(e.tpot_s),
        "gap_s": msgspec.structs.asdict(e.gap_s),
        "latency_s": msgspec.structs.asdict(e.latency_s),
        "requests": e.requests,
        "duration_s": e.duration_s,
        "requests_per_s": e.requests_per_s,
        "tokens_per_s": e.tokens_per_s,
        "tokens_per_s_per_device": e.tokens_per_s_per_device,
        "devices": e.devices,
        "in_flight": e.in_flight,
        "cache_tokens": e.cache_tokens,
        "preemptions": e.preemptions,
        "limits": e.limits,
    }


def _words(times: Percentiles) -> str:
    mean, _, p90, p99 = (format_time(value, "s") for value in msgspec.structs.astuple(times))
    return f"{mean} on average, {p90} at 90 %, {p99} at 99 %"


def _units(problem: ServingProblem, plan: ServingPlan, evaluation: ServingEvaluation) -> Table:
    table = new_table("Units", ("count", "devices", "steps", "busy", "cache used"), "unit", ("role",))
    for group, use in zip(plan.units, evaluation.uses, strict=True):
        form = problem.form(group.unit)
        figures = (str(group.count), str(form.devices), str(use.steps), f"{use.busy:.0%}", f"{use.cache:.0%}")
        table.add_row(*figures, f"{form.layout.label} on {form.kind}", group.role)
    return table


def _times(evaluation: ServingEvaluation) -> Table:
    table = new_table("What users get", ("mean", "50 %", "90 %", "99 %"), "time")
    named = (
        ("to the first token", evaluation.ttft_s),
        ("per token after it", evaluation.tpot_s),
        ("between two tokens", evaluation.gap_s),
        ("to the last token", evaluation.latency_s),
    )
    for name, times in named:
        table.add_row(*(format_time(value, "s") for value in msgspec.structs.astuple(times)), name)
    return table
