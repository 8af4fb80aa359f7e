"""What the cross-check makes of what one component says: every sort of contradiction, and what is none."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

import partita
from crosscheck.claims import CLOSE, Claim, Contradiction, Found, Said, ask, compare
from crosscheck.parts import Part, drawn_parts, parts_of
from crosscheck.wordings import in_other_words
from partita.engines.search.monitor import Monitor
from partita.engines.search.result import Bound
from partita.ground.errors import DisagreementError, SolverCrashError, UnsupportedError
from partita.problems import kinds
from partita.problems.kind import BoundMethod, Solver
from partita.problems.latency.samples import SAMPLES as LATENCY_SAMPLES
from partita.problems.outcome import Outcome
from toy.registered import registered
from toy.tasks import Branching, Mean, Options, Schedule, TaskProblem, Tasks

PROBLEM = TaskProblem(name="three", machines=2, times=(1.0, 2.0, 4.0), most_tasks=2)
PLAN = Schedule((0, 0, 1))


class Says(Solver[TaskProblem, Schedule, Options]):
    """Whatever it is told to."""

    name = "says"
    summary = "whatever it is told to"

    def __init__(self, answer: Callable[[Monitor], Outcome[Schedule]]) -> None:
        self.answer = answer

    def solve(self, problem: TaskProblem, options: Options, monitor: Monitor) -> Outcome[Schedule]:
        return self.answer(monitor)


class Claims(BoundMethod[TaskProblem]):
    """Whatever it is told to."""

    name = "claims"
    summary = "whatever it is told to"

    def __init__(self, value: float, scope: str = "") -> None:
        self.value, self.held = value, scope

    def bound(self, problem: TaskProblem, monitor: Monitor) -> Bound:
        return Bound(self.value, self.name, self.held)


def kind_of(solver: Any = None, bound: Any = None) -> Tasks:
    """The problem of the tests with components of these tests."""
    kind = Tasks()
    kind.solvers = tuple(filter(None, (Branching(), solver)))
    kind.bounds = tuple(filter(None, (Mean(), bound)))
    return kind


def said(answer: Callable[[Monitor], Outcome[Schedule]], assignment: str = "any") -> Said:
    """What is made of a solver's answer."""
    return ask(kind_of(Says(answer)), PROBLEM, Part("solver", "says", Options(assignment=assignment)))


def raises(error: Exception) -> Callable[[Monitor], Outcome[Schedule]]:
    def answer(monitor: Monitor) -> Outcome[Schedule]:
        raise error

    return answer


def test_a_right_answer_is_taken_as_it_is() -> None:
    found = said(lambda monitor: Outcome(PLAN, bound=4.0))
    assert found.claims == (Claim(4.0, ""),)
    # Both searches could have answered with it.
    assert found.plans == (Found(4.0, (0, 1)),)
    assert found.wrong == ()


