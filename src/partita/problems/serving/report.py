"""A deployment for people, and as plain values."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from partita.documents.tables.text import paragraphs
from partita.engines.search.result import Rival
from partita.ground.units import format_time
from partita.problems.facets.records import StageSummary
from partita.problems.facets.report import Reporting, network_sentences
from partita.problems.serving.evaluate import ServingEvaluation
from partita.problems.serving.fleets import gap_parts
from partita.problems.serving.problem import ServingPlan, ServingProblem
from partita.problems.serving.shown import (
    left_over,
    limit_sentences,
    pools_table,
    spent_words,
    times_table,
    times_words,
    units_table,
    units_words,
)
from partita.problems.serving.timeline import shown_s

if TYPE_CHECKING:
    from rich.console import RenderableType

    from partita.problems.facets.model import ModelPlan

#: Above so many times what is served, the rate of arrivals says nothing.
_AT_ONCE = 10.0


class ServingReport(Reporting[ServingProblem, ServingPlan, ServingEvaluation]):
    """Units, what users get, and what the time of requests is spent on."""

    doing = "serving"

    def per(self, problem: ServingProblem) -> str:
        return "" if problem.goal == "cost" else " per request"

    def less(self, problem: ServingProblem) -> str:
        return {"s": "time", "per hour": "cost"}.get(problem.unit, problem.unit)

    def scope(self, scope: str) -> str:
        return f"{scope} deployment".strip()

    def sentences(self, problem: ServingProblem, plan: ServingPlan, evaluation: ServingEvaluation) -> Sequence[str]:
        e = evaluation
        found = [
            f"{e.requests} requests in {format_time(e.duration_s, 's')}: {e.requests_per_s:.4g} requests/s, "
            f"{e.tokens_per_s:.4g} output tokens/s, {e.tokens_per_s_per_device:.4g} per device",
            f"TTFT {times_words(e.ttft_s)}; TPOT {times_words(e.tpot_s)}",
            f"time of requests: {spent_words(e)}",
        ]
        if plan.rate_per_s is not None:
            come = f"requests are taken as fast as {plan.rate_per_s:.4g} per second come"
            if plan.rate_per_s > _AT_ONCE * e.requests_per_s:
                come = "all requests come at once, as nothing says how long they may wait (--ttft)"
            found.insert(0, come)
        if all(pool.price_per_hour is not None for pool in problem.pools):
            million = e.cost / (e.tokens_per_s * 3600e-6) if e.tokens_per_s > 0 else math.inf
            found.append(f"the devices cost {e.cost:.4g} per hour, {million:.4g} per million output tokens")
        if e.preemptions:
            found.append(f"{e.preemptions} times a request was put back because the cache was full")
        left = [f"{count} {kind}" for kind, count in left_over(problem, plan).items() if count > 0]
        if left:
            found.append(f"left over: {', '.join(left)}")
        return found

    def tables(
        self, problem: ServingProblem, plan: ServingPlan, evaluation: ServingEvaluation
    ) -> Sequence[RenderableType]:
        pools = pools_table(problem, plan)
        return [
            units_table(problem, plan, evaluation),
            *([] if pools is None else [pools]),
            times_table(evaluation),
        ]

    def stages(
        self, problem: ServingProblem, plan: ServingPlan, evaluation: ServingEvaluation
    ) -> Sequence[StageSummary]:
        """Every group of units; data-parallel are its units and, of each, the groups that share out requests."""
        return list(_groups(problem, plan))

    def figures(self, problem: ServingProblem, plan: ServingPlan, evaluation: ServingEvaluation) -> Mapping[str, str]:
        e = evaluation
        return {
            "units": units_words(problem, plan),
            "TTFT": format_time(e.ttft_at, "s"),
            "TPOT": format_time(e.tpot_at, "s"),
            "requests/s": f"{e.requests_per_s:.4g}",
        }

    def step(self, problem: ServingProblem, plan: ServingPlan, evaluation: ServingEvaluation) -> float | None:
        return shown_s(problem, plan)

    def verdict(self, problem: ServingProblem, evaluation: ServingEvaluation) -> dict[str, Any]:
        return {"serving": serving_document(evaluation)}

    def result_document(self, result: Any) -> dict[str, Any]:
        if result.plan is None or result.evaluation is None:
            return {"serving": None, "limits": None}
        problem = result.problem
        found = serving_document(result.evaluation)
        found["rate_per_s"] = result.plan.rate_per_s
        parts = gap_parts(problem, result.plan, result.evaluation.objective, result.bound)
        found["gap_parts"] = parts and {"queues": parts.queues, "units": parts.units}
        found["left_over"] = left_over(problem, result.plan)
        found["units"] = [
            {
                "count": group.count,
                "role": group.role,
                **result.problem.form(group.unit).document(),
                "share": share,
                **msgspec.structs.asdict(use),
            }
            for group, use, share in zip(
                result.plan.units, result.evaluation.uses, shares_of(result.plan, result.evaluation), strict=True
            )
        ]
        sentences = list(limit_sentences(problem, result.plan, result.evaluation))
        return {"serving": found, "limits": {"sentences": sentences}}

    def answer_document(self, answer: ModelPlan[ServingProblem], document: dict[str, Any]) -> None:
        if document["limits"] is not None:
            document["limits"]["sentences"] += answer.limits

    def why(self, result: Any, row: Rival) -> str:
        """Where a baseline is feasible, what it has less."""
        e = result.evaluation
        if e is None or row.evaluation is None or not row.evaluation.requests_per_s:
            return row.summary
        if result.problem.goal != "rate":
            return row.summary
        return f"{row.evaluation.requests_per_s / e.requests_per_s:.0%} of the requests: {row.summary}"

    def row_document(self, result: Any, row: Any) -> dict[str, Any]:
        return {} if row.evaluation is None else {"serving": serving_document(row.evaluation)}

    def answer_tables(self, answer: ModelPlan[ServingProblem]) -> Sequence[RenderableType]:
        result, graph = answer.result, answer.graph
        if result.plan is None or result.evaluation is None:
            return []
        about = [f"{graph.name}, served by {answer.priced.settings.engine}", *network_sentences(answer.cluster)]
        sentences = [*limit_sentences(result.problem, result.plan, result.evaluation), *answer.limits]
        tables = self.tables(result.problem, result.plan, result.evaluation)
        return [*about, *tables, paragraphs("What limits the plan", sentences)]


def shares_of(plan: ServingPlan, evaluation: ServingEvaluation) -> list[float]:
    """Of what units of each role do, the share of each group: of prompts, and for units that decode of decoding."""
    found = []
    for group, use in zip(plan.units, evaluation.uses, strict=True):
        decodes = group.role == "decode"
        rows = zip(plan.units, evaluation.uses, strict=True)
        whole = sum(
            other.decode_tokens if decodes else other.prompt_tokens
            for one, other in rows
            if (one.role == "decode") == decodes
        )
        mine = use.decode_tokens if decodes else use.prompt_tokens
        found.append(mine / whole if whole else 0.0)
    return found


def _groups(problem: ServingProblem, plan: ServingPlan) -> Iterator[StageSummary]:
    for number, group in enumerate(plan.units):
        form = problem.form(group.unit)
        layout, prices = form.layout, form.prices
        room = [
            held + max(0.0, cache) for held, cache in zip(prices.weight_bytes, prices.cache_budget_bytes, strict=True)
        ]
        yield StageSummary(
            number=number,
            device=form.kind,
            device_count=group.count * form.devices,
            data_parallel=group.count * layout.attention_data,
            tensor_parallel=layout.tensor,
            expert_parallel=layout.expert or 1,
            memory_bytes=float(max(prices.weight_bytes)),
            memory_limit_bytes=max(room),
        )


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
        "cost": e.cost,
        "ttft_at": e.ttft_at,
        "tpot_at": e.tpot_at,
        "in_flight": e.in_flight,
        "cache_tokens": e.cache_tokens,
        "preemptions": e.preemptions,
        "limits": e.limits,
    }
