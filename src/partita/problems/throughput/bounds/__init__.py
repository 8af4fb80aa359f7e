"""The throughput bounds there are, cheapest first."""

from __future__ import annotations

from partita.problems.throughput.bounds.capacity import CapacityBound
from partita.problems.throughput.bounds.covering import CoveringBound
from partita.problems.throughput.bounds.forced_transfers import ChargeBound
from partita.problems.throughput.bounds.node import FreeNodeBound, NodeBound
from partita.problems.throughput.bounds.programs.exact import ExactBound, MergedBound
from partita.problems.throughput.bounds.programs.superblocks import BottleneckBound, GuessBound, NodeProgramBound
from partita.problems.throughput.bounds.protocol import BoundMethod, HierarchyBound
from partita.problems.throughput.bounds.simple import SimpleBound
from partita.problems.throughput.bounds.streaming import StreamingBound
from partita.problems.throughput.free.covering import FreeCoveringBound

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
