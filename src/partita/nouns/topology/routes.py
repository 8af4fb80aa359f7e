"""The widest way between every two devices over physical links: devices do not forward for others, switches do."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from partita.nouns.topology.topology import Floats, Link


def widest(devices: int, switches: int, links: Iterable[Link]) -> Floats:
    """[device, device] the largest bandwidth of the narrowest link on a way; 0 where there is none, infinite inside.

    Switches are joined in decreasing order of bandwidth, as Kruskal's algorithm does: the link that joins two parts is
    the narrowest of the best way between them.
    """
    direct = np.zeros((devices, devices))
    ports = np.zeros((devices, switches))
    between: list[Link] = []
    for link in links:
        first, last = sorted((link.source, link.target))
        if last < devices:
            direct[first, last] = direct[last, first] = max(direct[first, last], link.bandwidth_bytes_per_s)
        elif first < devices:
            ports[first, last - devices] = max(ports[first, last - devices], link.bandwidth_bytes_per_s)
        else:
            between.append(Link(first - devices, last - devices, link.bandwidth_bytes_per_s))
    inner = np.zeros((switches, switches))
    np.fill_diagonal(inner, np.inf)
    part = np.arange(switches)
    for link in sorted(between, key=lambda link: -link.bandwidth_bytes_per_s):
        here, there = part[link.source], part[link.target]
        if here != there:
            inner[np.ix_(part == here, part == there)] = link.bandwidth_bytes_per_s
            inner[np.ix_(part == there, part == here)] = link.bandwidth_bytes_per_s
            part[part == there] = here
    reach = np.zeros((devices, switches))
    for switch in range(switches):
        reach = np.maximum(reach, np.minimum(ports[:, [switch]], inner[[switch], :]))
    matrix = direct
    for switch in range(switches):
        matrix = np.maximum(matrix, np.minimum.outer(reach[:, switch], ports[:, switch]))
    np.fill_diagonal(matrix, np.inf)
    return matrix
