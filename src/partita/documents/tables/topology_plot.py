"""A topology as a picture: devices in their machines, links as wide as their bandwidth, and the matrix beside it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from partita.documents.tables.text import new_figure, save_figure
from partita.engines.kernels.arrays import Floats
from partita.nouns.topology.topology import Link, Topology

if TYPE_CHECKING:
    from matplotlib.axes import Axes


#: More devices than this are drawn without their names.
MOST_NAMES = 64

#: More pairs than this are not drawn where there are no physical links.
MOST_PAIRS = 4096


def save_topology(path: str, topology: Topology, labels: Mapping[int, str] | None = None) -> None:
    """Draw a topology into a file, whose ending decides the format: its links, or the widest pairs, and its matrix.

    ``labels`` are written at devices, such as their stages, and devices of one label have one colour; None for names.
    """
    figure = new_figure(13.0, 6.0)
    picture, matrix = figure.subplots(1, 2, width_ratios=(1.3, 1.0))
    _draw(picture, topology, labels)
    _draw_matrix(matrix, topology)
    figure.suptitle(topology.name)
    save_figure(figure, path)


def positions(topology: Topology) -> Floats:
    """[vertex, 2] where devices and switches are drawn: a grid as it is, machines as circles in rows.

    Devices that are alone in their machines are drawn with those at the same switch.
    """
    devices = topology.device_count
    places = np.zeros((devices + len(topology.switches), 2))
    if topology.coordinates:
        places[:devices] = _on_grid(np.array(topology.coordinates, dtype=np.float64))
    else:
        group = np.array(topology.machine_of)
        if topology.machine_count == devices and topology.switches:
            first = {link.source: link.target for link in reversed(topology.links) if link.source < devices}
            group = np.unique([first.get(i, -1) for i in range(devices)], return_inverse=True)[1]
        centres = _rows(int(group.max()) + 1)
        for number, centre in enumerate(centres):
            members = np.flatnonzero(group == number)
            angles = 2 * math.pi * np.arange(len(members)) / len(members) + math.pi / 2
            radius = 0.33 if len(members) > 1 else 0.0
            places[members] = centre + radius * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    # A switch is in the middle of what hangs at it, those nearer to the devices first.
    placed = np.arange(len(places)) < devices
    while not placed.all():
        beside: dict[int, list[int]] = {}
        for link in topology.links:
            for one, other in ((link.source, link.target), (link.target, link.source)):
                if not placed[one] and placed[other]:
                    beside.setdefault(one, []).append(other)
        if not beside:
            break
        for vertex, others in beside.items():
            places[vertex] = places[others].mean(axis=0)
            placed[vertex] = True
    return places


def _on_grid(points: Floats) -> Floats:
    """Two coordinates as they are, each further one as a shift to the upper right."""
    while points.shape[1] < 2:
        points = np.hstack([np.zeros((len(points), 1)), points])
    flat = points[:, [-1, -2]] * (1.0, -1.0)
    for axis in range(points.shape[1] - 2):
        flat = flat + np.outer(points[:, axis], (0.35 + axis * 0.1, 0.3)) * points[:, -1].max(initial=1)
    return flat


def _rows(count: int) -> Floats:
    """Centres of machines, in rows from the upper left."""
    width = math.ceil(math.sqrt(count))
    return np.array([(i % width, -(i // width)) for i in range(count)], dtype=np.float64)


def _shown(topology: Topology) -> Sequence[Link]:
    """What is drawn: physical links, else pairs, the widest if there are too many."""
    if topology.links:
        return topology.links
    matrix = topology.matrix()
    first, second = np.triu_indices(topology.device_count, 1)
    order = np.argsort(-matrix[first, second], kind="stable")[:MOST_PAIRS]
    return [Link(int(first[i]), int(second[i]), float(matrix[first[i], second[i]])) for i in order]


def _draw(ax: Axes, topology: Topology, labels: Mapping[int, str] | None) -> None:
    from matplotlib.collections import LineCollection

    places, devices = positions(topology), topology.device_count
    links = _shown(topology)
    rates = np.log10([link.bandwidth_bytes_per_s for link in links] or [1.0])
    low, high = rates.min(), rates.max()
    share = (rates - low) / (high - low) if high > low else np.ones(len(rates))
    ends = [places[[link.source, link.target]] for link in links]
    colours = [(0.5, 0.5, 0.5, 0.25 + 0.5 * part) for part in share]
    ax.add_collection(LineCollection(ends, linewidths=0.3 + 2.2 * share, colors=colours, zorder=1))
    ax.plot(*places[devices:].T, "s", color="0.3", markersize=5, zorder=2)
    known = list(dict.fromkeys((labels or {}).values()))
    unused = "C0" if labels is None else "0.8"
    colors = [f"C{known.index(labels[i]) % 10}" if labels and i in labels else unused for i in range(devices)]
    ax.scatter(places[:devices, 0], places[:devices, 1], c=colors, s=120 if devices <= MOST_NAMES else 30, zorder=3)
    if devices <= MOST_NAMES:
        for device, name in enumerate(topology.names):
            # The number is the same for all devices that are alone in their machines.
            part = name.partition("/")[0] if topology.machine_count == devices else name.rpartition("/")[2]
            text = part.removeprefix("device") if labels is None else labels.get(device, "")
            ax.annotate(text, places[device], (0, 8), textcoords="offset points", fontsize=6, ha="center", zorder=4)
    ax.set_axis_off()
    ax.set_aspect("equal")
    what = "links" if topology.links else "pairs"
    ax.set_title(f"{devices} devices, {len(links)} {what}", fontsize="medium")


def _draw_matrix(ax: Axes, topology: Topology) -> None:
    from matplotlib.colors import LogNorm

    matrix = topology.matrix() / 1e9
    inner = matrix[np.isfinite(matrix)]
    if not inner.size:
        ax.set_axis_off()
        return
    low, high = float(inner.min()), float(inner.max())
    shown = np.where(np.isfinite(matrix), matrix, np.nan)
    image = ax.imshow(shown, norm=LogNorm(low, high if high > low else low * 1.01), interpolation="nearest")
    ax.figure.colorbar(image, ax=ax, label="GB/s between two devices")
    ax.set_xlabel("device")
