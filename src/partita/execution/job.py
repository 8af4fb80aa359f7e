"""What a run is asked for, and what comes back, as values that go between processes."""

from __future__ import annotations

import msgspec

from partita.ground.shown import brief
from partita.nouns.graph import Source
from partita.nouns.split import Split


class RunJob(msgspec.Struct, frozen=True, kw_only=True):
    """A run."""

    #: The plan in terms of the model, and how the model is made.
    split: Split
    source: Source
    operators: int | None = None  #: How many operators the model had that was planned; None if that is not known.
    #: Of the batch; the schedule, None for the plan's; data-parallel copies of the whole plan.
    microbatches: int = 1
    schedule: str | None = None
    times: int = 1
    #: Steps of training that are checked.
    steps: int = 1
    optimizer: str = "sgd"
    learning_rate: float = 1e-3
    repeats: int = 3  #: Batches that are timed after them.
    #: Of weights, inputs and draws; threads of a process; largest relative error.
    seed: int = 0
    threads: int = 1
    tolerance: float = 1e-4
    timeout_s: float = 20.0  #: Time without any progress after which a process counts as hanging.
    port: int | None = None  #: Of the store where processes meet; None for a file.

    __repr__ = brief


class Worker(msgspec.Struct, frozen=True, kw_only=True):
    """What one process measured."""

    #: The first of its stages, which replica of it, and both for people.
    stage: int
    replica: int
    name: str
    #: Wall time of every timed batch, and processor time, which other programs on the machine do not lengthen.
    step_s: list[float]
    processor_s: list[float]
    #: Of the last timed batch: (sort, start, end, stage, microbatch), seconds on one clock.
    slices: list[tuple[int, float, float, int, int]]
    peak_memory_bytes: int  #: Of tensors: weights, gradients, and the most that a batch holds beside them.
    weight_bytes: int  #: Parameters and buffers.


class RunAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What a run found."""

    workers: list[Worker]  #: Its processes.
    schedule: str  #: The schedule that ran.
    #: Relative errors by name.
    outputs: dict[str, float]
    gradients: dict[str, float]
    parameters: dict[str, float]
    buffers: dict[str, float]
    losses: dict[str, float]
    #: The same of the model that is not split.
    unsplit_s: list[float]
    unsplit_processor_s: list[float]
    edges: list[tuple[int, int]]  #: Pairs of stages of the run of which the first hands tensors to the second.
    #: Of a batch, and of a microbatch.
    microbatches: int
    samples: int
    notes: list[str] = []  #: What a reader should know.

    __repr__ = brief
