"""What people do: devices by their numbers."""

from __future__ import annotations

from partita.engines.kernels.arrays import Ints
from partita.engines.search.monitor import Monitor
from partita.problems.mapping.baselines.base import MappingBaseline
from partita.problems.mapping.instance import Instance
from partita.problems.mapping.orders import chains, consecutive
from partita.problems.mapping.protocol import Options


class Consecutive(MappingBaseline):
    """Parmesan's CS map."""

    name = "consecutive"
    summary = "stage after stage, its replicas on neighbouring devices (all-reduce first); ignores bandwidths"

    def devices(self, instance: Instance, options: Options, monitor: Monitor) -> Ints:
        return consecutive(instance)


class PointToPointFirst(MappingBaseline):
    """Parmesan's p2p map."""

    name = "point-to-point-first"
    summary = "replica after replica, its stages on neighbouring devices; ignores bandwidths"

    def devices(self, instance: Instance, options: Options, monitor: Monitor) -> Ints:
        return chains(instance)
