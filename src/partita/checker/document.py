"""The check of a result document: its plan, its certificate, and whether what it states fits together."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import msgspec

from partita.checker.certificate import Certificate, Problem, check
from partita.checker.listed import LISTED, Checks
from partita.checker.numbers import FailedCheckError, at_most, close, exact

#: Relative gap up to which a plan is called optimal.
_OPTIMAL = Fraction(1, 10**6)
_STATUSES = ("optimal", "feasible", "infeasible", "unknown")
#: What a malformed document makes of an evaluation that expects a sound one.
_MALFORMED = (KeyError, TypeError, ValueError, IndexError, AttributeError, ZeroDivisionError, RecursionError)
#: Whose evaluator this is.
OWN = "the checker"


class PlanVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """What was found of the plan."""

    #: Whether it keeps every rule and is worth what the result says; None without a plan, or if nobody could say.
    verified: bool | None = None
    objective: float | None = None  #: What it is worth; None if that could not be said.
    by: str = ""  #: Whose evaluator said so.
    wrong: str = ""  #: What is wrong, or what is not covered; empty if nothing.


class BoundVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """What was found of the bound."""

    verified: bool | None = None  #: Whether the certificate proves it; None where there is no bound, or no certificate.
    value: float | None = None  #: The bound as the result states it.
    argument: str = ""  #: By which argument it holds, as the result says.
    certificate: str | None = None  #: Kind of the certificate, None for none.
    says: str = ""  #: What certificates of this kind say.
    checked: float | None = None  #: What the certificate was found to prove.
    wrong: str = ""  #: What is wrong; empty if nothing.


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What was found of a result."""

    verified: bool  #: Whether plan and bound are verified, and nothing in the file contradicts them.
    #: See the classes.
    plan: PlanVerdict
    bound: BoundVerdict
    wrong: tuple[str, ...] = ()  #: What else in the file does not fit together.

    @classmethod
    def of(cls, plan: PlanVerdict, bound: BoundVerdict, wrong: tuple[str, ...]) -> Verdict:
        """All together; a result without a plan may be verified by its bound alone."""
        sound = not wrong and not plan.wrong and plan.verified is not False
        return cls(verified=sound and bound.verified is True, plan=plan, bound=bound, wrong=wrong)

    @property
    def refuted(self) -> bool:
        """Whether something is wrong, rather than only not shown."""
        return bool(self.wrong) or self.plan.verified is False or self.bound.verified is False


def check_document(document: Mapping[str, Any], problem: Problem) -> Verdict:
    """Check a ``partita.result`` against the problem that it is of, both as they stand in files."""
    checks = LISTED.get(problem.get("format", ""))
    plan = _plan(document, problem, checks)
    wrong = (*_contradictions(document), *_told_twice(document, problem), *_of_others(document, checks))
    return Verdict.of(plan, _bound(document, problem, checks), wrong)


def _plan(document: Mapping[str, Any], problem: Problem, checks: Checks | None) -> PlanVerdict:
    plan = document.get("plan")
    if plan is None:
        return PlanVerdict()
    if checks is None:
        return PlanVerdict(wrong=f"nothing is known here of {problem.get('format')!r}")
    try:
        missing = checks.not_covered(problem, plan)
        if missing is not None:
            return PlanVerdict(wrong=f"not covered here: {missing}")
        found = checks.worth(problem, plan)
        stated = document.get("objective")
        if not close(found, exact(stated)):
            raise FailedCheckError(f"the plan is worth {float(found)!r}, not {stated!r}")
    except FailedCheckError as error:
        return PlanVerdict(verified=False, by=OWN, wrong=str(error))
    except _MALFORMED as error:
        return PlanVerdict(verified=False, by=OWN, wrong=f"the plan is malformed: {error!r}")
    return PlanVerdict(verified=True, objective=float(found), by=OWN)


