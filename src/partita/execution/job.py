"""What a run is asked for, and what comes back, as values that go between processes."""

from __future__ import annotations

import msgspec

from partita.nouns.graph import Source
from partita.nouns.split import Split


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A run.

    Attributes
    ----------
    split, source
        The plan in terms of the model, and how the model is made.
    operators
        How many operators the model had that was planned; None if that is not known.
    microbatches, schedule, times
        Of the batch; the schedule, None for the plan's; data-parallel copies of the whole plan.
    steps, optimizer, learning_rate
        Steps of training that are checked.
    repeats
        Batches that are timed after them.
    seed, threads, tolerance
        Of weights, inputs and draws; threads of a process; largest relative error.
    timeout_s
        Time without any progress after which a process counts as hanging.
    port
        Of the store where processes meet; None for a file.
    """

    split: Split
    source: Source
    operators: int | None = None
    microbatches: int = 1
    schedule: str | None = None
    times: int = 1
    steps: int = 1
    optimizer: str = "sgd"
    learning_rate: float = 1e-3
    repeats: int = 3
    seed: int = 0
    threads: int = 1
    tolerance: float = 1e-4
    timeout_s: float = 20.0
    port: int | None = None


class Worker(msgspec.Struct, frozen=True, kw_only=True):
    """What one process measured.

    Attributes
    ----------
    stage, replica, name
        The first of its stages, which replica of it, and both for people.
    step_s, processor_s
        Wall time of every timed batch, and processor time, which other programs on the machine do not lengthen.
    slices
        Of the last timed batch: (sort, start, end, stage, microbatch), seconds on one clock.
    peak_memory_bytes
        Of tensors: weights, gradients, and the most that a batch holds beside them.
    weight_bytes
        Parameters and buffers.
    """

    stage: int
    replica: int
    name: str
    step_s: list[float]
    processor_s: list[float]
    slices: list[tuple[int, float, float, int, int]]
    peak_memory_bytes: int
    weight_bytes: int


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What a run found.

    Attributes
    ----------
    workers
        Its processes.
    schedule
        The schedule that ran.
    outputs, gradients, parameters, buffers, losses
        Relative errors by name.
    unsplit_s, unsplit_processor_s
        The same of the model that is not split.
    edges
        Pairs of stages of the run of which the first hands tensors to the second.
    microbatches, samples
        Of a batch, and of a microbatch.
    notes
        What a reader should know.
    """

    workers: list[Worker]
    schedule: str
    outputs: dict[str, float]
    gradients: dict[str, float]
    parameters: dict[str, float]
    buffers: dict[str, float]
    losses: dict[str, float]
    unsplit_s: list[float]
    unsplit_processor_s: list[float]
    edges: list[tuple[int, int]]
    microbatches: int
    samples: int
    notes: list[str] = []
