"""A certificate that the machines do not do the work of a flow.

A machine with k layers passes at most the flow f, its table's number, and what its links bring and take away, through
each of the k layers. If the sum of k times that share of f, for the best k of every machine, is less than the number of
layers, there is no plan with the flow f or a larger one. The flow is no larger, either, than what the source's links
carry, or the sink's.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from partita.checker.certificate import Certificate, Problem
from partita.checker.layer_placement.plan import SINK, SOURCE
from partita.checker.numbers import FailedCheckError, exact


class WorkOfLayers(Certificate, frozen=True, kw_only=True, tag="work-of-layers"):
    """See the module."""

    says = "all machines together do not pass this flow through all layers, nor do the links of source or sink"

    tokens_per_s: float  #: The flow that there is no plan with.

    def proves(self, problem: Problem) -> Fraction:
        """Seconds per token of the flow."""
        flow = exact(self.tokens_per_s)
        if not flow:
            raise FailedCheckError("it names no flow")
        come, go = _sums(problem)
        ends = min(go.get(SOURCE, Fraction(0)), come.get(SINK, Fraction(0)))
        work = Fraction(0)
        for machine in problem["machines"]:
            name = machine["name"]
            limit = min(flow, come.get(name, Fraction(0)), go.get(name, Fraction(0)))
            sizes = ((int(k), exact(rate)) for k, rate in machine["tokens_per_s"].items())
            work += max((k * min(limit, rate) for k, rate in sizes if k <= problem["layers"]), default=Fraction(0))
        if ends >= flow and work >= flow * problem["layers"]:
            raise FailedCheckError("the machines together may pass this flow through all layers")
        return 1 / flow


def _sums(problem: Problem) -> tuple[dict[Any, Fraction], dict[Any, Fraction]]:
    """What the links bring to a machine, and what they take away."""
    come: dict[Any, Fraction] = {}
    go: dict[Any, Fraction] = {}
    for link in problem["links"]:
        rate = exact(link["tokens_per_s"])
        come[link["to"]] = come.get(link["to"], Fraction(0)) + rate
        go[link["from"]] = go.get(link["from"], Fraction(0)) + rate
    return come, go
