"""Throughput plans as programs for the simulator.

Inference streams through the plan's virtual stages in rounds, whatever the split. Training in a row of stages runs
under the problem's schedule; where a training split is free, its virtual stages stream in rounds, too. What transfers
take of a device is what the problem's ``communication`` says.
"""

from __future__ import annotations

from partita.ground.errors import InputError
from partita.problems.facets.timeline import RunRequest
from partita.problems.throughput.lowered import lowered
from partita.problems.throughput.rounds import in_rounds
from partita.problems.throughput.running import Run
from partita.simulator.program import Program
from partita.simulator.schedules import find_schedule
from partita.simulator.stages import staged_program


def program_of(run: Run, request: RunRequest) -> Program:
    """What happens when a plan runs as asked.

    Raises
    ------
    InputError
        If it cannot run so.
    """
    run, problem, name = run.asked(request), run.problem, request.schedule
    if name is None and (not problem.training or run.order is None):
        return in_rounds(run)
    if name == "forward" and not problem.training and request.chunks in (None, 1):
        return in_rounds(run)
    if run.order is None:
        raise InputError(
            f"schedule {name} runs stages in a row, but in this split they wait for each other in a circle; "
            "leave --schedule out: virtual stages run in rounds"
        )
    schedule = find_schedule(name or ("gpipe" if problem.schedule.name == "gpipe" else "1f1b"))
    return staged_program(
        lowered(run),
        schedule,
        run.microbatches,
        chunks=request.chunks,
        contention=request.contention,
        interval=request.interval,
    )
