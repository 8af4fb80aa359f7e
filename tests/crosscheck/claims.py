"""What components say of one instance, and where they contradict each other.

What is compared is what a component hands back, before anything rounds or clips it. A claim and a plan may differ by
the rounding of one sum, ``CLOSE`` relative to the plan's value, and by no more.
"""

from __future__ import annotations

import math
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

import partita
from contracts.cases import options_of
from crosscheck.parts import Part
from crosscheck.second_opinions import everything, second_opinion
from crosscheck.wordings import in_other_words
from partita.engines.search.monitor import Monitor
from partita.ground.errors import DisagreementError, MissingExtraError, SolverCrashError, UnsupportedError
from partita.problems.kind import AnyKind

__all__ = ["CLOSE", "Claim", "Contradiction", "Found", "Said", "ask", "compare"]

#: What a bound may be above a plan, relative to the plan's value.
CLOSE = 1e-9

#: What a component may have reported better than what it hands back.
REPORTED = 1e-6


@dataclass(frozen=True)
class Claim:
    """No plan within the scope is below the value; infinite if there is no plan."""

    value: float
    scope: str


@dataclass(frozen=True)
class Found:
    """A feasible plan: what it is worth, and the searches (places among all options) whose answer it could be."""

    value: float
    answers: tuple[int, ...]


@dataclass(frozen=True)
class Contradiction:
    """Something that cannot be true.

    Attributes
    ----------
    sort
        What kind of thing: ``bound above plan``, ``infeasible with a plan``, ``plan fails``, ``exception``, ….
    by, against
        Labels of the two components; the second is empty where one alone is wrong.
    claimed, known
        The two values, where there are such.
    text
        In words, or where an exception came from.
    """

    sort: str
    by: str
    against: str = ""
    claimed: float | None = None
    known: float | None = None
    text: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """What stays the same while the instance is made smaller."""
        return self.sort, self.by

    def __str__(self) -> str:
        """In one line."""
        values = "" if self.claimed is None else f" {self.claimed!r}"
        against = f" against {self.against}" if self.against else ""
        against += "" if self.known is None else f" {self.known!r}"
        return f"{self.sort}: {self.by}{values}{against}" + (f": {self.text}" if self.text else "")


@dataclass(frozen=True)
class Said:
    """What one component said of one instance."""

    part: Part
    claims: tuple[Claim, ...] = ()
    plans: tuple[Found, ...] = ()
    wrong: tuple[Contradiction, ...] = ()
    refused: str = ""
    seconds: float = 0.0


@dataclass
class _Answer:
    """The same while it is put together."""

    claims: list[Claim] = field(default_factory=list)
    plans: list[Found] = field(default_factory=list)
    wrong: list[Contradiction] = field(default_factory=list)


def ask(kind: AnyKind, problem: Any, part: Part) -> Said:
    """Ask one component about one instance; whatever happens is in the answer."""
    told = problem
    if part.wording:
        told = in_other_words(problem, part.wording, part.factor)
        if told is None:
            return Said(part, refused="it is not said how this is written in other words")
    before = msgspec.json.encode(told)
    started = time.perf_counter()
    answer = _Answer()
    try:
        refused = _ask(kind, told, part, answer)
    except (UnsupportedError, MissingExtraError) as error:
        return Said(part, refused=str(error), seconds=time.perf_counter() - started)
    except DisagreementError as error:
        refused = ""
        answer.wrong.append(Contradiction("disagreement", part.label, text=str(error)))
    except SolverCrashError as error:
        refused = ""
        answer.wrong.append(Contradiction("crash", part.label, text=str(error)))
    except Exception as error:
        refused = ""
        where = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{where.filename.rpartition('/src/')[2]}:{where.lineno}"
        answer.wrong.append(
            Contradiction("exception", part.label, text=f"{type(error).__name__} at {place}: {error}"[:300])
        )
    seconds = time.perf_counter() - started
    if msgspec.json.encode(told) != before:
        answer.wrong.append(Contradiction("problem changed", part.label))
    unit = part.factor if part.wording == "times" else 1.0
    return Said(
        part,
        tuple(replace(claim, value=claim.value / unit) for claim in answer.claims),
        tuple(replace(found, value=found.value / unit) for found in answer.plans),
        tuple(answer.wrong),
        refused,
        seconds,
    )


