"""The process that a run's processes come from: it builds the model once, and they are forked from it.

Nothing here computes on more than one thread, because threads do not survive a fork.
"""

from __future__ import annotations

import contextlib
import math
import os
import socket
import sys
import tempfile
from collections.abc import Hashable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import torch

from partita.engines.processes.forks import Fork, end_all, watch
from partita.engines.processes.serving import Request, serve
from partita.execution.draws import seeder
from partita.execution.job import RunAnswer, RunJob, Worker
from partita.execution.model import Ready, prepare
from partita.execution.rank import optimizer_of, timed, work_as
from partita.execution.reference import Results, copied, run_microbatch, run_reference, settled
from partita.frontends.run import loss_of
from partita.ground.errors import InputError, RankError


def main() -> NoReturn:
    """Take jobs until there are no more."""
    torch.set_num_threads(1)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    serve(_answer, forks=True)


def _answer(request: Request) -> RunAnswer:
    with tempfile.TemporaryDirectory(prefix="partita-run-") as folder:
        return _run(request.content[0], Path(folder))


def _run(job: RunJob, folder: Path) -> RunAnswer:
    if job.port is not None:
        _check_port(job.port)
    ready = prepare(job)
    forks: list[Fork] = []
    try:
        for process in ready.orders.processes:
            work = partial(work_as, process, job, ready, folder)
            forks.append(Fork(process.label, work, folder / f"worker{process.number}"))
    except BaseException:
        end_all(forks)
        raise
    for fork in forks:
        print(f"partita: {fork.name} is process {fork.pid}", file=sys.stderr, flush=True)
    workers = watch(forks, job.timeout_s, remedy="; see --timeout", lost=RankError)
    whole = Fork("the model that is not split", partial(_run_unsplit, job, ready, folder), folder / "unsplit")
    # A call may take as long as it takes: nobody waits for it.
    (times,) = watch([whole], float("inf"), job.timeout_s, lost=RankError)
    return _compare(job, ready, folder, workers, *times)


