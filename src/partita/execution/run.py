"""Run: a result file in, its plan executed and compared with the model that is not split."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from partita.conductor.simulate import simulate_plan
from partita.documents.document import document_keys, read_bytes
from partita.execution.job import RunAnswer, RunJob
from partita.execution.launch import Host
from partita.ground.errors import InputError, PartitaError
from partita.nouns.graph import Source
from partita.nouns.split import Split
from partita.problems.planned import read_planned, read_split
from partita.simulator.program import Program
from partita.simulator.simulate import Simulation

#: Microbatches of a batch for every process, where the plan does not say.
PER_PROCESS = 4
#: Seconds in the units of time that problems may have.
_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6}


@dataclass(frozen=True)
class Ran:
    """A plan that ran."""

    #: What was asked for, and what was found.
    job: RunJob
    answer: RunAnswer
    simulation: Simulation | None  #: The same run in the simulator; None where it cannot be simulated in seconds.

    @property
    def program(self) -> Program | None:
        """What was simulated."""
        return None if self.simulation is None else self.simulation.program


def run_plan(
    path: str | Path,
    *,
    model: str | None = None,
    settings: Mapping[str, Any] | None = None,
    processes: int | None = None,
    microbatches: int | None = None,
    host: Host | None = None,
    **options: Any,
) -> Ran:
    """Run the plan of a result file on processes, and compare it with the model that is not split.

    Parameters
    ----------
    path
        A result file of a model's plan.
    model, settings
        How the model is made where the file does not say, or says something else: its name and the settings of
        ``partita.nouns.graph.Source``.
    processes
        In all: a multiple of the plan's devices, which then run as many copies of the plan, each with its share of the
        microbatches; None for the plan's.
    microbatches
        Of the batch, over all replicas; None for the plan's, or a few for each process.
    host
        Where processes come from, if there is one already.
    options
        Further fields of ``partita.execution.job.RunJob``.

    Raises
    ------
    InputError
        If the file, the model and what is asked for do not fit together.
    RankError
        If a process failed, was killed or hung.
    """
    split = read_split(path)
    keys = document_keys(read_bytes(path), path)
    facts = msgspec.json.decode(bytes(keys["model"])) if "model" in keys else {}
    times, batch = _numbers(split, processes, microbatches)
    job = RunJob(
        split=split,
        source=_source(path, split, model, settings or {}),
        operators=facts.get("operators"),
        times=times,
        microbatches=batch,
        **options,
    )
    with Host() if host is None else nullcontext(host) as place:
        answer = place.run(job)
    return Ran(job, answer, _simulation(path, job))


def _source(path: str | Path, split: Split, model: str | None, settings: Mapping[str, Any]) -> Source:
    known = split.source
    if known is None and model is None:
        raise InputError(f"{path} does not say how its model is made; name it with --model, for example hf:gpt2")
    given = {} if known is None else known.settings
    name = model if model is not None else known.model if known is not None else ""
    return Source(model=name, settings={**given, **settings}, training=split.training)


def _numbers(split: Split, processes: int | None, microbatches: int | None) -> tuple[int, int]:
    """How many copies of the plan, and microbatches."""
    ranks = {stage.rank: stage.replicas for stage in split.stages}
    own = sum(ranks.values())
    times = 1 if processes is None else processes // own
    if processes is not None and (times < 1 or processes % own):
        raise InputError(
            f"the plan has {own} processes, and {processes} is no multiple of that; give --processes {own}"
        )
    if microbatches is None:
        planned = split.microbatches * times
        microbatches = planned if planned > 1 else 1 if split.sequential else PER_PROCESS * own * times
        most = max(ranks.values()) * times
        microbatches = -(-microbatches // most) * most
    return times, microbatches


def _simulation(path: str | Path, job: RunJob) -> Simulation | None:
    """What the simulator says of one copy of the plan."""
    try:
        found = read_planned(path)
        problem, plan = found.problem, found.plan
        if problem.unit not in _SECONDS:
            return None
        asked: dict[str, Any] = {} if job.split.sequential else {"microbatches": job.microbatches // job.times}
        if job.schedule is not None:
            asked |= {"schedule": job.schedule}
        return simulate_plan(problem, plan, **asked).simulation
    except PartitaError:
        # Some plans run here and have no time line with these numbers.
        return None


def predicted_s(ran: Ran) -> float | None:
    """Time of a batch that the simulator predicts."""
    if ran.simulation is None:
        return None
    return ran.simulation.step_time * _SECONDS[ran.simulation.program.unit]
