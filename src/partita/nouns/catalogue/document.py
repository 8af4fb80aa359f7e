"""A user's cluster file: machines and network, with devices and links of its own.

::

    name = "lab"                          # optional
    cluster = "2x(4xBIG@pcie4)"           # a short form, or
    machines = [{count = 2, devices = "4xBIG+1xCPU", link = "pcie4", nics = 2}]
    network = "ethernet-25g"              # optional
    nics = 4                              # optional: network cards of every machine that does not say
    [devices.BIG]                         # optional: a device from scratch, or one with changes
    base = "A100-80GB"
    reserved_bytes = 4294967296
    [links.slow]                          # optional, likewise
    base = "pcie3"
    efficiency = 0.5
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any

from partita.ground.errors import FormatError
from partita.nouns.catalogue.files import check_keys, converted
from partita.nouns.catalogue.loader import Catalogue, load_catalogue
from partita.nouns.catalogue.shortform import MachineForm, check_size, parse_devices, parse_short_form

Matrix = tuple[tuple[float, ...], ...]

_FILE_KEYS = ("name", "cluster", "machines", "network", "nics", "devices", "links", "bandwidth_bytes_per_s")
_MACHINE_KEYS = ("count", "devices", "link", "nics")


@dataclass(frozen=True)
class ClusterDocument:
    """What a cluster file says; names are still those of the file."""

    name: str
    machines: tuple[MachineForm, ...]
    network: str | None
    catalogue: Catalogue  #: The shipped one with the file's devices and links.
    matrix: Matrix | None = None  #: Achievable bandwidth between every two devices, bytes per second.


def read_cluster_document(data: Mapping[str, Any], where: str) -> ClusterDocument:
    """Read a decoded cluster file strictly: unknown and contradicting keys and wrong types are refused."""
    check_keys(where, data, _FILE_KEYS)
    catalogue = load_catalogue().extend(_table(where, data, "devices"), _table(where, data, "links"), where)
    network = _text(where, "network", data["network"]) if "network" in data else None
    if ("machines" in data) == ("cluster" in data):
        raise FormatError(f'{where}: state either machines or cluster (a short form such as "4xA100-80GB")')
    if "cluster" in data:
        machines, inner = parse_short_form(_text(where, "cluster", data["cluster"]))
        if network is not None and inner is not None:
            raise FormatError(f"{where}: the network is stated twice, in cluster and in network")
        network = inner if network is None else network
    else:
        entries = data["machines"]
        if not isinstance(entries, list) or not entries:
            raise FormatError(f"{where}: machines must be a list with at least one entry")
        machines = tuple(_machine(where, entry) for entry in entries)
        check_size(where, machines)
    nics = _whole(where, "nics", data["nics"]) if "nics" in data else None
    machines = tuple(replace(machine, nics=nics) if machine.nics is None else machine for machine in machines)
    matrix = data.get("bandwidth_bytes_per_s")
    if matrix is not None:
        matrix = converted(f"{where}: bandwidth_bytes_per_s must be rows of numbers", matrix, Matrix)
    return ClusterDocument(
        name=_text(where, "name", data.get("name", PurePath(where).stem)),
        machines=machines,
        network=network,
        catalogue=catalogue,
        matrix=matrix,
    )


def _text(where: str, key: str, value: Any) -> str:
    if not isinstance(value, str):
        raise FormatError(f"{where}: {key} must be text, not {value!r}")
    return value


def _whole(where: str, what: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise FormatError(f"{where}: {what} is {value!r}; it must be a whole number of at least 1")
    return value


def _table(where: str, data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = data.get(key, {})
    if not isinstance(value, Mapping):
        raise FormatError(f"{where}: {key} must be a table of names, not {value!r}")
    return value


def _machine(where: str, entry: Any) -> MachineForm:
    if not isinstance(entry, Mapping):
        raise FormatError(f"{where}: an entry of machines must be a table with devices, not {entry!r}")
    check_keys(f"{where}: machines", entry, _MACHINE_KEYS)
    count, link = _whole(where, "the count of a machine", entry.get("count", 1)), entry.get("link")
    nics = _whole(where, "nics of a machine", entry["nics"]) if "nics" in entry else None
    if "devices" not in entry:
        raise FormatError(f'{where}: a machine has no devices; state for example devices = "4xL4"')
    devices, inner = parse_devices(_text(where, "devices", entry["devices"]), where)
    if link is not None and inner is not None:
        raise FormatError(f"{where}: the link of a machine is stated twice, in devices and in link")
    link = inner if link is None else _text(where, "link", link)
    return MachineForm(count=count, devices=devices, link=link, nics=nics)
