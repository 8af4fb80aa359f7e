"""Pipelines on topologies that are too large to try everything, with numbers drawn at random."""

from __future__ import annotations

import random

import numpy as np

from partita.nouns.topology import topology
from partita.problems.mapping.problem import Form, MappingProblem, MappingStage, MappingTransfer

__all__ = ["heavy_ring", "pipeline_on"]


def pipeline_on(where: str, stages: int, replicas: int, seed: int, form: Form = "both") -> MappingProblem:
    """A chain with a skip connection on a topology, where links take longer than computing."""
    draw = random.Random(seed)
    matrix = topology(where).bandwidth_bytes_per_s.copy()
    np.fill_diagonal(matrix, 0.0)
    pairs = [(s, s + 1) for s in range(stages - 1)] + ([(0, 2)] if stages > 2 else [])
    return MappingProblem(
        name=f"{stages}x{replicas} on {where}, {seed}",
        replicas=replicas,
        stages=tuple(
            MappingStage(name=f"s{s}", time_s=draw.uniform(0.0, 1e-3), parameter_bytes=draw.uniform(0, 1e8))
            for s in range(stages)
        ),
        transfers=tuple(MappingTransfer(source=a, target=b, bytes=draw.uniform(1e6, 1e8)) for a, b in pairs),
        bandwidth_bytes_per_s=tuple(map(tuple, matrix.tolist())),
        form=form,
    )


def heavy_ring(where: str, stages: int, replicas: int) -> MappingProblem:
    """A chain in which the second stage has a ring that counts most."""
    base = pipeline_on(where, stages, replicas, 0)
    return base.replace(
        stages=tuple(
            MappingStage(name=f"s{s}", time_s=0.0, parameter_bytes=1e9 if s == 1 else 1e7) for s in range(stages)
        ),
        transfers=tuple(MappingTransfer(source=s, target=s + 1, bytes=2e8) for s in range(stages - 1)),
    )
