"""The throughput bounds there are, cheapest first."""

from __future__ import annotations

from partita.throughput.bounds.capacity import CapacityBound
from partita.throughput.bounds.charge import ChargeBound
from partita.throughput.bounds.protocol import BoundMethod

__all__ = ["DEFAULT_BOUNDS"]

DEFAULT_BOUNDS: tuple[BoundMethod, ...] = (CapacityBound(), ChargeBound())
