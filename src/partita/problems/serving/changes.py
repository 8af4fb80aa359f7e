"""What queues cost a fleet, and what would change its answer: sentences with numbers, from simulations of its units."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from partita.costs.serving.decoder import decoder_of
from partita.engines.search.monitor import Monitor
from partita.engines.search.result import Result
from partita.ground.errors import InputError
from partita.ground.units import format_time
from partita.nouns.catalogue.loader import load_catalogue
from partita.nouns.cluster import Cluster, DeviceGroup
from partita.nouns.workload.workload import RequestWorkload
from partita.problems.facets.model import Priced
from partita.problems.serving.evaluate import ServingEvaluation, evaluate, keeps
from partita.problems.serving.fleets import GapParts, gap_parts
from partita.problems.serving.menu import holds, priced_unit
from partita.problems.serving.offered import most_offered
from partita.problems.serving.options import StatedLayout
from partita.problems.serving.packing import unpacked
from partita.problems.serving.problem import ServingPlan, ServingProblem, UnitGroup

#: By how much a target is loosened, and other draws of arrivals that are looked at.
_LOOSER, _SEEDS = 1.25, 3
#: Shares of the rate that are left out where it is too high with some arrivals.
_LESS = (0.01, 0.02, 0.03, 0.04, 0.06, 0.08, 0.1, 0.15, 0.2, 0.3)
#: Requests of these simulations, at most.
_REQUESTS = 3_000
#: Rates that differ by less are alike: as near as they are looked for.
_ALIKE = 0.025
#: Kinds of cards that others are compared with; the first one that is not there.
_OTHERS = ("H200-141GB", "B200", "H100-80GB")


def change_sentences(
    priced: Priced[ServingProblem], result: Result[ServingProblem, ServingPlan, ServingEvaluation], monitor: Monitor
) -> Iterator[str]:
    """What is known beside the run of a feasible plan, of a problem that looks for a rate or for the cheapest fleet."""
    problem, plan, evaluation = result.problem, result.plan, result.evaluation
    if problem.goal == "time" or plan is None or evaluation is None or not evaluation.feasible:
        return
    asked = _asking(problem)
    now = plan.rate_per_s or (problem.workload.rate_per_s or 0.0)
    parts = gap_parts(problem, plan, evaluation.objective, result.bound)
    if parts is not None:
        yield _parted(parts)
    if problem.workload.trace is None:
        yield from other_arrivals(asked, plan, now, monitor)
    base = most_offered(asked, plan.units, now, monitor)
    if base is None or base.rate_per_s is None:
        return
    taken = evaluate(asked, base).requests_per_s
    # Short runs end sooner after their last arrival: of what is served only ratios are those of the plan's own run.
    # Where requests may wait for ever, any rate is kept, and what is served is all that is taken.
    offered = base.rate_per_s if problem.targets.ttft_s is not None else taken
    most = evaluation.requests_per_s if problem.goal == "rate" else offered
    if problem.goal == "cost":
        yield f"the same units would take {most:.4g} requests/s; {now:.4g} are asked for"
    for words, changed, units in _changed(priced, asked, plan):
        if monitor.stopping:
            return
        found = most_offered(changed, units, base.rate_per_s, monitor)
        if found is None or found.rate_per_s is None:
            yield f"{words}, they would keep the targets at no rate near this"
        else:
            more = evaluate(changed, found).requests_per_s / taken - 1
            amount = "as many requests/s" if abs(more) < _ALIKE else f"{most * (1 + more):.4g} requests/s ({more:+.0%})"
            yield f"{words}, they would take {amount}"


def _asking(problem: ServingProblem) -> ServingProblem:
    """The problem as one that looks for a rate, with a short run."""
    workload = msgspec.structs.replace(
        problem.workload, concurrency=None, rate_per_s=None, requests=problem.workload.shortened(_REQUESTS).count
    )
    return problem.replace(workload=workload, goal="rate", unit="s", rates=())


def _parted(parts: GapParts) -> str:
    """What the units could do if nobody waited, and what of the gap that is."""
    most = f"without queues these units take at most {1 / parts.without_queues_s:.4g} requests/s"
    if parts.units is None:
        return f"{most}: queues and targets cost {parts.queues:.1%}"
    return f"{most}; the gap is {parts.queues:.1%} queues and targets and {parts.units:.1%} that other units could save"


def other_arrivals(problem: ServingProblem, plan: ServingPlan, rate: float, monitor: Monitor) -> Iterator[str]:
    """The same rate with requests that are drawn anew, and the one that they are all served at."""
    draws, kept, worths = [problem], 0, []
    for seed in range(1, _SEEDS + 1):
        workload = msgspec.structs.replace(problem.workload, seed=problem.workload.seed + seed)
        draws.append(problem.replace(workload=workload))
        worth = evaluate(draws[-1], ServingPlan(units=plan.units, rate_per_s=rate))
        kept += worth.feasible
        worths.append(worth)
    ttft, tpot = ([getattr(one, name) for one in worths] for name in ("ttft_at", "tpot_at"))
    yield (
        f"with other arrivals ({_SEEDS} seeds) targets are kept {kept} times; TTFT {format_time(min(ttft))} to "
        f"{format_time(max(ttft))}, TPOT {format_time(min(tpot))} to {format_time(max(tpot))}"
    )
    if kept == _SEEDS:
        return
    for less in _LESS:
        if monitor.stopping:
            return
        slower = ServingPlan(units=plan.units, rate_per_s=rate * (1 - less))
        if all(keeps(one, slower) for one in draws):
            yield f"with any of these arrivals they are kept if {slower.rate_per_s:.4g} requests/s come (-{less:.0%})"
            return


def _changed(
    priced: Priced[ServingProblem], problem: ServingProblem, plan: ServingPlan
) -> Iterator[tuple[str, ServingProblem, tuple[UnitGroup, ...]]]:
    """Words for a change, the problem with it, and the units."""
    targets = problem.targets
    for name, field, value in (("TTFT", "ttft_s", targets.ttft_s), ("TPOT", "tpot_s", targets.tpot_s)):
        if value is not None:
            looser = msgspec.structs.replace(targets, **{field: _LOOSER * value})
            words = f"if {name} might be {format_time(_LOOSER * value)} instead of {format_time(value)}"
            yield words, problem.replace(targets=looser), plan.units
    shorter = _shorter(problem.workload)
    if shorter is not None:
        yield "with prompts half as long", problem.replace(workload=shorter), plan.units
    largest = max(plan.units, key=lambda group: group.count * problem.form(group.unit).devices)
    form = problem.form(largest.unit)
    added = tuple(_more(group) if group is largest else group for group in plan.units)
    pool = problem.pool(form.kind)
    wider = problem.replace(
        pools=tuple(
            msgspec.structs.replace(one, machines=(*one.machines, form.devices)) if one is pool else one
            for one in problem.pools
        )
    )
    cards = f"{form.devices} more {form.kind}" if unpacked(problem, ServingPlan(units=added)) else "what is left over"
    yield f"with {cards}, as one more unit of {form.layout.label}", wider, added
    yield from _other_kind(priced, problem, plan)


def _more(group: UnitGroup) -> UnitGroup:
    """A group with one unit more."""
    return msgspec.structs.replace(group, count=group.count + 1)


def _shorter(workload: RequestWorkload) -> RequestWorkload | None:
    """The requests with half of their prompts; None where lengths are a trace's or have a common prefix."""
    if workload.trace is not None or workload.prefix_tokens:
        return None
    if workload.prompt_tokens is not None:
        return msgspec.structs.replace(workload, prompt_tokens=max(1, workload.prompt_tokens // 2))
    bars = tuple(msgspec.structs.replace(b, prompt_tokens=max(1, b.prompt_tokens // 2)) for b in workload.histogram)
    return msgspec.structs.replace(workload, histogram=bars)


def _other_kind(
    priced: Priced[ServingProblem], problem: ServingProblem, plan: ServingPlan
) -> Iterator[tuple[str, ServingProblem, tuple[UnitGroup, ...]]]:
    """The same units on another kind of card, all of them."""
    present = {pool.kind for pool in problem.pools}
    known = load_catalogue().devices
    name = next((one for one in _OTHERS if one not in present and one in known), None)
    if name is None:
        return
    size, decoder = max(max(pool.machines) for pool in problem.pools), decoder_of(priced.graph)
    cluster = Cluster.from_spec(f"{-(-problem.devices // size)}x({size}x{name}):{priced.cluster.network}")
    group: DeviceGroup = cluster.workers()[0]
    units = []
    for form in problem.units[: max(g.unit for g in plan.units) + 1]:
        if not any(problem.units[g.unit] is form for g in plan.units):
            units.append(msgspec.structs.replace(form, kind=name))
            continue
        stated = StatedLayout(degrees=form.layout, requests=form.rules.requests, tokens=form.rules.tokens)
        try:
            unit = priced_unit(decoder, cluster, group, stated, priced.settings)
        except InputError:
            return
        if not holds(unit, problem.workload.lengths()):
            return
        units.append(unit)
    pool = msgspec.structs.replace(problem.pools[0], kind=name, machines=tuple(cluster.per_machine(group)))
    yield f"on {name} instead", problem.replace(units=tuple(units), pools=(pool,)), plan.units