def _ask(kind: AnyKind, problem: Any, part: Part, answer: _Answer) -> str:
    """Run it and note what it says; why not, if it refuses."""
    kind = kind.of(problem)
    if part.role == "everything":
        return everything(kind, problem, part.options, answer)
    monitor = Monitor(part.limit_s)
    if part.role == "answer":
        _ask_package(kind, problem, part, answer)
        return ""
    if part.role == "proof":
        proof = kind.prove(problem, monitor)
        if proof is None:
            return "the problem has no proof of its own"
        for bound in (proof.best, *proof.methods):
            _note_claim(part, bound.value, bound.scope, answer)
        return ""
    if part.role == "bound":
        method = next(each for each in kind.bounds if each.name == part.name)
        refused = method.supports(problem)
        if refused is None:
            bound = method.bound(problem, monitor)
            _note_claim(part, bound.value, bound.scope, answer)
        return refused or ""
    solvers = kind.solvers if part.role == "solver" else kind.baselines_of(problem)
    solver = next((each for each in solvers if each.name == part.name), None)
    if solver is None:
        return "it is not for this problem"
    refused = solver.supports(problem, part.options)
    if refused is not None:
        return refused
    outcome = solver.solve(problem, part.options, monitor)
    scope = part.options.scope if outcome.scope is None else outcome.scope
    if outcome.lossless:
        for value in (outcome.bound, monitor.bound, math.inf if outcome.infeasible else None):
            if value is not None:
                _note_claim(part, value, scope, answer)
    if outcome.plan is not None:
        _note_plan(kind, problem, part, outcome.plan, monitor.objective, answer)
    return ""


def _ask_package(kind: AnyKind, problem: Any, part: Part, answer: _Answer) -> None:
    """What the package answers if no solver is named, and what its own checker of results says of that."""
    asked = {name: getattr(part.options, name) for name in part.options.__struct_fields__}
    result = partita.solve(problem, time_limit_s=part.limit_s, explain=False, **asked)
    if result.bound is not None:
        _note_claim(part, result.bound.value, result.bound.scope, answer)
    if result.status is partita.Status.INFEASIBLE:
        _note_claim(part, math.inf, part.options.scope, answer)
    if result.plan is not None:
        _note_plan(kind, problem, part, result.plan, None, answer)
    check = getattr(partita, "check", None)
    if check is not None and (verdict := check(result)).refuted:
        wrong = (*verdict.wrong, verdict.plan.wrong, verdict.bound.wrong)
        answer.wrong.append(Contradiction("check refutes", part.label, text="; ".join(filter(None, wrong))))


def _note_claim(part: Part, value: float, scope: str, answer: _Answer) -> None:
    if math.isnan(value):
        answer.wrong.append(Contradiction("not a number", part.label, claimed=value))
    else:
        answer.claims.append(Claim(float(value), scope))


def _note_plan(kind: AnyKind, problem: Any, part: Part, plan: Any, reported: float | None, answer: _Answer) -> None:
    """Evaluate a plan; a solver's has to be feasible and what was asked for."""
    plan = kind.complete(problem, plan)
    evaluation = kind.evaluate(problem, plan)
    if part.role in ("solver", "answer"):
        wrong = evaluation.violations[0] if evaluation.violations else part.options.unkept(evaluation)
        if wrong is not None:
            answer.wrong.append(Contradiction("plan fails", part.label, known=evaluation.objective, text=wrong))
        value = evaluation.objective
        if reported is not None and value > reported + REPORTED * abs(value):
            answer.wrong.append(
                Contradiction("reported better than returned", part.label, claimed=reported, known=value)
            )
    said = second_opinion(kind, problem, plan, evaluation)
    if said:
        answer.wrong.append(Contradiction("evaluators differ", part.label, text=said))
    if not evaluation.feasible:
        return
    kept = []
    for place, options in enumerate(options_of(kind)):
        if options.unkept(evaluation) is None:
            # A plan counts for a search as what it would be handed out as.
            as_asked = kind.evaluate(problem, options.marked(plan))
            if as_asked.feasible and as_asked.objective == evaluation.objective:
                kept.append(place)
    if not math.isfinite(evaluation.objective):
        answer.wrong.append(Contradiction("not a number", part.label, known=evaluation.objective))
    elif kept:
        answer.plans.append(Found(float(evaluation.objective), tuple(kept)))


def compare(kind: AnyKind, said: Sequence[Said]) -> tuple[list[Contradiction], int]:
    """Every claim against every plan that it is about: what is wrong, and how many pairs were compared.

    Of each claim that is wrong, the best plan against it is named. That two optima agree follows: each claims that
    there is nothing below it.
    """
    wrong = [each for one in said for each in one.wrong]
    wanted = options_of(kind)
    compared = 0
    for one in said:
        worst: Contradiction | None = None
        for claim in one.claims:
            about = {place for place, options in enumerate(wanted) if options.covers(claim.scope)}
            for other in said:
                for found in other.plans:
                    if about.isdisjoint(found.answers):
                        continue
                    compared += 1
                    if claim.value <= found.value + CLOSE * abs(found.value):
                        continue
                    if worst is None or worst.known is None or found.value < worst.known:
                        sort = "infeasible with a plan" if math.isinf(claim.value) else "bound above plan"
                        worst = Contradiction(sort, one.part.label, other.part.label, claim.value, found.value)
        if worst is not None:
            wrong.append(worst)
    return wrong, compared


def ask_all(
    kind: AnyKind, problem: Any, parts: Iterable[Part], at: Callable[[str], None] = lambda label: None
) -> list[Said]:
    """Ask one after the other; ``at`` is told who is asked next."""
    said = []
    for part in parts:
        at(part.label)
        said.append(ask(kind, problem, part))
    return said
