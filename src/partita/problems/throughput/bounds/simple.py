"""The simple bound of identical devices: the largest item, and the mean work of a device.

Source: Archer et al., "Practical Performance Guarantees for Pipelined DNN Inference" (ICML 2024), §3.
"""

from __future__ import annotations

from partita.problems.throughput.bounds.protocol import HierarchyBound


class SimpleBound(HierarchyBound):
    """What any split of the work over identical devices costs; ``capacity`` is the same for mixed devices."""

    name = "simple"
    summary = "largest operator, and total work over the number of devices; ignores communication"
    argument = "a device holds the largest operator, and one device does at least the mean of the work"
    scope = "free"
