"""The mapping problem: replicas of pipeline stages on physical devices, one each.

Source: Liu, Liu, Bentian and Young, "Parmesan: Efficient Partitioning and Mapping Flow for DNN Training on General
Device Topology", §V. The paper searches with one of two easy forms of the objective; the form ``both`` has both terms.
"""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import msgspec

from partita.ground.checks import check_at_least, check_fields, check_number, check_positive
from partita.ground.errors import InputError
from partita.ground.shown import brief
from partita.nouns.machines import AlikeMachines, MachineCounts
from partita.problems.kind import Stated

#: What the time of a replica holds beside its own: transfers and all-reduce, or only one of them.
Form = Literal["both", "point-to-point", "all-reduce"]


class MappingStage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One stage of the pipeline, of which every replica has a device."""

    name: str  #: For people.
    time_s: float | None = None  #: What a replica takes beside communication; None where ``times_s`` says it.
    parameter_bytes: float = 0.0  #: What the replicas of the stage reduce among them.
    #: The same by device, for devices of different speeds; None where all are alike.
    times_s: tuple[float, ...] | None = None
    replicas: int | None = None  #: Of this stage; None for as many as the problem says.


class MappingTransfer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one stage sends to another, replica r to replica r; stages by their place, counted from 0.

    Where stages have different numbers of replicas, microbatches take turns: microbatch m is that of replica m modulo
    the stage's number at either end, and ``bytes`` times the problem's replicas are all that the two stages exchange.
    """

    source: int
    target: int
    bytes: float


class Placement(msgspec.Struct, frozen=True, kw_only=True):
    """A mapping: the device of every replica."""

    placement: tuple[tuple[int, ...], ...]  #: By stage, then by replica, the number of the device.

    __repr__ = brief


