"""Run: a result file in, its plan executed and compared with the model that is not split."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from partita.conductor.simulate import simulate_plan
from partita.documents.document import document_keys, read_bytes
from partita.engines.processes.child import Child
from partita.engines.processes.replies import Reply
from partita.execution.job import RunAnswer, RunJob
from partita.ground.errors import DisagreementError, InputError, PartitaError, RankError
from partita.ground.shown import brief
from partita.nouns.graph import Source
from partita.nouns.split import Split
from partita.problems.planned import Planned, read_planned, read_split
from partita.simulator.simulate import Simulation

#: Microbatches of a batch for every process, where the plan does not say.
PER_PROCESS = 4
#: Seconds between two looks at the process that the others come from.
POLL_S = 0.5
#: Seconds in the units of time that problems may have.
_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6}


@dataclass(frozen=True)
class Ran:
    """A plan that ran."""

    #: What was asked for, and what was found.
    job: RunJob
    answer: RunAnswer
    simulation: Simulation | None  #: The same run in the simulator; None where it cannot be simulated in seconds.

    __repr__ = brief


class Host:
    """The process that the others come from, which runs one job after the other; a context manager that ends it."""

    def __init__(self) -> None:
        self.child: Child | None = None

    def __enter__(self) -> Host:
        return self

    def __exit__(self, *error: Any) -> None:
        self.end()

    def run(self, job: RunJob) -> RunAnswer:
        """Run a job.

        Raises ``InputError`` if the plan, the model and what is asked for do not fit together; ``RankError`` if a
        process failed, was killed or hung.
        """
        if self.child is not None and not self.child.free:
            self.end()
        if self.child is None:
            self.child = Child("partita.execution.host", _lost, shown=True, informed=True)
        child = self.child
        try:
            child.ask(job)
            while not isinstance(found := child.hear(POLL_S), Reply):
                child.check_stopped(job.timeout_s)
        except BaseException:
            self.end()
            raise
        error = found.error
        if error is None or isinstance(error, (InputError, RankError)):
            answer: RunAnswer = found.get()
            return answer
        # Errors that nobody raises on purpose are defects.
        defect = DisagreementError(str(error) if isinstance(error, PartitaError) else found.said)
        defect.add_note(found.where)
        raise defect

    def end(self) -> None:
        """End everything that was started."""
        child, self.child = self.child, None
        if child is not None:
            child.end()


def _lost(cause: str, output: str) -> RankError:
    return RankError(f"the process that all ranks come from {cause}", output)


def run_plan(path: str | Path, **asked: Any) -> Ran:
    """``run_split`` for a plan in a result file."""
    split = read_split(path)
    keys = document_keys(read_bytes(path), path)
    facts = msgspec.json.decode(bytes(keys["model"])) if "model" in keys else {}
    return run_split(split, str(path), operators=facts.get("operators"), planned=lambda: read_planned(path), **asked)


def run_split(
    split: Split,
    name: str,
    *,
    operators: int | None,
    planned: Callable[[], Planned],
    model: str | None = None,
    settings: Mapping[str, Any] | None = None,
    processes: int | None = None,
    microbatches: int | None = None,
    host: Host | None = None,
    **options: Any,
) -> Ran:
    """Run a plan on processes, and compare it with the model that is not split.

    Parameters
    ----------
    split, name
        What of the model each stage has, and what messages call the plan.
    operators
        How many the plan's graph has; None if that is not known.
    planned
        Gives the plan with its problem, for the simulator.
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
    if split.packed:
        raise InputError(
            f"{name} keeps frozen weights in {split.packed}, which runs here do not do; plan without --weights to run "
            "it"
        )
    times, batch = _numbers(split, processes, microbatches)
    job = RunJob(
        split=split,
        source=_source(name, split, model, settings or {}),
        operators=operators,
        times=times,
        microbatches=batch,
        **options,
    )
    with Host() if host is None else nullcontext(host) as place:
        answer = place.run(job)
    return Ran(job, answer, _simulation(planned, job))


def _source(name: str, split: Split, model: str | None, settings: Mapping[str, Any]) -> Source:
    known = split.source
    if known is None and model is None:
        raise InputError(f"{name} does not say how its model is made; name it with --model, for example hf:gpt2")
    given = {} if known is None else known.settings
    spec = model if model is not None else known.model if known is not None else ""
    return Source(model=spec, settings={**given, **settings}, training=split.training)


def _numbers(split: Split, processes: int | None, microbatches: int | None) -> tuple[int, int]:
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


def _simulation(planned: Callable[[], Planned], job: RunJob) -> Simulation | None:
    """What the simulator says of one copy of the plan."""
    try:
        found = planned()
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
