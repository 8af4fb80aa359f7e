"""The devices and links that there are."""

from __future__ import annotations

import msgspec

from partita.components.entries import Listing, package_of, tell_strangers
from partita.ground.units import format_bytes, format_count
from partita.nouns.catalogue.loader import load_catalogue
from partita.nouns.catalogue.specs import DeviceSpec, LinkSpec


class DeviceEntry(DeviceSpec, frozen=True, kw_only=True):
    """A device of the catalogue: all that its table says, and what follows from that where it says nothing.

    Memory is in bytes, bandwidth in bytes per second, ``peak_flops`` in FLOP/s by number format without sparsity;
    efficiencies are shares of these that are reached.
    """

    usable_memory_bytes: int  #: Without the reserve.
    package: str | None = "partita"  #: As of an ``Entry``.


class LinkEntry(LinkSpec, frozen=True, kw_only=True):
    """A link of the catalogue: all that its table says; bandwidths are of one direction, in bytes per second."""

    reached_bytes_per_s: float  #: What large messages reach.
    package: str | None = "partita"  #: As of an ``Entry``.


def devices() -> Listing[DeviceEntry]:
    """The device catalogue."""
    tell_strangers()
    return Listing("devices", map(_device, load_catalogue().devices.values()), _device_cells)


def _device(spec: DeviceSpec) -> DeviceEntry:
    in_effect = {
        "reserved_bytes": spec.reserve_bytes,
        "attention_efficiency": spec.of_attention,
        "unaligned_efficiency": spec.of_unaligned,
        "host_link": spec.to_host,
        "usable_memory_bytes": spec.usable_bytes,
        "package": package_of(spec),
    }
    return DeviceEntry(**{**msgspec.structs.asdict(spec), **in_effect})


def _device_cells(entry: DeviceEntry) -> tuple[str, ...]:
    peaks = ", ".join(f"{dtype} {format_count(value)}FLOP/s" for dtype, value in entry.peak_flops.items())
    speed = format_count(entry.memory_bandwidth_bytes_per_s)
    return entry.name, f"{format_bytes(entry.memory_bytes)}, {speed}B/s, {peaks}, link {entry.link}; {entry.source}"


def links() -> Listing[LinkEntry]:
    """The link catalogue."""
    tell_strangers()
    return Listing("links", map(_link, load_catalogue().links.values()), _link_cells)


def _link(spec: LinkSpec) -> LinkEntry:
    in_effect = {
        "hop_time_s": spec.per_hop_s,
        "reached_bytes_per_s": spec.achievable_bytes_per_s,
        "package": package_of(spec),
    }
    return LinkEntry(**{**msgspec.structs.asdict(spec), **in_effect})


def _link_cells(entry: LinkEntry) -> tuple[str, ...]:
    rate = format_count(entry.bandwidth_bytes_per_s)
    return entry.name, f"{rate}B/s each way, {entry.latency_s:.1e} s; {entry.source}"
