"""Deployments that people make by hand: see ``partita.problems.serving.rules``."""

from __future__ import annotations

from partita.problems.serving.options import Solver
from partita.problems.serving.rules import RULES

#: The visible list.
DEFAULT_BASELINES: tuple[Solver, ...] = RULES
