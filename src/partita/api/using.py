"""What can be done with a plan: simulate, export and run it, of an answer or of its file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, TypedDict, Unpack

from partita.api.answer import Answer, AnyAnswer
from partita.api.exporting import Exported
from partita.api.listing import listed
from partita.api.loading import load
from partita.api.running import MeasuredRun
from partita.api.simulation import SimulationAnswer
from partita.conductor.simulate import simulate_plan
from partita.ground.errors import InputError
from partita.problems.kind import Stated
from partita.simulator.program import Contention


class SimulationKeywords(TypedDict, total=False):
    """What ``Answer.simulate`` takes."""

    schedule: str | None
    chunks: int | None
    microbatches: int | None
    contention: Contention
    weight_sync: Literal["after", "behind"]
    interval: float


class RunKeywords(TypedDict, total=False):
    """What ``Answer.run`` takes."""

    model: str | None
    settings: Mapping[str, object] | None
    processes: int | None
    microbatches: int | None
    schedule: str | None
    steps: int
    optimizer: Literal["sgd", "adam"]
    learning_rate: float
    repeats: int
    seed: int
    threads: int
    tolerance: float
    timeout_s: float
    port: int | None


def _answer(what: AnyAnswer | str | Path) -> AnyAnswer:
    if isinstance(what, str | Path):
        return load(what)
    if isinstance(what, Answer):
        return what
    raise InputError(f"{type(what).__name__} is no answer; give what plan, solve or load returns, or a result file")


@listed(SimulationKeywords)
def simulate(
    what: AnyAnswer | Stated | str | Path, plan: object = None, **settings: Unpack[SimulationKeywords]
) -> SimulationAnswer:
    """Run a plan, which need not be feasible, through the simulator.

    Parameters
    ----------
    what
        An answer, the path of a result file, or with ``plan`` a problem.
    plan
        A plan of that problem.
    settings
        ``schedule``, ``chunks``, ``microbatches``, ``contention``, ``weight_sync`` and ``interval``, as of
        ``Answer.simulate``.

    Raises
    ------
    InputError
        If a setting is unknown, there is no plan, or it cannot run as asked.
    """
    if plan is not None:
        return SimulationAnswer(simulate_plan(what, plan, **settings))
    found = _answer(what)  # type: ignore[arg-type]
    if found.plan is None:
        raise InputError(f"there is no plan to be simulated: {found.reason or found.status}")
    return SimulationAnswer(simulate_plan(found.problem, found.plan, found.evaluation, **settings))


def export(what: AnyAnswer | str | Path, runtime: str, path: str | Path, *, model: str | None = None) -> Exported:
    """Write the plan of an answer, or of a result file, for a runtime; as ``Answer.export``."""
    return _answer(what).export(runtime, path, model=model)


@listed(RunKeywords)
def run(what: AnyAnswer | str | Path, **options: Unpack[RunKeywords]) -> MeasuredRun:
    """Run the plan of an answer, or of a result file, on processes of this machine; as ``Answer.run``."""
    return _answer(what).run(**options)
