"""Measured times of a model's operators on one machine: the document, and a cost source made from it.

A model that is the profiled one takes its times operator by operator. Another one, with other layers or another size of
microbatch, takes those of operators with an equal signature. What was not measured is left to the roofline of the
device, whose numbers are fitted to the same measurements.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from partita.costs.roofline import CostSource, Roofline, unpacking_s
from partita.costs.signatures import Signature, fingerprint, signatures
from partita.ground.checks import check_fields
from partita.ground.errors import FormatError, InputError
from partita.ground.shown import brief
from partita.nouns.catalogue.files import converted, read_document
from partita.nouns.catalogue.specs import DeviceSpec
from partita.nouns.cluster import Cluster
from partita.nouns.graph import Graph


class Measurement(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One operator as it ran, and all that are identical to it."""

    signature: Signature  #: What it is.
    #: Median, least, and the distance between the quartiles, of the times of single runs.
    time_s: float
    best_s: float
    spread_s: float
    samples: int  #: How many times were taken.
    #: Most memory that it held beyond what was held before it began, its results included; None where unknown.
    peak_memory_bytes: int | None = None

    def __post_init__(self) -> None:
        check_fields(f"measurement of {self.signature.target}", self, "time_s", "best_s", "spread_s", "samples")


class Hardware(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The machine: its processor, cores that may be used, memory in bytes, accelerator if any, and software."""

    cpu: str
    cores: int
    memory_bytes: int
    gpu: str | None
    system: str
    python: str
    torch: str


class ProfileSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How it was measured: processes at work at the same time, threads of each, runs to warm up, and runs timed."""

    processes: int
    threads: int
    warm_up: int
    repeats: int


class Phase(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Forward or backward as a whole, without instruments."""

    #: Median of the runs and distance between their quartiles.
    time_s: float
    spread_s: float
    issue_s: float  #: What each operator adds to its own time: what passes between operators, divided by their number.


class MessageTime(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message between two processes: its bytes, and the median time from the start of sending to its arrival."""

    bytes: int
    time_s: float


class Profile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A ``partita.profile`` document.

    Raises ``InputError`` if an operator names no measurement, or the cluster has no device of that name.
    """

    format: ClassVar[str] = "partita.profile"
    version: ClassVar[int] = 1

    #: The model's name, and the fingerprint of its graph.
    model: str
    sha256: str
    training: bool  #: Whether backward operators were measured, too.
    #: Where and how.
    hardware: Hardware
    settings: ProfileSettings
    device: str  #: The name of the device in ``cluster``.
    measurements: tuple[Measurement, ...]  #: Every distinct operator once.
    #: For every operator of the graph its place among ``measurements``; None for those that were not met.
    operators: tuple[int | None, ...]
    #: The phases as a whole; ``backward`` is None for inference.
    forward: Phase
    backward: Phase | None
    update_s_per_byte: float | None  #: What a step of plain SGD takes for each byte of parameters; None for inference.
    transfers: tuple[MessageTime, ...]  #: Messages between processes; empty where there was one process.
    cluster: dict[str, Any]  #: As many devices as there were processes, in the form of a cluster file.

    __repr__ = brief

    def __post_init__(self) -> None:
        for place in self.operators:
            if place is not None and not 0 <= place < len(self.measurements):
                raise InputError(f"an operator names measurement {place}; there are {len(self.measurements)}")
        if self.device not in self.cluster.get("devices", {}):
            raise InputError(f"device {self.device!r} is not among those of its cluster")

    @property
    def accelerator(self) -> bool:
        """Whether it was measured on a GPU."""
        return bool(self.cluster["devices"][self.device].get("accelerator", True))

    @property
    def spec(self) -> DeviceSpec:
        """The device."""
        return Cluster.from_document(self.cluster, where="the profile's cluster").devices[self.device]

    def time_s(self, measurement: Measurement) -> float:
        """Seconds that an operator adds to a run: its own, and what passes between operators."""
        phase = self.backward if measurement.signature.phase == "backward" else self.forward
        issue = (phase or self.forward).issue_s
        # An accelerator works while the program issues what comes next; a CPU does one after the other.
        return max(measurement.time_s, issue) if self.accelerator else measurement.time_s + issue

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON, tagged."""
        body: dict[str, Any] = msgspec.to_builtins(self)
        return {"format": self.format, "version": self.version, **body}


def read_profile(path: str | Path) -> Profile:
    """Read a profile.

    Raises ``FormatError`` if the file is not a profile of this version; ``InputError`` if it cannot be read or a value
    is out of range.
    """
    data = read_document(Path(path))
    if data.pop("format", None) != Profile.format:
        raise FormatError(f"{path} is not a {Profile.format} file; `partita profile MODEL --output FILE` makes one")
    number = data.pop("version", None)
    if number != Profile.version:
        raise FormatError(
            f"{path}: version {number!r} of {Profile.format} is not known here; expected {Profile.version}"
        )
    return converted(str(path), data, Profile)


@dataclass(frozen=True)
class Measured:
    """Times of a profile; what it does not hold is taken from another source."""

    profile: Profile
    otherwise: CostSource = field(default_factory=Roofline)
    source: str = "a profile"  #: The file, for notes.

    __repr__ = brief

    def operator_times(self, graph: Graph, device: DeviceSpec) -> list[float | None]:
        times = list(self.otherwise.operator_times(graph, device))
        if device.name != self.profile.device:
            return times
        for index, (op, found) in enumerate(zip(graph.operators, self.found(graph), strict=True)):
            if found is not None and not op.free:
                times[index] = found + unpacking_s(op, device)
        return times

    def found(self, graph: Graph) -> list[float | None]:
        """The measured time of every operator of a graph, None for those that were not measured."""
        profile = self.profile
        if fingerprint(graph) == profile.sha256:
            return [
                None if place is None else profile.time_s(profile.measurements[place]) for place in profile.operators
            ]
        by_signature: dict[Signature, list[float]] = {}
        for measurement in profile.measurements:
            by_signature.setdefault(measurement.signature, []).append(profile.time_s(measurement))
        times = {signature: statistics.median(found) for signature, found in by_signature.items()}
        return [times.get(signature) for signature in signatures(graph)]

    def coverage(self, graph: Graph) -> tuple[int, int]:
        """How many operators that take time were measured, and how many there are."""
        pairs = [found for op, found in zip(graph.operators, self.found(graph), strict=True) if not op.free]
        return sum(found is not None for found in pairs), len(pairs)

    def check(self, graph: Graph, devices: Sequence[str]) -> None:
        """Refuse a model or devices that the profile says nothing about.

        Raises ``InputError`` if no operator of the graph was measured, or none of the devices has the profile's name.
        """
        profile = self.profile
        if profile.device not in devices:
            raise InputError(
                f"{self.source} was measured on {profile.device}, and the cluster has {', '.join(devices)}; plan for "
                f"the profile's own machine (--cluster {self.source}), or name the device with `partita profile "
                "--device`"
            )
        if not self.coverage(graph)[0]:
            phase = " in training" if profile.training else ""
            raise InputError(
                f"{self.source} is a profile of {profile.model}{phase} and holds no operator of {graph.name} with "
                "these shapes; profile this model, with the same batch size and sequence length"
            )

    def notes(self, graph: Graph) -> list[str]:
        measured, count = self.coverage(graph)
        profile = self.profile
        others = "; the others are estimates" if measured < count else ""
        same = "" if fingerprint(graph) == profile.sha256 else f", a profile of another graph ({profile.model})"
        return [
            f"Times of {measured} of {count} operators on {profile.device} are from {self.source}{same}, measured "
            f"with {profile.settings.processes} processes of {profile.settings.threads} threads{others}.",
            *(self.otherwise.notes(graph) if measured < count else ()),
        ]
