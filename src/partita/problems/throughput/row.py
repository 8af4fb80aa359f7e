"""A row of units that stages are runs of: what runtimes with a row of blocks can run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

import msgspec
import numpy as np

from partita.ground.errors import InputError
from partita.nouns.pipeline import Plan


class UnitRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Stages are runs of units, in the order of the row, all with equally many replicas."""

    #: Ids of the operators of every unit, forward and backward; each operator is in one.
    units: tuple[tuple[int, ...], ...]
    #: Pairs of units (places in ``units``): what the first hands to the second must not pass over a stage.
    handed: tuple[tuple[int, int], ...] = ()
    hosts_first: bool = False  #: Whether only the first stage may be on devices that are no accelerators.


def check_row(where: str, row: UnitRow, known: Sequence[int]) -> None:
    """Refuse a row of which an operator with these ids is in no unit or in two, or a pair names no units in order."""
    listed = [identity for unit in row.units for identity in unit]
    if sorted(listed) != sorted(known):
        wrong = sorted(set(known) ^ set(listed)) or sorted({v for v in listed if listed.count(v) > 1})
        raise InputError(f"{where}: the units of its row hold every operator once; operator {wrong[0]} is not")
    if not all(row.units):
        raise InputError(f"{where}: unit {row.units.index(())} of its row has no operators; leave it out")
    for first, last in row.handed:
        if not 0 <= first < last < len(row.units):
            raise InputError(f"{where}: units {first} and {last} of its row are no pair of units in order")


def row_violations(
    row: UnitRow, plan: Plan, stage_of: Mapping[int, int], position: Sequence[int], hosts: Set[str]
) -> list[str]:
    """What of a plan is no split of the row.

    ``stage_of`` has the stage of every operator by id, ``position`` the place of every stage in the pipeline; ``hosts``
    are names of the device kinds that are no accelerators.
    """
    found = []
    homes: list[int] = []
    for number, unit in enumerate(row.units):
        stages = {stage_of[identity] for identity in unit}
        if len(stages) > 1:
            shown = ", ".join(map(str, sorted(stages)))
            found.append(f"unit {number} of the row is on stages {shown}; units are whole")
        homes.append(position[min(stages)])
    # Places of those stages that hold anything, without gaps.
    ranks = np.unique(homes, return_inverse=True)[1]
    for number in range(1, len(homes)):
        if ranks[number] not in (ranks[number - 1], ranks[number - 1] + 1):
            found.append(f"unit {number} of the row is not on the stage of the unit before it, nor on the next one")
    found += [
        f"what unit {first} of the row hands to unit {last} passes over a stage"
        for first, last in row.handed
        if ranks[last] > ranks[first] + 1
    ]
    first = position[stage_of[row.units[0][0]]]
    for stage, at in zip(plan.stages, position, strict=True):
        if row.hosts_first and stage.kind in hosts and stage.operators and at != first:
            found.append(f"{stage.devices[0]} is no accelerator, and runs more than the begin of the row")
    counts = {len(stage.devices) for stage in plan.stages}
    if len(counts) > 1:
        shown = ", ".join(map(str, sorted(counts)))
        found.append(f"the stages have {shown} replicas; those of a row have equally many")
    return found
