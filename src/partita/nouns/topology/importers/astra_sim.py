"""The network configuration of ASTRA-sim's analytical backends: one building block for each dimension."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations, pairwise
from typing import Any

import numpy as np

from partita.nouns.topology.grammar import Option, parse_count
from partita.nouns.topology.importers.importer import TopologyImporter, looks_like
from partita.nouns.topology.importers.text import TextFile, YamlValue, read_yaml
from partita.nouns.topology.topology import Floats, Link, Topology, check_count

#: ASTRA-sim counts 2³⁰ bytes to a GB, and latency in ns (its analytical network, common type definitions).
GB = float(1 << 30)

_KEYS = ("topology", "npus_count", "bandwidth", "latency")
_BLOCKS = ("Ring", "FullyConnected", "Switch")


def read(source: TextFile, device: str | None, inside: int | None) -> Topology:
    """Devices on a grid, the first dimension fastest; messages go through the dimensions in which two differ."""
    fields = _fields(source)
    blocks, sizes = [e.value for e in fields["topology"]], [e.value for e in fields["npus_count"]]
    check_count(source.path, math.prod(sizes))
    count, dimensions = math.prod(sizes), len(sizes)
    near = min(dimensions, 1) if inside is None else inside
    if near > dimensions:
        raise source.error(f"inside={near} is more than its {dimensions} dimensions")
    # The first dimension is the last axis of the grid.
    points = np.stack(np.unravel_index(np.arange(count), tuple(reversed(sizes))), axis=1)[:, ::-1]
    matrix, latency = np.full((count, count), np.inf), np.zeros((count, count))
    links: list[Link] = []
    switches: list[str] = []
    for axis, (block, size) in enumerate(zip(blocks, sizes, strict=True)):
        rate, fixed = fields["bandwidth"][axis].value * GB, fields["latency"][axis].value * 1e-9
        apart = np.abs(np.subtract.outer(points[:, axis], points[:, axis]))
        matrix[apart > 0] = np.minimum(matrix[apart > 0], rate)
        latency += fixed * _hops(block, size, apart)
        stride = math.prod(sizes[:axis])
        for first in np.flatnonzero(points[:, axis] == 0):
            row = [int(first) + stride * i for i in range(size)]
            if block == "Switch":
                links += [Link(end, count + len(switches), rate) for end in row]
                switches.append(f"dimension {axis + 1} switch {len(switches)}")
            else:
                links += [Link(a, b, rate) for a, b in _pairs(block, row)]
    machine = math.prod(sizes[:near])
    found = Topology(
        name=source.path,
        names=tuple(f"npu{i}" for i in range(count)),
        bandwidth_bytes_per_s=matrix,
        machine_of=tuple(i // machine for i in range(count)),
        links=tuple(links),
        switches=tuple(switches),
        coordinates=tuple(tuple(point) for point in points.tolist()),
        latency_s=latency,
        notes=(
            f"The first {near} dimensions of {dimensions} are taken as one machine; state inside=….",
            "Bandwidths are in ASTRA-sim's GB of 2³⁰ bytes.",
        ),
    )
    return found if device is None else found.with_device(device)


def _fields(source: TextFile) -> dict[str, list[YamlValue]]:
    """The lists of the file, of one length each, with values in range."""
    root = read_yaml(source)
    if not isinstance(root.value, dict):
        raise source.error("it must be a table of keys", root.line)
    for name in _KEYS:
        if name not in root.value:
            raise source.error(f"there is no {name!r}; it needs {', '.join(_KEYS)}")
        entry = root.value[name]
        if not isinstance(entry.value, list) or not entry.value:
            raise source.error(f"{name} must be a list with an entry for each dimension", entry.line)
        size = len(root.value["topology"].value)
        if len(entry.value) != size:
            raise source.error(
                f"{name} has {len(entry.value)} entries, topology {size}; one for each dimension", entry.line
            )
    fields: dict[str, list[YamlValue]] = {name: root.value[name].value for name in _KEYS}
    for entry in fields["topology"]:
        if entry.value not in _BLOCKS:
            raise source.error(
                f"there is no building block {entry.value!r}; known are {', '.join(_BLOCKS)}", entry.line
            )
    for entry in fields["npus_count"]:
        if isinstance(entry.value, bool) or not isinstance(entry.value, int) or entry.value < 1:
            raise source.error(f"npus_count has {entry.value!r}; it must be a whole number of at least 1", entry.line)
    for name, least in (("bandwidth", "above 0"), ("latency", "of at least 0")):
        for entry in fields[name]:
            if not _number(entry.value) or entry.value < 0 or (entry.value == 0 and name == "bandwidth"):
                raise source.error(f"{name} has {entry.value!r}; it must be a number {least}", entry.line)
    return fields


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _hops(block: str, size: int, apart: Floats) -> Floats:
    if block == "Ring":
        return np.where(apart > 0, np.minimum(apart, size - apart), 0).astype(np.float64)
    return np.where(apart > 0, 2.0 if block == "Switch" else 1.0, 0.0)


def _pairs(block: str, row: list[int]) -> Iterator[tuple[int, int]]:
    """Devices of a row that are joined."""
    if block == "FullyConnected":
        yield from combinations(row, 2)
        return
    yield from pairwise(row)
    if len(row) > 2:
        yield row[-1], row[0]


ASTRA_SIM = TopologyImporter(
    name="astra-sim",
    summary="the network YAML of ASTRA-sim's analytical backends",
    recognises=looks_like(r"^npus_count\s*:"),
    read=read,
    example="".join(
        f"{key}: [ {values} ]\n"
        for key, values in zip(_KEYS, ("Ring, Switch", "4, 2", "200.0, 50.0", "50.0, 500.0"), strict=True)
    ),
    options=(Option("inside", parse_count, "number of first dimensions that are one machine; 1 unless stated"),),
)
