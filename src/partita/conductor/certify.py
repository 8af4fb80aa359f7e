"""Certificates for bounds: where a compact one shows what was proven, the bound carries it."""

from __future__ import annotations

import dataclasses
from typing import Any

from partita.engines.search.result import Bound
from partita.problems import kind_of
from partita.problems.kind import AnyResult


def explained(problem: Any, bound: Bound) -> Bound:
    """A bound with the argument by which it holds, and a certificate where there is one."""
    kind = kind_of(problem)
    if not bound.argument:
        bound = dataclasses.replace(bound, argument=kind.argument(bound.method))
    if bound.certificate is None:
        bound = dataclasses.replace(bound, certificate=kind.certify(problem, bound))
    return bound


def certified(result: AnyResult) -> AnyResult:
    """A result whose bound carries a certificate, where there is one."""
    if result.bound is None:
        return result
    return dataclasses.replace(result, bound=explained(result.problem, result.bound))
