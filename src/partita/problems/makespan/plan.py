"""A makespan plan: where and when every operator runs, and when every flow between devices does."""

from __future__ import annotations

import msgspec


class PlacedOperator(msgspec.Struct, frozen=True, kw_only=True):
    """An operator's device, as a place among the problem's, and its time."""

    device: int
    start: float
    end: float


class Sent(msgspec.Struct, frozen=True, kw_only=True, rename={"source": "from", "target": "to"}):
    """A flow's devices, as places among the problem's, and its time; files call them ``from`` and ``to``."""

    source: int
    target: int
    start: float
    end: float


class MakespanPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What runs when."""

    operators: dict[int, PlacedOperator]  #: By id, every operator.
    flows: dict[int, Sent] = {}  #: By id, the flows between different devices, and only these.
