"""CostSource: where the times of operators come from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from partita.nouns.catalogue.specs import DeviceSpec
from partita.nouns.graph import Graph


class CostSource(Protocol):
    """Times of operators on a device."""

    def operator_times(self, graph: Graph, device: DeviceSpec) -> Sequence[float | None]:
        """Seconds each operator of the graph takes on the device, in order; None where it cannot run.

        Raises
        ------
        InputError
            If the source cannot tell.
        """

    def notes(self, graph: Graph) -> Sequence[str]:
        """What a reader should know about the times of a graph, one sentence each."""