class MappingProblem(Stated, frozen=True, kw_only=True):
    """Place every replica of every stage on a device of its own, and let the slowest replica be as fast as possible.

    ``partita.problems.mapping.evaluate`` says what a replica takes.

    Raises
    ------
    InputError
        If a value is negative or not finite, a transfer names no stage, a bandwidth is not positive, a list has
        another length than there are devices, or these are said twice.
    """

    kind: ClassVar[str] = "mapping"
    format: ClassVar[str] = "partita.mapping"

    name: str = "mapping"
    replicas: int  #: Of each stage that does not state its own number.
    stages: tuple[MappingStage, ...]
    transfers: tuple[MappingTransfer, ...] = ()  #: Two stages may exchange several.
    #: From each device (row) to each (column), above 0; the diagonal means nothing and may be None. Empty in a file
    #: whose devices are still to be said, with ``--topology``.
    bandwidth_bytes_per_s: tuple[tuple[float | None, ...], ...] = ()
    #: The same of devices that are counted: machines that are alike, in the order of their devices. Instead of a
    #: matrix, which would be too large.
    machines: tuple[AlikeMachines, ...] = ()
    devices: tuple[str, ...] = ()  #: Their names; empty for numbers.
    form: Form = "both"  #: Which terms the time of a replica has.

    def __post_init__(self) -> None:
        where = f"problem {self.name!r}"
        check_at_least(f"{where}: replicas", self.replicas)
        if not self.stages:
            raise InputError(f"{where} has no stages; give at least one")
        if self.machines and self.bandwidth_bytes_per_s:
            raise InputError(f"{where} has machines, and bandwidth_bytes_per_s beside them; state one of the two")
        for number, entry in enumerate(self.machines):
            entry.check(f"{where}: machines: entry {number}")
        count = self.device_count
        for number, stage in enumerate(self.stages):
            _check_stage(f"{where}: stage {number} ({stage.name!r})", stage, count)
        for number, transfer in enumerate(self.transfers):
            owner = f"{where}: transfer {number}"
            for end in (transfer.source, transfer.target):
                if not 0 <= end < len(self.stages):
                    raise InputError(f"{owner}: there is no stage {end}; stages are 0 to {len(self.stages) - 1}")
            if transfer.source == transfer.target:
                raise InputError(f"{owner} leads from stage {transfer.source} to itself; leave it out")
            check_fields(owner, transfer, "bytes")
        if self.devices and len(self.devices) != count:
            raise InputError(f"{where} names {len(self.devices)} devices, and the bandwidths are of {count}")
        for source, row in enumerate(self.bandwidth_bytes_per_s):
            if len(row) != count:
                raise InputError(
                    f"{where}: bandwidth_bytes_per_s: row {source} has {len(row)} entries; the matrix is square, with "
                    f"{count} rows"
                )
            for target, bandwidth in enumerate(row):
                # There are many: the words are made for those that are refused.
                if source != target and not (bandwidth is not None and 0 < bandwidth < math.inf):
                    what = f"bandwidth from device {source} to device {target}"
                    check_positive(where, what, math.nan if bandwidth is None else bandwidth)

    @property
    def links(self) -> MachineCounts:
        """The links of counted machines."""
        return MachineCounts(self.machines)

    @property
    def device_count(self) -> int:
        """Devices that there are; 0 where they are still to be said."""
        return len(self.bandwidth_bytes_per_s) or self.links.device_count

    @property
    def counts(self) -> tuple[int, ...]:
        """Replicas of every stage."""
        return tuple(self.replicas if stage.replicas is None else stage.replicas for stage in self.stages)

    @property
    def used(self) -> int:
        """Devices that a plan uses."""
        return sum(self.counts)

    def exchanges(self) -> list[list[list[tuple[int, int, float]]]]:
        """By stage and replica: stage and replica at the other end, and bytes, transfer by transfer.

        There are none in the form ``all-reduce``.
        """
        counts = self.counts
        found: list[list[list[tuple[int, int, float]]]] = [[[] for _ in range(count)] for count in counts]
        for one in self.transfers if self.form != "all-reduce" else ():
            a, b = counts[one.source], counts[one.target]
            turns = math.lcm(a, b)
            size = one.bytes if turns == self.replicas else one.bytes * self.replicas / turns
            for m in range(turns):
                found[one.source][m % a].append((one.target, m % b, size))
                found[one.target][m % b].append((one.source, m % a, size))
        return found

    def shortage(self) -> str | None:
        """What is missing for a plan; None if there are devices enough, with which there always is one."""
        have = self.device_count
        if have >= self.used:
            return None
        even = len(set(self.counts)) == 1
        what = f"{len(self.stages)} stages of {self.counts[0]} replicas" if even else "the replicas of all stages"
        return (
            f"{what} need {self.used} devices, and there are {have}; "
            "fewer stages or replicas, or a larger topology, would do"
        )

    def link(self, source: int, target: int) -> float:
        """Bytes per second from one device to another; infinite from a device to itself."""
        if self.machines:
            return self.links.link(source, target)
        found = self.bandwidth_bytes_per_s[source][target]
        return math.inf if source == target or found is None else found

    def device_name(self, device: int) -> str:
        """A device for people."""
        if self.machines and not self.devices:
            machine, place, entry = self.links.home(device)
            return f"machine{machine}" if entry.devices == 1 else f"machine{machine}/{place}"
        return self.devices[device] if self.devices else f"device {device}"

    def scale_communication(self, factor: float) -> MappingProblem:
        """A copy in which transfers and parameters have ``factor`` times as many bytes.

        Raises
        ------
        InputError
            If the factor is negative or not finite.
        """
        check_number(f"problem {self.name!r}", "the communication scale", factor)
        if factor == 1.0:
            return self
        return self.replace(
            transfers=tuple(msgspec.structs.replace(one, bytes=one.bytes * factor) for one in self.transfers),
            stages=tuple(
                msgspec.structs.replace(stage, parameter_bytes=stage.parameter_bytes * factor) for stage in self.stages
            ),
        )


def _check_stage(owner: str, stage: MappingStage, devices: int) -> None:
    check_fields(owner, stage, "time_s", "parameter_bytes")
    if stage.replicas is not None:
        check_at_least(f"{owner}: replicas", stage.replicas)
    if (stage.time_s is None) == (stage.times_s is None):
        raise InputError(f"{owner} needs either time_s or, for devices of different speeds, times_s")
    if stage.times_s is None:
        return
    if devices and len(stage.times_s) != devices:
        raise InputError(f"{owner}: times_s has {len(stage.times_s)} entries; the bandwidths are of {devices} devices")
    for device, time in enumerate(stage.times_s):
        check_number(owner, f"time on device {device}", time)
