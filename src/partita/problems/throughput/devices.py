"""The devices of a throughput problem: kinds of alike devices, and groups of devices behind a slower link."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

import msgspec

from partita.ground.checks import check_fields
from partita.ground.errors import InputError

#: Fields of a device kind that are times of transfers.
TRANSFER_TIMES = ("transfer_time_per_unit", "transfer_latency", "sync_time_per_byte", "reload_time_per_byte")


class DeviceKind(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Devices that are alike."""

    name: str  #: For example ``A100-80GB``.
    count: int  #: How many there are.
    memory_bytes: float | None = None  #: Memory of each; None for no limit.
    accelerator: bool = True  #: False for CPUs. Only the name of the role: what CPUs pay is said by the other fields.
    #: Time to move one unit of tensor size into or out of such a device: seconds per byte for traced models, 1 where an
    #: instance file gives transfer times as sizes, 0 for CPUs in the published model (they never pay).
    transfer_time_per_unit: float = 1.0
    transfer_latency: float = 0.0  #: Fixed time per tensor moved, in the problem's time unit.
    #: Time per byte of weights that replicas of a stage synchronise; 0 for free synchronisation.
    sync_time_per_byte: float = 0.0
    #: Time per byte to fetch what does not fit into memory, where the problem allows that (``streaming``).
    reload_time_per_byte: float = 0.0

    def transfer_time(self, size: float) -> float:
        """Time to move one tensor into or out of such a device."""
        return self.transfer_latency + size * self.transfer_time_per_unit


class LinkedGroup(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Devices that share one link to the rest, for example a machine on a network."""

    name: str  #: For people.
    #: Devices of each kind in this group. The first group holds the first devices of every kind, and so on.
    counts: tuple[int, ...]
    #: What the group pays for a tensor that crosses its boundary; as for a device kind.
    transfer_time_per_unit: float
    transfer_latency: float = 0.0

    def transfer_time(self, size: float) -> float:
        """Time to move one tensor over the boundary of the group."""
        return self.transfer_latency + size * self.transfer_time_per_unit


Named = TypeVar("Named", DeviceKind, LinkedGroup)


def check_kinds(where: str, kinds: Sequence[DeviceKind]) -> None:
    """Check the kinds of a problem: their names, their numbers, and that there is a device."""
    for owner, kind in _named(f"{where}: device kind", "kind", kinds):
        if kind.count < 0:
            raise InputError(f"{owner}: count is {kind.count}; it must not be negative")
        check_fields(owner, kind, "memory_bytes", *TRANSFER_TIMES)
    if sum(kind.count for kind in kinds) == 0:
        raise InputError(f"{where} has no devices; raise the count of a device kind (--devices)")


def check_groups(where: str, kinds: Sequence[DeviceKind], groups: Sequence[LinkedGroup]) -> None:
    """Check the groups' names and numbers, and that they hold each device once."""
    if not groups:
        return
    for owner, group in _named(f"{where}: group", "group", groups):
        if len(group.counts) != len(kinds):
            raise InputError(f"{owner} has {len(group.counts)} counts; give one for each of the {len(kinds)} kinds")
        if min(group.counts, default=0) < 0:
            raise InputError(f"{owner}: a count is {min(group.counts)}; it must not be negative")
        check_fields(owner, group, "transfer_time_per_unit", "transfer_latency")
    for place, kind in enumerate(kinds):
        held = sum(group.counts[place] for group in groups)
        if held != kind.count:
            raise InputError(
                f"{where}: the groups hold {held} devices of kind {kind.name!r}, the kind has {kind.count}; "
                "each device belongs to one group"
            )


def _named(what: str, noun: str, values: Sequence[Named]) -> Iterator[tuple[str, Named]]:
    """Each value with its name for messages, which is no other one's."""
    names = [value.name for value in values]
    for value in values:
        owner = f"{what} {value.name!r}"
        if names.count(value.name) > 1:
            raise InputError(f"{owner} appears twice; give each {noun} its own name")
        yield owner, value
