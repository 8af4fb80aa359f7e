"""The words of ``partita.problems.kind`` for layer placements."""

from __future__ import annotations

from partita.problems import kind, outcome
from partita.problems.layer_placement.problem import LayerPlacement, LayerPlacementProblem

Outcome = outcome.Outcome[LayerPlacement]
Solver = kind.Solver[LayerPlacementProblem, LayerPlacement, kind.SearchOptions]
