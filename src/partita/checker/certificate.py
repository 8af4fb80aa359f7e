"""What a certificate is: a value in a result file, and what it proves about a problem.

A step of a proof that does not hold, and a value that is not the one that is proven, raise ``FailedCheckError``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import Any, ClassVar, TypeVar

import msgspec

from partita.checker.numbers import FailedCheckError, at_most, close, down, exact

#: A problem as it stands in a file.
Problem = Mapping[str, Any]
Place = TypeVar("Place")


class Certificate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    """A proof that no plan is below a value; a kind of certificate is a class with its own fields and ``proves``."""

    #: What it says, in one sentence.
    says: ClassVar[str]

    value: float  #: What it proves, rounded down.

    def proves(self, problem: Problem) -> Fraction:
        """What no plan is below, from the problem and the certificate's own fields but ``value``."""
        raise NotImplementedError

    def scope(self, problem: Problem) -> str:
        """The plans it holds for, in the words of the problem; empty for all."""
        return ""


def check(certificate: Certificate, problem: Problem) -> Fraction:
    """What a certificate proves, which must be what it states."""
    found = certificate.proves(problem)
    if not close(found, exact(certificate.value)):
        raise FailedCheckError(f"it states {certificate.value!r} and proves {float(found)!r}")
    return found


def check_follows(what: str, stated: float | None, found: Fraction | None) -> None:
    """Refuse a number that a certificate states of something and that does not follow; None is for nowhere."""
    if (found is None) != (stated is None):
        raise FailedCheckError(f"{what} is told to be where it cannot be")
    if found is not None and stated is not None and (exact(stated) > found or not close(exact(stated), found)):
        raise FailedCheckError(f"{stated!r} of {what} does not follow")


def stating(certificate: Certificate, problem: Problem) -> Certificate:
    """The certificate with the value that it proves."""
    return msgspec.structs.replace(certificate, value=down(certificate.proves(problem)))


def as_in_file(value: Any) -> Any:
    """A problem, or a document, as whoever reads the file gets it."""
    # Numbers of an array library are not JSON by themselves.
    return msgspec.json.decode(msgspec.json.encode(value, enc_hook=lambda number: number.item()))


def first_proving(
    problem: Problem, bound: float, makers: Iterable[Callable[[Problem], Certificate | None]]
) -> Certificate | None:
    """Of the certificates that are made, cheapest first, the first that proves a bound; None if none does.

    Makers need not be trusted: each certificate is checked here.
    """
    if not 0 <= bound < math.inf:
        return None
    for make in makers:
        try:
            found = make(problem)
            if found is not None and at_most(exact(bound), check(found, problem)):
                return found
        except FailedCheckError:
            continue
    return None


def classes(problem: Problem) -> list[list[Mapping[str, Any]]]:
    """Operators that share a device: those of one number, and every other one alone."""
    found: dict[tuple[str, int], list[Mapping[str, Any]]] = {}
    for op in problem["operators"]:
        tie = op.get("colocation")
        found.setdefault(("own", op["id"]) if tie is None else ("tie", tie), []).append(op)
    return list(found.values())


def check_together(problem: Problem, home: Mapping[int, Any]) -> None:
    """Refuse places of operators, by id, that part a class."""
    for members in classes(problem):
        if len({home[op["id"]] for op in members}) > 1:
            raise FailedCheckError(f"operators of colocation class {members[0]['colocation']} are on two devices")


def placed(pairs: Iterable[tuple[int, Place]], wanted: Iterable[int], what: str = "operator") -> dict[int, Place]:
    """Where everything is, from pairs of an id and a place; refuses what is not each of those wanted, once."""
    home: dict[int, Place] = {}
    for identity, place in pairs:
        if identity in home:
            raise FailedCheckError(f"{what} {identity} is placed twice")
        home[identity] = place
    if home.keys() != set(wanted):
        raise FailedCheckError(f"the plan's {what}s are not those of the problem")
    return home
