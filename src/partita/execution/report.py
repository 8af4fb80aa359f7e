"""What a run says: as plain values, for people, and as a time line."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from partita.documents.tables.text import new_table, paragraphs
from partita.execution.job import RunAnswer, Worker
from partita.execution.run import Ran, predicted_s
from partita.ground.units import format_bytes, format_time
from partita.simulator.timeline import BACKWARD, COPY_IN, FORWARD, INPUT, SORTS, Lane, Timeline

if TYPE_CHECKING:
    from rich.console import RenderableType


def worst(ran: Ran) -> dict[str, tuple[float, str] | None]:
    """The largest error of everything that is compared, and of what; None where there is nothing of it."""
    return {
        name: max(((error, what) for what, error in table.items()), default=None)
        for name, table in _compared(ran.answer).items()
    }


def _compared(answer: RunAnswer) -> dict[str, dict[str, float]]:
    tables = (answer.outputs, answer.gradients, answer.parameters, answer.buffers, answer.losses)
    return dict(zip(("output", "gradient", "parameter", "buffer", "loss"), tables, strict=True))


def verified(ran: Ran) -> bool:
    """Whether something was compared, and everything that was agrees."""
    found = worst(ran)
    if found["output"] is None and found["loss"] is None:
        return False
    return all(entry is None or entry[0] <= ran.job.tolerance for entry in found.values())


def measured_s(answer: RunAnswer) -> float:
    """Time of a batch: the middle of those that were timed, each as long as its slowest process."""
    rows = [worker.step_s for worker in answer.workers]
    return float(statistics.median(max(times) for times in zip(*rows, strict=True)))


def run_document(ran: Ran) -> dict[str, Any]:
    """A run as plain values; seconds and bytes."""
    answer, found = ran.answer, worst(ran)
    simulated = [] if ran.simulation is None or ran.job.times > 1 else list(ran.simulation.uses)
    devices = [_device(answer, worker) for worker in answer.workers]
    if len(simulated) == len(devices):
        for entry, use in zip(devices, simulated, strict=True):
            entry["predicted"] = {"busy_s": use.busy, "peak_memory_bytes": use.peak_memory_bytes}
    return {
        "verified": verified(ran),
        "tolerance": ran.job.tolerance,
        **{f"worst_{name}_error": None if entry is None else _finite(entry[0]) for name, entry in found.items()},
        "worst": {name: None if entry is None else entry[1] for name, entry in found.items()},
        "compared": {"outputs": len(answer.outputs), "gradients": len(answer.gradients)},
        "step_time_s": {
            "measured": measured_s(answer),
            "predicted": predicted_s(ran),
            "unsplit": statistics.median(answer.unsplit_s),
        },
        "processor_time_s": {
            "largest": max(statistics.median(worker.processor_s) for worker in answer.workers),
            "unsplit": statistics.median(answer.unsplit_processor_s),
        },
        "schedule": answer.schedule,
        "microbatches": answer.microbatches,
        "microbatch_samples": answer.samples,
        "processes": len(answer.workers),
        "threads": ran.job.threads,
        "steps": ran.job.steps if ran.job.split.training else 1,
        "model": ran.job.source,
        "devices": devices,
        "notes": answer.notes,
    }


def _finite(error: float) -> float | None:
    """JSON has no infinity; what was not made at all has no error."""
    return error if np.isfinite(error) else None


def _device(answer: RunAnswer, worker: Worker) -> dict[str, Any]:
    busy = sum(end - start for sort, start, end, *_ in worker.slices if SORTS[sort].work)
    exposed = _exposed(answer, worker)
    return {
        "name": worker.name,
        "stage": worker.stage,
        "replica": worker.replica,
        "busy_s": busy,
        "communication_exposed_s": exposed,
        "idle_s": max(0.0, worker.step_s[-1] - busy - exposed),
        "peak_memory_bytes": worker.peak_memory_bytes,
        "weight_bytes": worker.weight_bytes,
        "predicted": None,
    }


def _exposed(answer: RunAnswer, worker: Worker) -> float:
    """Time that a process waits for data after it has been made; waiting for somebody's work is no communication."""
    ready: dict[tuple[int, int, bool], float] = {}
    for other in answer.workers:
        for sort, _, end, stage, microbatch in other.slices:
            if sort in (FORWARD, BACKWARD, INPUT):
                ready[stage, microbatch, sort != FORWARD] = end
    total = 0.0
    own = worker.slices
    for place, (sort, start, end, stage, microbatch) in enumerate(own):
        if SORTS[sort].work:
            continue
        made = start
        if sort == COPY_IN:
            back = own[place + 1][0] != FORWARD
            sources = [b for a, b in answer.edges if a == stage] if back else [a for a, b in answer.edges if b == stage]
            made = max((ready.get((source, microbatch, back), start) for source in sources), default=start)
        total += max(0.0, end - max(start, made))
    return total


