"""What a cluster's links make of bytes: transfer times between every two devices."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from partita.ground.units import format_time
from partita.nouns.cluster import Cluster, LinkPath

#: Times from each device (row) to each (column).
Table = tuple[tuple[float, ...], ...]


class Transfers:
    """Transfer times on a cluster: the latency of the way, and bytes over the bandwidth of its narrowest link."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        count = cluster.device_count
        self._known: dict[int, Table] = {}
        self.paths: list[list[LinkPath | None]] = [
            [None if a == b else cluster.path(a, b) for b in range(count)] for a in range(count)
        ]

    def times(self, size: int) -> Table:
        """Seconds that so many bytes take; equal sizes share one table."""
        if size not in self._known:
            self._known[size] = tuple(
                tuple(0.0 if path is None else path.latency_s + size / path.bandwidth_bytes_per_s for path in row)
                for row in self.paths
            )
        return self._known[size]

    @cached_property
    def kinds(self) -> dict[str, LinkPath]:
        """A way over each narrowest link, by its name."""
        return {path.link: path for row in self.paths for path in row if path is not None}

    def notes(self) -> Sequence[str]:
        """What a reader should know about these times."""
        if not self.kinds:
            return []
        if "bandwidth matrix" in self.kinds:
            ways = "the bandwidth matrix"
        else:
            ways = ", ".join(
                f"{name} {path.bandwidth_bytes_per_s / 1e9:.4g} GB/s after {format_time(path.latency_s)}"
                for name, path in self.kinds.items()
            )
        return [
            f"Transfers take the latency of their way and their bytes over its narrowest link: {ways}. A device sends "
            "one tensor at a time and receives one at a time; links between different devices are not shared."
        ]
