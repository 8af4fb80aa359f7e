"""How work, transfers, synchronisation and reloading make the load of a device.

Sources: Tarnawski et al., "Efficient Algorithms for Device Placement of DNN Graph Operators" (NeurIPS 2020), Appendix
H.1 (overlap), H.2 (replicas) and §5.3 (GPipe's objective); "Pipelined inference" (ICML 2024), eq. 2 and 3 (reloading).
``docs/variants.md`` gives the definitions in one place.
"""

from __future__ import annotations

import msgspec

from partita.problems.throughput.devices import DeviceKind
from partita.problems.throughput.problem import Communication, ThroughputProblem


class Transfers(msgspec.Struct, frozen=True, kw_only=True):
    """Transfer times of distinct tensors that cross a boundary, by direction.

    ``forward_in`` and ``forward_out`` are of tensors made by forward operators, the other two of those made by backward
    operators.
    """

    forward_in: float = 0.0
    forward_out: float = 0.0
    backward_in: float = 0.0
    backward_out: float = 0.0

    @property
    def incoming(self) -> float:
        """All that enters."""
        return self.forward_in + self.backward_in

    @property
    def outgoing(self) -> float:
        """All that leaves."""
        return self.forward_out + self.backward_out


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """Time per sample, and its parts in the forward and in the backward phase (GPipe; otherwise all of it twice)."""

    total: float
    forward: float
    backward: float


def combined(communication: Communication, work: float, incoming: float, outgoing: float) -> float:
    """Time for work and transfers: their sum, or the largest of what happens at once."""
    if communication == "sum":
        return work + (incoming + outgoing)
    if communication == "overlap":
        return max(work, incoming + outgoing)
    return max(work, incoming, outgoing)


def synchronisation(problem: ThroughputProblem, kind: DeviceKind, weight_bytes: float, replicas: int) -> float:
    """Time per sample in which ``replicas`` devices synchronise their weights: (r − 1)/r · bytes · time per byte."""
    batch = problem.schedule.microbatches if problem.weight_sync_per_batch else 1
    return (replicas - 1) * weight_bytes * kind.sync_time_per_byte / (replicas * batch)


def device_load(
    problem: ThroughputProblem,
    *,
    forward: float,
    backward: float,
    transfers: Transfers,
    reload: float = 0.0,
    synchronisation: float = 0.0,
    replicas: int = 1,
) -> Load:
    """Load of each of the replicas of a stage.

    Parameters
    ----------
    problem
        Says how the parts combine.
    forward, backward
        Work per sample of the stage.
    transfers
        What crosses its boundary.
    reload
        Time to fetch what does not fit into memory. It delays work, and cannot overlap with it; with GPipe's objective
        it belongs to the backward phase, where weights and activations are all needed.
    synchronisation
        Time to synchronise weights, of the backward phase: added where transfers add to work, otherwise at once.
    replicas
        Devices that take turns.
    """

    def shared(time: float, synchronised: float) -> float:
        each = time / replicas
        return each + synchronised if problem.communication == "sum" else max(each, synchronised)

    t = transfers
    if not problem.gpipe:
        time = combined(problem.communication, forward + backward, t.incoming, t.outgoing) + reload
        total = shared(time, synchronisation)
        return Load(total=total, forward=total, backward=total)
    first = shared(combined(problem.communication, forward, t.forward_in, t.forward_out), 0.0)
    second = shared(combined(problem.communication, backward, t.backward_in, t.backward_out) + reload, synchronisation)
    return Load(total=first + second, forward=first, backward=second)


def group_load(problem: ThroughputProblem, transfers: Transfers) -> Load:
    """Load of a group's link: its transfers alone (Tarnawski et al., "Piper", NeurIPS 2021, Appendix E)."""
    return device_load(problem, forward=0.0, backward=0.0, transfers=transfers)
