"""A throughput plan: which device runs which operators, in pipeline order."""

from __future__ import annotations

from typing import Literal

import msgspec

#: ``acyclic``: the stages can be ordered so that every tensor goes forward; ``free``: any assignment.
Contiguity = Literal["acyclic", "free"]


class Stage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The operators of one device, or of several that take turns.

    Attributes
    ----------
    device
        The device's name, ``<kind>:<number>``.
    kind
        Name of its device kind.
    operators
        Ids: in the order in which they run if the problem's ``working_memory`` is ``peak``, otherwise in any.
    replicas
        Further devices of the same kind that run the same operators, each on its share of the samples.
    """

    device: str
    kind: str
    operators: tuple[int, ...]
    replicas: tuple[str, ...] = ()

    @property
    def devices(self) -> tuple[str, ...]:
        """Names of all its devices."""
        return (self.device, *self.replicas)


class Plan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Stages in pipeline order, first stage first; devices left empty are not listed.

    Attributes
    ----------
    stages
        One entry per device, or set of replicas, that holds operators.
    contiguity
        What the plan claims; ``evaluate`` checks it.
    """

    stages: tuple[Stage, ...]
    contiguity: Contiguity = "acyclic"
