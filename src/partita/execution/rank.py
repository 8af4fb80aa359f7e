"""The life of one process of a run: meet the others, run the steps that are checked, then those that are timed."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from partita.engines.processes.forks import COMPUTING, DONE, WAITING
from partita.execution.job import RunJob, Worker
from partita.execution.model import Ready
from partita.execution.orders import Process
from partita.execution.reference import Results, copied, settled
from partita.execution.stages import StageRunner
from partita.inside.torch_inside import DispatchMode


def timed(repeats: int, batch: Callable[[], None], begin: Callable[[], None]) -> tuple[list[float], list[float]]:
    """Wall and processor time of batches, each after it was let begin."""
    times, processor = [], []
    for _ in range(repeats):
        begin()
        start, worked = time.perf_counter(), time.process_time()
        batch()
        times.append(time.perf_counter() - start)
        processor.append(time.process_time() - worked)
    return times, processor


def optimizer_of(job: RunJob, parameters: Iterable[Any]) -> Any:
    """The optimizer of a job; None where nothing is trained."""
    wanted = [p for p in parameters if p.requires_grad]
    if not wanted:
        return None
    if job.optimizer == "adam":
        # With the usual 1e-8, what has no gradient but rounding errors would move by a whole learning rate.
        return torch.optim.Adam(wanted, lr=job.learning_rate, eps=1e-5)
    return torch.optim.SGD(wanted, lr=job.learning_rate)


def work_as(process: Process, job: RunJob, ready: Ready, folder: Path, beat: Any) -> Worker:
    """Everything that a process does; what it computed is left in the folder."""
    torch.set_num_threads(job.threads)
    beat[1] = WAITING
    count = len(ready.orders.processes)
    store: Any
    if job.port is None:
        store = dist.FileStore(str(folder / "store"), count)
    else:
        store = dist.TCPStore("127.0.0.1", job.port, count, is_master=process.number == 0)
    dist.init_process_group("gloo", store=store, rank=process.number, world_size=count, timeout=timedelta(seconds=3600))
    beat[1] = COMPUTING
    worker = _run(job, ready, process, folder, beat)
    beat[1] = WAITING
    # Whoever leaves closes its connections, which others may still use.
    dist.barrier()
    beat[1] = DONE
    return worker


def _run(job: RunJob, ready: Ready, process: Process, folder: Path, beat: Any) -> Worker:
    training = job.split.training
    with settled(ready.module, training):
        stages = StageRunner(process, job, ready, beat)
        stages.record = results = Results()
        optimizer = optimizer_of(job, stages.parameters.values()) if training else None
        for step in range(job.steps):
            stages.step = step
            stages.run_batch()
            if step == 0 and training:
                results.gradients = copied((n, p.grad) for n, p in stages.parameters.items() if p.grad is not None)
            if optimizer is not None:
                stages.update(optimizer)
        results.parameters = copied(stages.parameters.items()) if training else {}
        results.buffers = copied(stages.buffers.items())
        torch.save(vars(results), folder / f"results{process.number}.pt")
        stages.record = None
        del results
        return _time(job, stages, optimizer, process)


def _time(job: RunJob, stages: StageRunner, optimizer: Any, process: Process) -> Worker:
    weights = [*stages.parameters.values(), *stages.buffers.values()]
    held = sum(array.numel() * array.element_size() for array in weights)

    def batch() -> None:
        stages.run_batch()
        if optimizer is not None:
            stages.update(optimizer)

    with Peak() as peak:
        batch()

    def begin() -> None:
        stages.slices.clear()
        dist.barrier()

    times, processor = timed(job.repeats, batch, begin)
    return Worker(
        stage=process.stages[0],
        replica=process.replica,
        name=process.label,
        step_s=times,
        processor_s=processor,
        slices=[tuple(piece) for piece in stages.slices],  # type: ignore[misc]
        peak_memory_bytes=held + peak.most_bytes,
        weight_bytes=held,
    )


#: Of ``struct mallinfo2``.
_FIELDS = ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")


class _Info(ctypes.Structure):
    """``struct mallinfo2`` of the GNU C library (mallinfo(3)): in use are ``uordblks`` and, mapped, ``hblkhd``."""

    _fields_ = [(name, ctypes.c_size_t) for name in _FIELDS]


def in_use() -> Callable[[], int]:
    """What says how many bytes are allocated; where the C library does not say, it is 0."""
    try:
        call = ctypes.CDLL(None).mallinfo2
    except (OSError, AttributeError):
        return lambda: 0
    call.restype = _Info

    def used() -> int:
        info = call()
        return int(info.uordblks + info.hblkhd)

    return used


class Peak(DispatchMode):
    """Within, ``most_bytes`` is the most that was allocated beyond what was there before."""

    def __init__(self) -> None:
        super().__init__()
        self.used = in_use()
        self.start = self.used()
        self.most_bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        self.most_bytes = max(self.most_bytes, self.used() - self.start)
        return out