@pytest.mark.parametrize(
    ("answer", "sort"),
    [
        (lambda monitor: Outcome(Schedule((0, 0, 0))), "plan fails"),
        (lambda monitor: Outcome(PLAN, bound=math.nan), "not a number"),
        (lambda monitor: monitor.report(objective=3.0) or Outcome(PLAN), "reported better than returned"),
        (raises(DisagreementError("two proofs")), "disagreement"),
        (raises(SolverCrashError("highs", "ended")), "crash"),
        (raises(ZeroDivisionError("division by zero")), "exception"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_one_component_alone_has_wrong(answer: Callable[[Monitor], Outcome[Schedule]], sort: str) -> None:
    found = said(answer)
    assert [each.key for each in found.wrong] == [(sort, "says")]


def test_a_plan_has_to_be_what_was_asked_for() -> None:
    found = said(lambda monitor: Outcome(Schedule((0, 1, 0))), "consecutive")
    assert [each.key for each in found.wrong] == [("plan fails", "says (consecutive)")]
    # It is a plan for the other search all the same.
    assert found.plans == (Found(5.0, (0,)),)


def test_a_declared_refusal_is_none_of_its_errors() -> None:
    found = said(raises(UnsupportedError("it is for one machine")))
    assert found.refused == "it is for one machine"
    assert found.wrong == ()


def test_what_holds_of_a_reduction_is_no_claim() -> None:
    assert said(lambda monitor: Outcome(PLAN, bound=9.0, lossless=False)).claims == ()


def test_claims_of_a_running_search_count() -> None:
    found = said(lambda monitor: monitor.report(bound=9.0) or Outcome(PLAN, bound=4.0))
    assert Claim(9.0, "") in found.claims
    assert [each.sort for each in compare(kind_of(), [found])[0]] == ["bound above plan"]


@pytest.mark.parametrize(
    ("claimed", "sort"),
    [
        (4.0, None),
        (4.0 * (1 + CLOSE / 2), None),
        (4.0 * (1 + 3 * CLOSE), "bound above plan"),
        (math.inf, "infeasible with a plan"),
    ],
)
def test_a_claim_is_held_against_plans(claimed: float, sort: str | None) -> None:
    kind = kind_of(bound=Claims(claimed))
    every = [ask(kind, PROBLEM, part) for part in (Part("bound", "claims"), Part("solver", "branching", Options()))]
    wrong, compared = compare(kind, every)
    assert compared > 0
    assert [each.sort for each in wrong] == ([] if sort is None else [sort])
    if wrong:
        assert (wrong[0].by, wrong[0].against) == ("claims", "branching")
        assert (wrong[0].claimed, wrong[0].known) == (claimed, 4.0)
        assert "claims" in str(wrong[0])


def test_a_claim_is_about_its_scope_only() -> None:
    """Of consecutive tasks, 1 + 4 and 2 cannot be told from 1 and 2 + 4 and so on: a plan of others says nothing."""
    kind = kind_of(bound=Claims(4.5, "consecutive"))
    claim = ask(kind, PROBLEM, Part("bound", "claims"))
    other = Said(Part("solver", "other", Options()), plans=(Found(4.0, (0,)),))
    both = Said(Part("solver", "other", Options()), plans=(Found(4.0, (0, 1)),))
    assert compare(kind, [claim, other]) == ([], 0)
    assert [each.sort for each in compare(kind, [claim, both])[0]] == ["bound above plan"]


class _Verdict(msgspec.Struct):
    """As much of a checker's verdict as is read."""

    wrong: tuple[str, ...] = ()
    plan: Any = None
    bound: Any = None
    refuted: bool = False


class _Half(msgspec.Struct):
    wrong: str = ""


def test_the_checker_of_results_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def check(result: Any) -> _Verdict:
        asked.append(result.objective)
        return _Verdict(("another problem",), _Half(), _Half("the sums differ"), refuted=True)

    monkeypatch.setattr(partita, "check", check, raising=False)
    with registered(kind_of()):
        found = ask(kind_of(), PROBLEM, Part("answer", "the answer", Options()))
    assert asked == [4.0]
    assert found.wrong == (Contradiction("check refutes", "the answer", text="another problem; the sums differ"),)


def test_other_words_are_turned_back() -> None:
    """Values are in the instance's own unit, and the plans of both worth the same."""
    kind = next(kind for kind in kinds() if kind.name == "latency")
    problem = LATENCY_SAMPLES[0][0]
    usual = ask(kind, problem, Part("baseline", "CPU only", kind.options()))
    for wording, factor in (("times", 2.0**-20), ("bytes", 2.0**10), ("ids", 3.0)):
        other = ask(kind, problem, Part("baseline", "CPU only", kind.options(), wording=wording, factor=factor))
        assert other.plans == usual.plans
        assert other.part.label.startswith("CPU only (other ")
        assert in_other_words(problem, wording, factor) != problem


def components(parts: list[Part]) -> Iterator[tuple[str, str]]:
    for part in parts:
        yield part.role, part.name


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.name)
def test_every_component_is_asked_before_long(kind: Any) -> None:
    """Those that are asked about a share of the instances only, too; at the latest after some hundred."""
    every = set(components(list(parts_of(kind))))
    for role, listed in (("solver", kind.solvers), ("bound", kind.bounds), ("baseline", kind.baselines)):
        assert {(role, component.name) for component in listed} <= every
    met = {each for seed in range(600) for each in components(drawn_parts(kind, random.Random(seed)))}
    assert met == every
