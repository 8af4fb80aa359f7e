"""What a check found."""

from __future__ import annotations

import msgspec


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
