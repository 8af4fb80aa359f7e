"""A mapping problem of a pipeline that another problem's plan says; its devices are still to be said."""

from __future__ import annotations

from partita.problems.facets.pipeline import Pipeline
from partita.problems.mapping.problem import MappingProblem, Stage, Transfer


def from_pipeline(pipeline: Pipeline) -> MappingProblem:
    """The problem without bandwidths."""
    return MappingProblem(
        name=pipeline.name,
        replicas=pipeline.replicas,
        stages=tuple(
            Stage(name=stage.name, time_s=stage.time_s, parameter_bytes=stage.reduced_bytes)
            for stage in pipeline.stages
        ),
        transfers=tuple(Transfer(source=a, target=b, bytes=size) for a, b, size in pipeline.transfers),
        notes=pipeline.notes,
    )