def _check_port(port: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind(("127.0.0.1", port))
        except OSError as error:
            raise InputError(
                f"port {port} cannot be used ({error.strerror}); leave --port out, or give one that is free"
            ) from None


# -- the model that is not split --------------------------------------------------------------------------------------


def _run_unsplit(job: RunJob, ready: Ready, folder: Path, beat: Any) -> tuple[list[float], list[float]]:
    """How long the whole model takes; its results are left in the folder."""
    torch.set_num_threads(job.threads)
    module, training = ready.module, job.split.training
    buffers = copied(module.named_buffers())
    counts = sorted({*ready.orders.replicas} - {1})
    weights: list[dict[str, Any]] = []
    results = run_reference(
        module,
        ready.inputs,
        range(job.microbatches),
        training=training,
        steps=job.steps,
        optimizer=partial(optimizer_of, job),
        seed=job.seed,
        random_calls=ready.draws,
        weights=weights,
    )
    # Replicas see a part of the microbatches each, and so do their running statistics.
    shares = {
        (count, replica): _buffers_of(job, ready, buffers, weights, range(replica, job.microbatches, count))
        for count in (counts if buffers and training else ())
        for replica in range(count)
    }
    torch.save((vars(results), shares), folder / "unsplit.pt")
    return _time_unsplit(job, ready)


def _buffers_of(
    job: RunJob, ready: Ready, before: dict[str, Any], weights: list[dict[str, Any]], microbatches: range
) -> dict[str, Any]:
    """Buffers after all steps over some microbatches only, with the weights of every step."""
    with torch.no_grad():
        for name, buffer in ready.module.named_buffers():
            buffer.copy_(before[name])
    with settled(ready.module, job.split.training), torch.no_grad():
        for step in range(job.steps):
            for name, parameter in ready.module.named_parameters():
                parameter.copy_(weights[step][name])
            for number in microbatches:
                tensors = ready.inputs.of(number)
                run_microbatch(ready.module, ready.inputs, tensors, seeder(job.seed + step, number), ready.draws)
    return copied(ready.module.named_buffers())


def _time_unsplit(job: RunJob, ready: Ready) -> tuple[list[float], list[float]]:
    """Batches of the whole model, timed but for the first; draws are not seeded one by one, which takes time."""
    training, module = job.split.training, ready.module
    data = [ready.inputs.of(number) for number in range(job.microbatches)]
    optimizer = optimizer_of(job, module.parameters()) if training else None

    def batch() -> None:
        with contextlib.nullcontext() if training else torch.inference_mode():
            for place, tensors in enumerate(data):
                out = run_microbatch(module, ready.inputs, tensors, seeder(job.seed, place), random_calls=False)
                if training:
                    (loss_of(out)[0] / job.microbatches).backward()
        if optimizer is not None:
            optimizer.step()
            optimizer.zero_grad()

    with settled(module, training):
        batch()
        return timed(job.repeats, batch, lambda: None)


# -- comparison -------------------------------------------------------------------------------------------------------

#: The error of a tensor is its largest difference, relative to its largest entry. Where that is below this share of the
#: largest of its kind (all gradients, all parameters), the share takes its place: that is what float32 resolves of sums
#: whose parts are as large as the largest.
SMALLEST = 1e-3


def errors(
    found: Mapping[Any, Any], wanted: Mapping[Any, Any], among: Mapping[Any, Any] | None = None
) -> dict[Any, float]:
    """The error of every tensor that is in either; infinite where it is in one of the two, or not finite in one.

    ``among`` are all tensors of the kind, if ``wanted`` are some of them.
    """
    largest = max((_size(tensor) for tensor in (wanted if among is None else among).values()), default=0.0)
    answer: dict[Hashable, float] = {}
    for name in dict.fromkeys([*wanted, *found]):
        if name not in found or name not in wanted or found[name].shape != wanted[name].shape:
            answer[name] = math.inf
            continue
        scale = max(_size(wanted[name]), SMALLEST * largest)
        answer[name] = _difference(found[name], wanted[name]) / (scale or 1.0)
    return answer


def _size(tensor: Any) -> float:
    if not tensor.numel():
        return 0.0
    values = tensor.double().abs() if not tensor.is_complex() else tensor.abs().double()
    values = values[values.isfinite()]
    return float(values.max()) if values.numel() else 0.0


def _difference(a: Any, b: Any) -> float:
    """The largest difference; entries that are equal differ by nothing, also where they are not finite."""
    if not a.numel():
        return 0.0
    same = (a == b) | (a.isnan() & b.isnan()) if a.is_floating_point() else a == b
    if bool(same.all()):
        return 0.0
    apart = (a[~same].double() - b[~same].double()).abs() if not a.is_complex() else (a - b)[~same].abs().double()
    return float(apart.max()) if bool(apart.isfinite().all()) else math.inf


def _compare(
    job: RunJob, ready: Ready, folder: Path, workers: list[Worker], times: list[float], processor: list[float]
) -> RunAnswer:
    wanted, shares = torch.load(folder / "unsplit.pt", weights_only=False)
    whole = Results(**wanted)
    outputs: dict[Any, Any] = {}
    losses: dict[Any, Any] = {}
    worst: dict[str, dict[str, float]] = {"gradients": {}, "parameters": {}, "buffers": {}}
    for process in ready.orders.processes:
        found = Results(**torch.load(folder / f"results{process.number}.pt", weights_only=False))
        outputs |= found.outputs
        losses |= {key: torch.tensor(value, dtype=torch.float64) for key, value in found.losses.items()}
        count = ready.orders.replicas[process.group]
        for sort, total in worst.items():
            own, mine = getattr(found, sort), getattr(whole, sort)
            if sort == "buffers" and count > 1 and shares:
                mine = shares[count, process.replica]
            for name, error in errors(own, {name: mine[name] for name in own if name in mine}, mine).items():
                total[name] = max(total.get(name, 0.0), error)
    worst["gradients"] |= {name: float("inf") for name in whole.gradients if name not in worst["gradients"]}
    known = {key: torch.tensor(value, dtype=torch.float64) for key, value in whole.losses.items()}
    made = {place for _, place in outputs}
    return RunAnswer(
        workers=workers,
        schedule=ready.orders.schedule,
        outputs=_named(
            "output {1} of microbatch {0}",
            errors(outputs, {key: t for key, t in whole.outputs.items() if key[1] in made}),
        ),
        **worst,
        losses=_named("microbatch {1} in step {0}", errors(losses, known)),
        unsplit_s=times,
        unsplit_processor_s=processor,
        edges=[(source, target) for target, piece in enumerate(ready.pieces) for source in sorted(piece.receives)],
        microbatches=job.microbatches,
        samples=ready.samples,
        notes=ready.notes,
    )


def _named(what: str, found: dict[Any, float]) -> dict[str, float]:
    return {what.format(*key): error for key, error in found.items()}
