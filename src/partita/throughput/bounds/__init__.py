"""The throughput bounds there are, cheapest first."""

from __future__ import annotations

from partita.throughput.bounds.capacity import CapacityBound
from partita.throughput.bounds.charge import ChargeBound
from partita.throughput.bounds.covering_free import FreeCoveringBound
from partita.throughput.bounds.node import FreeNodeBound, NodeBound
from partita.throughput.bounds.protocol import BoundMethod, HierarchyBound
from partita.throughput.bounds.simple import SimpleBound

__all__ = ["DEFAULT_BOUNDS", "HIERARCHY"]

#: Bounds of problems with identical devices, which tell each other what they find; see ``scheduler``.
HIERARCHY: tuple[HierarchyBound, ...] = (SimpleBound(), NodeBound(), ChargeBound())

DEFAULT_BOUNDS: tuple[BoundMethod, ...] = (CapacityBound(), *HIERARCHY, FreeNodeBound(), FreeCoveringBound())
