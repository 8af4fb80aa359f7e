"""Meshes and tori in any number of dimensions, with a bandwidth for each number of hops."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

import numpy as np

from partita.nouns.topology.generators.generator import TopologyGenerator
from partita.nouns.topology.grammar import Option, parse_bandwidth
from partita.nouns.topology.topology import Link, Topology

#: GB/s by number of hops from 1 (Liu et al., "Parmesan", table IX), and from a number of hops on.
HOPS = (
    78.1, 39.0, 24.4, 14.6, 9.77, 7.81, 5.86, 4.4, 2.93, 1.46, 0.88, 0.78, 0.68, 0.59, 0.49, 0.39, 0.29, 0.19, 0.098,
    0.098,
)  # fmt: skip
FAR = ((21, 0.088), (32, 0.078), (52, 0.068))


def hop_bandwidths(most: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """GB/s for 0, 1, … ``most`` hops; infinite for none."""
    table = np.empty(most + 1)
    table[0] = np.inf
    table[1 : len(HOPS) + 1] = HOPS[:most]
    for hops, rate in FAR:
        table[hops:] = rate
    return table


def grid(size: tuple[int, ...], link: float, *, wraps: bool) -> Topology:
    """Devices at the points of a grid, numbered with the last coordinate fastest; all in one machine.

    One hop has the bandwidth of the link, bytes per second; more hops have the table's share of it. In a torus each
    dimension ``wraps``: its last point is beside the first.
    """
    count = math.prod(size)
    points = np.stack(np.unravel_index(np.arange(count), size), axis=1)
    hops = np.zeros((count, count), dtype=np.int64)
    for axis, length in enumerate(size):
        apart = np.abs(np.subtract.outer(points[:, axis], points[:, axis]))
        hops += np.minimum(apart, length - apart) if wraps else apart
    table = hop_bandwidths(int(hops.max())) * (link / HOPS[0])
    coordinates = tuple(tuple(point) for point in points.tolist())
    return Topology(
        name="grid",
        names=tuple("device" + ",".join(map(str, point)) for point in coordinates),
        bandwidth_bytes_per_s=table[hops],
        machine_of=(0,) * count,
        links=tuple(Link(source, target, link) for source, target in _edges(size, wraps)),
        coordinates=coordinates,
        notes=(
            "Bandwidth by hops is an example (Parmesan, table IX, with 10⁹ bytes in a GB), scaled to the bandwidth of "
            "one hop; all devices are taken as one machine.",
        ),
    )


def _edges(size: tuple[int, ...], wraps: bool) -> Iterator[tuple[int, int]]:
    """Neighbours, each pair once."""
    for number, point in enumerate(np.ndindex(*size)):
        for axis, length in enumerate(size):
            follower = point[axis] + 1
            # Two points in a ring are neighbours once, not twice.
            if follower < length or (wraps and length > 2):
                other = (*point[:axis], follower % length, *point[axis + 1 :])
                yield number, int(np.ravel_multi_index(other, size))


_grid = partial(
    TopologyGenerator,
    options=(Option("link", parse_bandwidth, "of one hop", "78.1GB/s"),),
    most=6,
)

MESH = _grid(
    name="mesh",
    summary="a grid of devices in two, three or more dimensions, bandwidth by hops",
    example="mesh:16x16",
    form="ROWSxCOLUMNS[xLAYERS]",
    build=partial(grid, wraps=False),
)
TORUS = _grid(
    name="torus",
    summary="a mesh whose rows and columns are closed to rings",
    example="torus:8x8x8",
    form="ROWSxCOLUMNS[xLAYERS]",
    build=partial(grid, wraps=True),
)
