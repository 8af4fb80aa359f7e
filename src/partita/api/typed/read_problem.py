"""``read_problem`` with a signature for every problem: written by ``make signatures``, not by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, overload

from partita.api.listing import calling
from partita.problems import importers
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.kind import Stated
from partita.problems.latency.problem import LatencyProblem
from partita.problems.layer_placement.problem import LayerPlacementProblem
from partita.problems.makespan.problem import MakespanProblem
from partita.problems.mapping.problem import MappingProblem
from partita.problems.serving.problem import ServingProblem
from partita.problems.throughput.problem import ThroughputProblem


@overload
def read_problem(
    path: str | Path, format: str | None = None, *, problem: Literal["throughput"], scale_communication: float = 1.0
) -> ThroughputProblem: ...


@overload
def read_problem(
    path: str | Path, format: str | None = None, *, problem: Literal["hybrid"], scale_communication: float = 1.0
) -> HybridProblem: ...


@overload
def read_problem(
    path: str | Path, format: str | None = None, *, problem: Literal["latency"], scale_communication: float = 1.0
) -> LatencyProblem: ...


@overload
def read_problem(
    path: str | Path, format: str | None = None, *, problem: Literal["makespan"], scale_communication: float = 1.0
) -> MakespanProblem: ...


@overload
def read_problem(
    path: str | Path, format: str | None = None, *, problem: Literal["mapping"], scale_communication: float = 1.0
) -> MappingProblem: ...


@overload
def read_problem(
    path: str | Path,
    format: str | None = None,
    *,
    problem: Literal["layer_placement"],
    scale_communication: float = 1.0,
) -> LayerPlacementProblem: ...


@overload
def read_problem(
    path: str | Path, format: str | None = None, *, problem: Literal["serving"], scale_communication: float = 1.0
) -> ServingProblem: ...


@overload
def read_problem(
    path: str | Path, format: str | None = None, problem: str | None = None, *, scale_communication: float = 1.0
) -> Stated: ...


@calling(importers.read_problem)
def read_problem(*given: object, **named: object) -> object:
    """Read a problem file.

    ``format`` is one of ``format_names``, or None to recognise it by its content; ``problem`` says which problem a file
    that states several is read as, None for the format's usual one; ``scale_communication`` is a factor on every
    transfer time of the file. A malformed file raises ``FormatError``, a format that is unknown or does not state that
    problem ``InputError``.
    """