def _bound(document: Mapping[str, Any], problem: Problem, checks: Checks | None) -> BoundVerdict:
    value, proof = document.get("bound"), document.get("proof")
    if value is None or not isinstance(proof, dict):
        argument = proof.get("argument", "") if isinstance(proof, dict) else ""
        return BoundVerdict(value=value, argument=str(argument))
    argument, stated = str(proof.get("argument", "")), proof.get("certificate")
    if stated is None:
        return BoundVerdict(value=value, argument=argument)
    name = stated.get("kind") if isinstance(stated, dict) else None
    known = {kind.__struct_config__.tag: kind for kind in (() if checks is None else checks.certificates)}
    found, says, wrong = None, "", ""
    try:
        if checks is None or name not in known:
            raise FailedCheckError(f"there is no kind of certificate {name!r} for this problem")
        says = known[name].says
        certificate: Certificate = msgspec.convert(stated, known[name], str_keys=True)
        found = check(certificate, problem)
        if not at_most(exact(value), found):
            raise FailedCheckError(f"the certificate proves {float(found)!r}, and the bound is {value!r}")
        _check_scope(document, certificate, problem, checks)
    except FailedCheckError as error:
        wrong = str(error)
    except (msgspec.ValidationError, *_MALFORMED) as error:
        wrong = f"the certificate is malformed: {error}"
    return BoundVerdict(
        verified=not wrong,
        value=value,
        argument=argument,
        certificate=None if name is None else str(name),
        says=says,
        checked=None if found is None else float(found),
        wrong=wrong,
    )


def _check_scope(document: Mapping[str, Any], certificate: Certificate, problem: Problem, checks: Checks) -> None:
    """Refuse a certificate about other plans than those that the result is about."""
    plan, scope = document.get("plan"), certificate.scope(problem)
    if plan is not None and not checks.covers(scope, plan):
        raise FailedCheckError(f"it is proven of {scope or 'all'} plans, and the plan is of others")


def _contradictions(document: Mapping[str, Any]) -> list[str]:
    """What of objective, bound, gap and status does not fit together."""
    found = []
    status = document.get("status")
    try:
        objective, bound = (None if document.get(name) is None else exact(document[name])
                            for name in ("objective", "bound"))  # fmt: skip
        gap = document.get("gap")
        wanted = _gap(objective, bound)
        if (wanted is None) != (gap is None) or (wanted is not None and abs(exact(gap) - wanted) > _OPTIMAL / 1000):
            found.append(f"the gap of objective and bound is {None if wanted is None else float(wanted)}, not {gap}")
        if objective is not None and bound is not None and not at_most(bound, objective):
            found.append(f"the bound {document['bound']!r} is above the objective {document['objective']!r}")
        if status == "optimal" and (wanted is None or wanted > _OPTIMAL):
            found.append("it is called optimal, and its gap is not closed")
        if status == "feasible" and (wanted is not None and wanted <= _OPTIMAL):
            found.append("it is called feasible, and its gap is closed")
    except FailedCheckError as error:
        found.append(str(error))
    if (document.get("plan") is None) != (document.get("objective") is None):
        found.append("there is a plan without an objective, or an objective without a plan")
    if (document.get("plan") is not None) != (status in ("optimal", "feasible")):
        found.append(f"the status is {status!r}, which does not fit to whether there is a plan")
    if status == "infeasible" and document.get("bound") is not None:
        found.append("it is called infeasible, and has a bound")
    if status not in _STATUSES:
        found.append(f"there is no status {status!r}")
    return found


def _told_twice(document: Mapping[str, Any], problem: Problem) -> list[str]:
    """What the file says in two places, or the problem says, too, and not the same."""
    found = []
    if document.get("unit") != problem.get("unit", "s"):
        found.append(f"the unit is {document.get('unit')!r}, and the problem's is {problem.get('unit', 's')!r}")
    proof, unbounded = document.get("proof"), document.get("bound") is None
    if not isinstance(proof, dict):
        return found if proof is None else [*found, "the proof is malformed"]
    if proof.get("method") != (document.get("solver") if unbounded else document.get("bound_method")):
        found.append("the method of the proof is told in two ways")
    if unbounded and (document.get("bound_method") or proof.get("certificate") or proof.get("scope")):
        found.append("there is a method, a scope or a certificate of a bound, and no bound")
    return found


def _of_others(document: Mapping[str, Any], checks: Checks | None) -> list[str]:
    """Whether the bound is said to be about other plans than the plan is one of."""
    plan, proof = document.get("plan"), document.get("proof")
    if checks is None or not isinstance(plan, dict) or not isinstance(proof, dict) or document.get("bound") is None:
        return []
    scope = proof.get("scope", "")
    return [] if checks.covers(scope, plan) else [f"the bound is said to be about {scope!r} plans, and this is none"]


def _gap(objective: Fraction | None, bound: Fraction | None) -> Fraction | None:
    if objective is None or bound is None:
        return None
    return max(Fraction(0), (objective - bound) / objective) if objective else Fraction(0)
