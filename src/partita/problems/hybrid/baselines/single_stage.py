"""The whole model on every device, or on one group of devices that split every layer."""

from __future__ import annotations

from collections.abc import Iterator

from partita.problems.hybrid.baselines.layouts import LaidOut, Layouts, StageRow, replica_degrees


def _replicas(layouts: Layouts) -> Iterator[list[StageRow]]:
    """One stage on every number of replicas of one device."""
    problem = layouts.problem
    for d in replica_degrees(problem, min(problem.devices, problem.microbatches)):
        yield [StageRow(0, len(layouts.order), d, 1)]


def _split(layouts: Layouts) -> Iterator[list[StageRow]]:
    """One stage without replicas, on every degree above 1."""
    for t in layouts.problem.degrees():
        if t > 1:
            yield [StageRow(0, len(layouts.order), 1, t)]


PURE_DATA_PARALLEL = LaidOut("pure data parallel", "the whole model on every device", _replicas)
PURE_TENSOR_PARALLEL = LaidOut(
    "pure tensor parallel",
    "every layer split over one group of devices",
    _split,
    without="no layer can be split over several of the devices",
)