def measured_timeline(ran: Ran) -> Timeline:
    """The last timed batch of all processes as a time line, like that of a simulation."""
    answer = ran.answer
    rows = [(number, *piece) for number, worker in enumerate(answer.workers) for piece in worker.slices]
    first = min((row[2] for row in rows), default=0.0)
    table = np.array(rows, dtype=np.float64).reshape(-1, 6)
    names = tuple(worker.name for worker in answer.workers)
    done = {
        (int(row[4]), int(row[5]), row[1] == FORWARD): place
        for place, row in enumerate(rows)
        if row[1] in (FORWARD, BACKWARD, INPUT)
    }
    flows = [
        (done[a, m, forward], done[b, m, forward])
        for (x, y) in answer.edges
        for m in range(answer.microbatches)
        for a, b, forward in ((x, y, True), (y, x, False))
        if (a, m, forward) in done and (b, m, forward) in done
    ]
    return Timeline(
        name=f"{ran.job.split.model}, measured",
        unit="s",
        devices=names,
        lanes=tuple(Lane(number, name, "compute") for number, name in enumerate(names)),
        start=table[:, 2] - first,
        end=table[:, 3] - first,
        lane=table[:, 0].astype(np.int64),
        sort=table[:, 1].astype(np.int64),
        stage=table[:, 4].astype(np.int64),
        microbatch=table[:, 5].astype(np.int64),
        names=(),
        cause=np.full(len(rows), -1, dtype=np.int64),
        flows=np.array(flows, dtype=np.int64).reshape(-1, 2),
    )


def run_tables(ran: Ran) -> Sequence[RenderableType]:
    """A run for people."""
    document, answer = run_document(ran), ran.answer
    table = new_table(
        "Processes", (), "process", ("works", "exposed communication", "waits", "peak memory", "simulated")
    )
    for entry in document["devices"]:
        predicted = entry["predicted"]
        table.add_row(
            entry["name"],
            format_time(entry["busy_s"]),
            format_time(entry["communication_exposed_s"]),
            format_time(entry["idle_s"]),
            format_bytes(entry["peak_memory_bytes"]),
            "–" if predicted is None else f"works {format_time(predicted['busy_s'])}",
        )
    errors = new_table("Against the model that is not split", (), "", ("compared", "largest relative error", "of"))
    for (name, entry), values in zip(worst(ran).items(), _compared(answer).values(), strict=True):
        if entry is not None:
            errors.add_row(name, str(len(values)), f"{entry[0]:.1e}", entry[1])
    times = document["step_time_s"]
    simulated = (
        "" if times["predicted"] is None else f"; simulated on the planned devices {format_time(times['predicted'])}"
    )
    sentences = [
        f"{answer.microbatches} microbatches of {answer.samples} samples take {format_time(times['measured'])} under "
        f"schedule {answer.schedule}, {times['unsplit'] / times['measured']:.2f} times as fast as the model in one "
        f"process ({format_time(times['unsplit'])}){simulated}",
        f"{'verified' if document['verified'] else 'NOT verified'}: relative tolerance {ran.job.tolerance:g}",
    ]
    return [table, errors, paragraphs("The batch", sentences), paragraphs("Notes", answer.notes)]
