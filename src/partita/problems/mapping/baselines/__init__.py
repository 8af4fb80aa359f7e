"""Mappings that people make, and the published search."""

from __future__ import annotations

from partita.problems.mapping.baselines.orders import Consecutive, PointToPointFirst
from partita.problems.mapping.baselines.published import Parmesan, ParmesanAllReduce, ParmesanPointToPoint
from partita.problems.mapping.protocol import Solver

DEFAULT_BASELINES: tuple[Solver, ...] = (
    Consecutive(),
    PointToPointFirst(),
    Parmesan(),
    ParmesanPointToPoint(),
    ParmesanAllReduce(),
)
