"""The throughput bounds there are, cheapest first."""

from __future__ import annotations

from partita.throughput.bounds.capacity import CapacityBound
from partita.throughput.bounds.charge import ChargeBound
from partita.throughput.bounds.covering import CoveringBound
from partita.throughput.bounds.covering_free import FreeCoveringBound
from partita.throughput.bounds.node import FreeNodeBound, NodeBound
from partita.throughput.bounds.programs.exact import ExactBound, MergedBound
from partita.throughput.bounds.programs.superblocks import BottleneckBound, GuessBound, NodeProgramBound
from partita.throughput.bounds.protocol import BoundMethod, HierarchyBound
from partita.throughput.bounds.simple import SimpleBound
from partita.throughput.bounds.streaming import StreamingBound

__all__ = ["DEFAULT_BOUNDS", "HIERARCHY", "STREAMING"]

#: Bounds of problems with identical devices, which tell each other what they find; see ``scheduler``.
HIERARCHY: tuple[HierarchyBound, ...] = (
    SimpleBound(),
    NodeBound(),
    ChargeBound(),
    NodeProgramBound(),
    CoveringBound(),
    MergedBound(),
    ExactBound(),
)

#: The hierarchy for problems in which memory costs time.
STREAMING = StreamingBound(HIERARCHY)

#: Those that others of the hierarchy prove more than in less time are there to be asked for.
DEFAULT_BOUNDS: tuple[BoundMethod, ...] = (
    CapacityBound(),
    *HIERARCHY,
    BottleneckBound(),
    GuessBound(),
    STREAMING,
    FreeNodeBound(),
    FreeCoveringBound(),
)
