"""A plan as a pipeline of stages: what one problem says of its plan so that another can place it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PipelineStage:
    """A stage; times and bytes are of one optimizer step (or of one sample, without training) of one replica.

    Attributes
    ----------
    name
        For people.
    time_s
        What it computes.
    reduced_bytes
        What its replicas reduce among them.
    """

    name: str
    time_s: float
    reduced_bytes: float


@dataclass(frozen=True)
class Pipeline:
    """Stages with as many replicas each.

    Attributes
    ----------
    name
        Of what it was made from.
    replicas
        Of every stage.
    stages
        By place.
    transfers
        (source, target, bytes): what a replica of one stage sends to one of another.
    notes
        What a reader should know about how it was made.
    """

    name: str
    replicas: int
    stages: tuple[PipelineStage, ...]
    transfers: tuple[tuple[int, int, float], ...]
    notes: tuple[str, ...] = ()
