"""One of the processes that profile a model: asked with a ``Job`` and its rank, it answers with a ``Report``."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import torch
import torch.distributed as dist

from partita.costs.profile import Hardware, MessageTime
from partita.engines.processes.serving import serve
from partita.execution.inputs import Inputs
from partita.frontends.models import load_module
from partita.frontends.options import parse_dtype
from partita.frontends.records import DispatchedCall
from partita.frontends.tape import Tape
from partita.frontends.torch import trace_calls
from partita.inside.torch_inside import tree_map
from partita.nouns.graph import Graph, Source
from partita.profiler.hardware import best_rates, describe, device_name, memory_bytes
from partita.profiler.links import time_messages
from partita.profiler.steps import Observed, TimedStep, observe
from partita.profiler.timing import calibrated_clock

if TYPE_CHECKING:
    from partita.frontends.torch import BuiltModel


@dataclass(frozen=True)
class Job:
    """What the processes do."""

    source: Source  #: How the model is made.
    #: As ``partita.costs.profile.ProfileSettings`` has them.
    processes: int
    threads: int
    warm_up: int
    repeats: int
    device: str  #: ``cpu`` or ``cuda``.
    folder: str  #: Where the processes meet.


@dataclass(frozen=True)
class Report:
    """What one process saw; the first one also says what the model and the machine are."""

    observed: Observed
    graph: Graph | None = None
    places: list[int | None] | None = None
    events: list[DispatchedCall] | None = None
    hardware: Hardware | None = None
    memory_bytes: int = 0
    device_name: str = ""
    rates: tuple[float, float] = (0.0, 0.0)
    transfers: tuple[MessageTime, ...] = ()


def work(job: Job, rank: int) -> Report:
    """Profile beside the other processes."""
    torch.set_num_threads(job.threads)
    torch.manual_seed(0)
    if job.device != "cpu":
        torch.cuda.set_device(rank % torch.cuda.device_count())
    together = _meet(job, rank)
    model = load_module(job.source, seed=0)
    training = job.source.training
    tape = Tape()
    graph, capture, calls = trace_calls(
        model.module, model.args, model.kwargs, training, model.name, model.dtype, tape, keep_events=True
    )
    inputs = Inputs(tape, model.args, model.kwargs, seed=0)
    step = TimedStep(*_ready(model, inputs, job.device), training)
    clock = calibrated_clock(job.device, job.threads)
    seen = observe(step, clock, warm_up=job.warm_up, repeats=job.repeats, alone=partial(_alone, job, rank, together))
    rates = best_rates(job.device, together)
    transfers = time_messages(rank, _link_device(job)) if job.processes > 1 else []
    if rank:
        return Report(seen, rates=rates)
    return Report(
        seen,
        graph,
        [None if call is None else capture.calls[call].event for call in calls],
        capture.events,
        hardware=describe(),
        memory_bytes=memory_bytes(job.device),
        device_name=device_name(job.device, job.threads),
        rates=rates,
        transfers=tuple(transfers),
    )


def _ready(model: BuiltModel, inputs: Inputs, device: str) -> tuple[Any, Any, Any]:
    """Module and arguments with data, on the device and in the number format that was asked for."""
    dtype = None if model.dtype is None else parse_dtype(model.dtype)
    args, kwargs = inputs.arguments(inputs.of(0))

    def ready(given: Any, like: Any) -> Any:
        if not isinstance(given, torch.Tensor):
            return given
        return given.to(device, (dtype or like.dtype) if like.is_floating_point() else None)

    arguments = tree_map(ready, (args, kwargs), (tuple(model.args), dict(model.kwargs)))
    return model.module.to(device, dtype), *arguments


def _meet(job: Job, rank: int) -> Callable[[], None]:
    """Join the other processes; returns what waits for them all."""
    if job.processes == 1:
        return lambda: None

    dist.init_process_group(
        "gloo" if _link_device(job) == "cpu" else "nccl",
        store=dist.FileStore(str(Path(job.folder) / "store"), job.processes),
        rank=rank,
        world_size=job.processes,
        timeout=datetime.timedelta(minutes=10),
    )
    return lambda: dist.barrier()


@contextmanager
def _alone(job: Job, rank: int, together: Callable[[], None]) -> Iterator[None]:
    """The processes take turns: each waits for those before it, and lets the others work afterwards."""
    for _ in range(rank + 1):
        together()
    yield
    for _ in range(job.processes - rank - 1):
        together()


def _link_device(job: Job) -> str:
    """Where messages are: on the GPUs only if every process has one of its own."""
    return job.device if job.device != "cpu" and torch.cuda.device_count() >= job.processes else "cpu"


def main() -> NoReturn:
    """Work for whoever asks."""
    serve(lambda request: work(*request.content))
