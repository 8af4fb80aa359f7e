"""A deployment under its requests, simulated: see ``partita.engines.kernels.serving``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from partita.engines.kernels.arrays import Floats, Longs, as_arrays
from partita.engines.kernels.serving.arrays import (
    Prices,
    Promises,
    Requests,
    Totals,
    Units,
    fresh_batches,
    fresh_queues,
    fresh_requests,
    fresh_totals,
    promised,
)
from partita.ground.errors import InputError
from partita.nouns.workload.workload import DrawnRequests
from partita.problems.serving.problem import Reserve, Role, ServingPlan, ServingProblem, ServingUnit, UnitGroup

#: Steps that are kept for a time line, unless asked for otherwise.
RECORDED = 4096

#: More tokens than any step has.
_ALL = 2**62

_ROLES: tuple[Role, ...] = ("both", "prefill", "decode")
_RESERVES: tuple[Reserve, ...] = ("chunk", "prompt", "whole")


@dataclass(frozen=True)
class RunningUnit:
    """One unit of a deployment; ``link_token_s`` is by form of attention."""

    form: ServingUnit
    role: Role = "both"
    link_s: float = 0.0
    link_token_s: tuple[float, ...] = ()
    group: int = 0  #: Number of its group in the plan.
    interval: int = 1  #: As ``UnitGroup.interval``.


@dataclass(frozen=True)
class Served:
    """What happened: times by request, sums by unit, and the first steps."""

    #: As the kernel leaves them.
    requests: Requests
    totals: Totals
    end_s: float  #: When the last request was done.
    caches: tuple[int, ...]  #: Bytes of the cache of each scheduler, by unit.

    @property
    def count(self) -> int:
        """Requests."""
        return len(self.requests.prompt)

    @property
    def recorded(self) -> int:
        """Steps that are kept."""
        return min(len(self.totals.unit), int(self.totals.steps.sum()))


def in_order(plan: ServingPlan) -> list[tuple[int, UnitGroup]]:
    """The groups of a plan with their numbers, as they run: by role and form, in whatever order they are mentioned."""
    return sorted(enumerate(plan.units), key=lambda one: (_ROLES.index(one[1].role), one[1].unit, one[0]))


def units_of(problem: ServingProblem, plan: ServingPlan) -> list[RunningUnit]:
    """The units of a plan, one by one; those whose attention-data groups do not wait for each other as several."""
    found = []
    for number, group in in_order(plan):
        form = problem.form(group.unit)
        moved = form.prices.moved_bytes_per_token or tuple(0.0 for _ in form.prices.windows)
        rate = problem.link_bytes_per_s
        per_token = tuple(size / rate if rate else 0.0 for size in moved)
        found += [RunningUnit(form, group.role, problem.link_s, per_token, number, group.interval)] * (
            group.count * form.apart
        )
    return found


def tightest_stage(form: ServingUnit, tokens: int) -> int:
    """The stage whose cache is full first, with requests of so many tokens."""
    prices = form.prices

    def requests_in(stage: int) -> float:
        size = prices.cache_bytes(stage, tokens)
        return prices.cache_budget_bytes[stage] / size if size else float("inf")

    return min(range(prices.stages), key=requests_in)


def _page(form: ServingUnit, stage: int) -> list[int]:
    """Bytes of a page by form of attention."""
    return [int(np.ceil(size * form.rules.block_tokens)) for size in form.prices.cache_bytes_per_token[stage]]


def bytes_of(form: ServingUnit, stage: int, tokens: int) -> int:
    """Bytes of the pages that a request of so many tokens holds at a stage."""
    block = form.rules.block_tokens
    return sum(
        size * -(-(min(tokens, window) if window else tokens) // block)
        for window, size in zip(form.prices.windows, _page(form, stage), strict=True)
    )


def check_lengths(form: ServingUnit, lengths: Sequence[tuple[int, int]]) -> None:
    """Refuse requests of which one alone is larger than the cache, or than a step that cannot be cut."""
    prompt, output = max(lengths, key=sum)
    for stage, budget in enumerate(form.prices.cache_budget_bytes):
        if bytes_of(form, stage, prompt + output - 1) > budget:
            block = form.rules.block_tokens
            fits = int(budget // max(1, bytes_of(form, stage, block))) * block if budget > 0 else 0
            raise InputError(
                f"a request of {prompt} prompt and {output} output tokens is longer than the cache of "
                f"{form.layout.label} on {form.kind}, which holds about {fits} tokens; use more devices, smaller "
                "formats or shorter requests"
            )


def _padded(rows: Sequence[Any], shape: tuple[int, ...]) -> Floats:
    found = np.zeros((len(rows), *shape))
    for number, row in enumerate(rows):
        values = np.asarray(row, np.float64)
        if values.size:
            found[number][tuple(slice(0, size) for size in values.shape)] = values
    return found


def _units(units: Sequence[RunningUnit], tokens: int) -> Units:
    """Units as the kernel reads them; ``tokens`` is what a request holds, for the stage that is full first."""
    forms = [unit.form for unit in units]
    stage = [tightest_stage(form, tokens) for form in forms]
    most = max(len(form.prices.windows) for form in forms)
    per = [form.prices.attention_data for form in forms]
    rows = {id(form): number for number, form in enumerate({id(f): f for f in forms}.values())}
    return as_arrays(
        Units,
        {
            "first": np.concatenate([[0], np.cumsum(per)]),
            "group": [unit.group for unit in units],
            "takes": [unit.role != "decode" for unit in units],
            "gives": [unit.role == "prefill" for unit in units],
            "stages": [form.prices.stages for form in forms],
            "price": [rows[id(form)] for form in forms],
            "seats": [form.rules.requests for form in forms],
            "budget": [form.rules.tokens for form in forms],
            "size": [int(form.prices.cache_budget_bytes[s]) for form, s in zip(forms, stage, strict=True)],
            "mixed": [form.rules.mixed for form in forms],
            "chunked": [form.rules.chunked for form in forms],
            "reserve": [_RESERVES.index(form.rules.reserve) for form in forms],
            "promise": [form.rules.promise for form in forms],
            "keeps": [form.rules.keeps for form in forms],
            "interval": [unit.interval if unit.role == "both" else 1 for unit in units],
            "block": [form.rules.block_tokens for form in forms],
            "windows": _padded([form.prices.windows for form in forms], (most,)),
            "page": _padded([_page(form, s) for form, s in zip(forms, stage, strict=True)], (most,)),
            "link_s": [unit.link_s for unit in units],
            "link_token_s": _padded([unit.link_token_s for unit in units], (most,)),
        },
    )


def _prices(units: Sequence[RunningUnit]) -> Prices:
    rows = [form.prices for form in {id(unit.form): unit.form for unit in units}.values()]
    stages, points = max(row.stages for row in rows), max(len(row.tokens) for row in rows)
    forms = max(len(row.windows) for row in rows)
    tables = {"dense": "dense_s", "dense_mixed": "dense_mixed_s", "weights": "weights_s", "exchange": "exchange_s"}
    tables |= {"apart": "apart_s", "together": "together_s"}
    attention = {"prompt": "prompt_s", "decode": "decode_s"}
    fixed = {"chunk": "chunk_s", "request": "request_s", "step": "step_s", "mixed_step": "mixed_step_s"}
    return as_arrays(
        Prices,
        {
            "groups": [row.attention_data for row in rows],
            "padded": [row.padded_tokens if row.uneven else _ALL for row in rows],
            "points": [len(row.tokens) for row in rows],
            "tokens": _padded([row.tokens for row in rows], (points,)),
            **{
                name: _padded([getattr(row, field) for row in rows], (stages, points)) for name, field in tables.items()
            },
            **{
                name: _padded([getattr(row, field) for row in rows], (stages, forms))
                for name, field in attention.items()
            },
            **{name: _padded([getattr(row, field) for row in rows], (stages,)) for name, field in fixed.items()},
            "hand_on": [row.hand_on_s for row in rows],
            "hand_on_token": [row.hand_on_s_per_token for row in rows],
            "host": [row.host_s for row in rows],
            "host_request": [row.host_request_s for row in rows],
        },
    )


def run_units(
    units: Sequence[RunningUnit],
    drawn: DrawnRequests,
    prefixes: Sequence[int] = (),
    *,
    recorded: int = RECORDED,
    stop: Longs | None = None,
    route: Longs | None = None,
    promises: Promises | None = None,
) -> Served | None:
    """Serve requests with units; None if ``stop`` was raised meanwhile, or as soon as a promise is broken.

    ``route`` has by request the group of units that takes it as it arrives; None: whoever has the fewest.

    Raises
    ------
    InputError
        If a request alone is larger than the cache of a unit, or nobody takes requests, or those with prompts done.
    """
    from partita.engines.kernels.serving.engine import serve

    roles = {unit.role for unit in units}
    if not roles & {"both", "prefill"} or ("prefill" in roles) != ("decode" in roles):
        raise InputError(
            "a deployment needs units that take requests, and units for decoding where others do prompts alone; its "
            f"roles are {', '.join(sorted(roles)) or 'none'}"
        )
    pairs = np.unique(np.stack([drawn.prompt_tokens, drawn.output_tokens], 1), axis=0)
    for form in {id(unit.form): unit.form for unit in units}.values():
        check_lengths(form, [(int(pairs[n, 0]), int(pairs[n, 1])) for n in (int(pairs.sum(1).argmax()),)])
    arrays = _units(units, int(np.mean(drawn.prompt_tokens) + np.mean(drawn.output_tokens) / 2) + 1)
    requests = fresh_requests(
        drawn.arrival_s, drawn.prompt_tokens, drawn.output_tokens, drawn.group, np.array(prefixes, np.int64), route
    )
    totals = fresh_totals(arrays, recorded)
    end = serve(
        arrays,
        _prices(units),
        requests,
        fresh_queues(arrays, len(prefixes)),
        fresh_batches(arrays, arrays.windows.shape[1]),
        totals,
        promised() if promises is None else promises,
        drawn.in_flight,
        units[0].form.prices.arrival_s,
        np.zeros(1, np.int64) if stop is None else stop,
    )
    if end < 0:
        assert stop is not None or promises is not None, "requests wait, and nothing can go on"
        return None
    return Served(requests, totals, float(end), tuple(int(size) for size in arrays.size))
