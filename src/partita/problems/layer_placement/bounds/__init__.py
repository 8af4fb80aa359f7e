"""The lower bounds of layer placements."""

from __future__ import annotations

from partita.problems.kind import BoundMethod
from partita.problems.layer_placement.bounds.arc_flow import ArcFlowBound
from partita.problems.layer_placement.bounds.area import LayerArea
from partita.problems.layer_placement.bounds.caches import CacheRoom
from partita.problems.layer_placement.bounds.rows import SideBySide
from partita.problems.layer_placement.problem import LayerPlacementProblem

#: The visible list, cheapest first.
DEFAULT_BOUNDS: tuple[BoundMethod[LayerPlacementProblem], ...] = (
    LayerArea(),
    CacheRoom(),
    SideBySide(),
    ArcFlowBound(),
)
