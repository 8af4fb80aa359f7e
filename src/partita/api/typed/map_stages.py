"""``map_stages`` with a signature for every problem: written by ``make signatures``, not by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypedDict, Unpack

from partita.api import solving
from partita.api.answer import Answer, AnyAnswer
from partita.api.arguments import Devices
from partita.api.listing import listed
from partita.engines.search.result import Progress
from partita.problems.kind import Stated
from partita.problems.mapping.evaluate import MappingEvaluation
from partita.problems.mapping.problem import MappingProblem, Placement


class MapStagesSettings(TypedDict, total=False):
    """What ``map_stages`` takes."""

    form: Literal["both", "point-to-point", "all-reduce"] | None
    """Terms of the time of a replica: transfers and all-reduce, or one of them. [unchanged unless given]"""
    replicas: int | None
    """Replicas of each stage. [replicas; unchanged unless given]"""


@listed(
    MapStagesSettings,
    {
        "Settings": MapStagesSettings,
    },
    "Settings of every problem",
)
def map_stages(
    what: AnyAnswer | Stated | str | Path,
    topology: Devices | None = None,
    *,
    time_limit_s: float | None = 60.0,
    seed: int = 0,
    solver: str | None = None,
    threads: int = 2,
    progress: Progress | None = None,
    **settings: Unpack[MapStagesSettings],
) -> Answer[MappingProblem, Placement, MappingEvaluation]:
    """Give the stages of a plan, and their replicas, devices of a topology, and prove how good that is.

    Parameters
    ----------
    what
        An answer whose plan has stages, the path of its result file, or the problem of placing stages or its file.
    topology
        The devices, as for ``plan``; None where the problem has them.
    time_limit_s, seed, solver, threads, progress
        As for ``solve``.
    settings
        Options of the search, and changes of the problem of placing.

    Raises
    ------
    InputError
        If a setting has no meaning, the plan has no stages, or the topology cannot hold it.
    UnsupportedError
        If plans of the problem are not made of stages.
    """
    return solving.map_stages(
        what,
        topology,
        time_limit_s=time_limit_s,
        seed=seed,
        solver=solver,
        threads=threads,
        progress=progress,
        **settings,
    )
