"""Evaluators that share nothing with the package's, and trying everything where an instance is tiny."""

from __future__ import annotations

import math
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from contracts.samples import WHERE, samples_of
from partita.problems.hybrid.training import MeshLimits
from partita.problems.kind import AnyKind
from problems.hybrid import independent_evaluator as hybrid_again
from problems.latency import brute_force as latency_again
from problems.makespan import independent_evaluator as makespan_again
from problems.mapping import brute_force as mapping_again
from problems.serving import brute_force as serving_again
from second_opinions import independent_evaluator as throughput_again
from second_opinions import layer_flows

if TYPE_CHECKING:
    from crosscheck.claims import _Answer

__all__ = ["everything", "second_opinion"]

#: Values of two evaluators differ by rounding alone.
CLOSE = 1e-9

#: For trying everything; what takes longer is left out.
EVERYTHING_S = 3.0


def second_opinion(kind: AnyKind, problem: Any, plan: Any, evaluation: Any) -> str:
    """Where a second evaluator disagrees with the first, in words; empty where they agree or there is none."""
    judge = _JUDGES.get(kind.name)
    found = None if judge is None else judge(problem, plan)
    if found is None:
        return ""
    value, feasible = found
    if math.isfinite(evaluation.objective) and abs(value - evaluation.objective) > CLOSE * abs(value):
        return f"the value is {evaluation.objective!r}, and again {value!r}"
    # Where sums round, a limit may be kept by one order of adding up only.
    if feasible != evaluation.feasible and _sums_are_exact(problem):
        return f"feasible is {evaluation.feasible}, and again {feasible}: {'; '.join(evaluation.violations)}"
    return ""


def _throughput(problem: Any, plan: Any) -> tuple[float, bool] | None:
    if problem.row is not None or problem.working_memory == "peak":
        return None
    found = throughput_again.evaluate(problem, plan)
    return found.objective, found.feasible


def _hybrid(problem: Any, plan: Any) -> tuple[float, bool] | None:
    if problem.training is not None:
        return None
    value, broken = hybrid_again.judge(problem, plan)
    return float(value), not broken


def _makespan(problem: Any, plan: Any) -> tuple[float, bool] | None:
    value, broken = makespan_again.judge(problem, plan)
    return value, not broken


def _mapping(problem: Any, plan: Any) -> tuple[float, bool] | None:
    used = [device for row in plan.placement for device in row]
    return mapping_again.objective(problem, plan), len(set(used)) == len(used)


def _layer_placement(problem: Any, plan: Any) -> tuple[float, bool] | None:
    # Of more machines there are too many cuts.
    return layer_flows.judge(problem, plan) if len(problem.machines) <= 6 else None


_JUDGES: dict[str, Callable[[Any, Any], tuple[float, bool] | None]] = {
    "throughput": _throughput,
    "hybrid": _hybrid,
    "latency": latency_again.judge,
    "makespan": _makespan,
    "mapping": _mapping,
    "layer_placement": _layer_placement,
    "serving": serving_again.judge,
}


def everything(kind: AnyKind, problem: Any, options: Any, answer: _Answer) -> str:
    """Try everything: that is a claim and, where there is a plan, a value that one has; why not, if it is not done."""
    from contracts.cases import options_of
    from crosscheck.claims import Claim, Found

    if kind.name not in WHERE or not _tiny(kind.name, problem):
        return "there is too much to try"
    if not _sums_are_exact(problem):
        return "sums round, and what fits depends on their order"
    try:
        with _at_most(EVERYTHING_S):
            best = samples_of(kind.name).optimum(problem, options)
    except TimeoutError:
        return "there is too much to try"
    scope = options.scope
    if best is None or math.isinf(best):
        answer.claims.append(Claim(math.inf, scope))
        return ""
    answer.claims.append(Claim(float(best) * (1 - CLOSE), scope))
    places = [place for place, each in enumerate(options_of(kind)) if each == options]
    answer.plans.append(Found(float(best), tuple(places)))
    return ""


def _tiny(name: str, problem: Any) -> bool:
    """Whether there are few enough plans."""
    if name == "throughput":
        return len(problem.operators) <= 7 and problem.device_count <= 5
    if name == "latency":
        return len(problem.operators) <= 5 and problem.pieces <= 2
    if name == "makespan":
        return len(problem.operators) <= 5 and len(problem.devices) <= 3 and len(problem.flows) <= 6
    if name == "mapping":
        return problem.used <= 6 and len(problem.bandwidth_bytes_per_s) <= 7
    if name == "layer_placement":
        return len(problem.machines) <= 3 and problem.layers <= 6
    if name == "hybrid":
        training = problem.training
        whole = training is None or ("interleaved" not in training.schedules and training.limits.meshes == MeshLimits())
        return whole and len(problem.layers) <= 4 and problem.all_devices <= 6
    return True


def _sums_are_exact(problem: Any) -> bool:
    """Whether all numbers are multiples of a small power of two, and none is large beside that."""

    def numbers(value: Any) -> Iterator[float]:
        if isinstance(value, dict):
            value = list(value.values())
        if isinstance(value, (list, tuple)):
            for each in value:
                yield from numbers(each)
        elif isinstance(value, (int, float)):
            yield float(value)

    scaled = (abs(number) * 1024 for number in numbers(msgspec.to_builtins(problem, str_keys=True)))
    return all(number < 2.0**40 and number == math.floor(number) for number in scaled)


@contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    """Raise ``TimeoutError`` inside when the time is over; in a process's main thread."""

    def over(*_: Any) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
