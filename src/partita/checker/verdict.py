"""What a check found."""

from __future__ import annotations

import msgspec


class PlanVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """What was found of the plan.

    Attributes
    ----------
    verified
        Whether it keeps every rule and is worth what the result says; None without a plan, or if nobody could say.
    objective
        What it is worth; None if that could not be said.
    by
        Whose evaluator said so.
    wrong
        What is wrong, or what is not covered; empty if nothing.
    """

    verified: bool | None = None
    objective: float | None = None
    by: str = ""
    wrong: str = ""


class BoundVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """What was found of the bound.

    Attributes
    ----------
    verified
        Whether the certificate proves it; None where there is no bound, or no certificate.
    value
        The bound as the result states it.
    argument
        By which argument it holds, as the result says.
    certificate
        Kind of the certificate, None for none.
    says
        What certificates of this kind say.
    checked
        What the certificate was found to prove.
    wrong
        What is wrong; empty if nothing.
    """

    verified: bool | None = None
    value: float | None = None
    argument: str = ""
    certificate: str | None = None
    says: str = ""
    checked: float | None = None
    wrong: str = ""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What was found of a result.

    Attributes
    ----------
    verified
        Whether plan and bound are verified, and nothing in the file contradicts them.
    plan, bound
        See the classes.
    wrong
        What else in the file does not fit together.
    """

    verified: bool
    plan: PlanVerdict
    bound: BoundVerdict
    wrong: tuple[str, ...] = ()

    @classmethod
    def of(cls, plan: PlanVerdict, bound: BoundVerdict, wrong: tuple[str, ...]) -> Verdict:
        """All together; a result without a plan may be verified by its bound alone."""
        sound = not wrong and not plan.wrong and plan.verified is not False
        return cls(verified=sound and bound.verified is True, plan=plan, bound=bound, wrong=wrong)

    @property
    def refuted(self) -> bool:
        """Whether something is wrong, rather than only not shown."""
        return bool(self.wrong) or self.plan.verified is False or self.bound.verified is False
