"""What a throughput plan is worth: the values that ``partita.problems.throughput.evaluate`` computes."""

from __future__ import annotations

from typing import Any

import msgspec

from partita.engines.search.result import PlanEvaluation


class TransferTimes(msgspec.Struct, frozen=True, kw_only=True):
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


class BusyTime(msgspec.Struct, frozen=True, kw_only=True):
    """Time per microbatch that a device or link is busy, in the problem's time unit.

    ``forward_load`` and ``backward_load`` are the parts of the load that GPipe's objective maximises one by one;
    otherwise both are the load.
    """

    load: float
    forward_load: float
    backward_load: float


class StageMemory(msgspec.Struct, frozen=True, kw_only=True):
    """Memory of one stage in bytes, by what it is for.

    ``operators`` is what instance files attach to operators; ``activations`` is for all microbatches in flight.
    """

    operators: float = 0.0
    weights: float = 0.0
    cache: float = 0.0
    gradients: float = 0.0
    optimizer: float = 0.0
    activations: float = 0.0
    workspace: float = 0.0
    limit: float | None = None

    @property
    def parts(self) -> dict[str, float]:
        """What it is for, by name."""
        parts: dict[str, Any] = msgspec.structs.asdict(self)
        del parts["limit"]
        return parts

    @property
    def total(self) -> float:
        """The sum of all parts."""
        return sum(self.parts.values())


class StageEvaluation(BusyTime, frozen=True, kw_only=True):
    """One stage, in the problem's time unit and bytes; the load is that of each of its devices."""

    #: As in the plan.
    device: str
    kind: str
    #: Work per microbatch; recomputation is part of the backward work.
    compute_forward: float
    compute_backward: float
    transfers: TransferTimes  #: Transfer times of distinct tensors that enter and leave.
    memory: StageMemory  #: What each device must hold.
    in_flight: int = 1  #: Microbatches whose activations it holds at once.
    replicas: int = 1  #: Devices that run the stage, each its share of the samples.
    synchronisation: float = 0.0  #: Time per microbatch to synchronise the replicas' weights.
    reload: float = 0.0  #: Time per microbatch to fetch what exceeds the memory (streaming).

    @property
    def compute(self) -> float:
        """Forward and backward work."""
        return self.compute_forward + self.compute_backward

    @property
    def communication_in(self) -> float:
        """Transfer time of distinct tensors that enter."""
        return self.transfers.incoming

    @property
    def communication_out(self) -> float:
        """Transfer time of distinct tensors that leave."""
        return self.transfers.outgoing

    @property
    def communication(self) -> float:
        """Transfer time in both directions."""
        return self.communication_in + self.communication_out


class GroupEvaluation(BusyTime, frozen=True, kw_only=True):
    """One group of devices; its load is that of its link to the others."""

    name: str
    transfers: TransferTimes


class Evaluation(PlanEvaluation, frozen=True, kw_only=True):
    """What a plan is worth: the largest load; for GPipe's objective the largest forward and backward loads added.

    It is feasible if every device can run its operators and hold them, and the plan keeps what it claims.
    """

    #: Whether the stages can be ordered so that every forward tensor goes forward and each group's are consecutive.
    acyclic: bool
    stages: tuple[StageEvaluation, ...]  #: In the plan's order.
    groups: tuple[GroupEvaluation, ...] = ()  #: In the problem's order.

    @property
    def bottleneck(self) -> int:
        """Index of the first stage with the largest load."""
        return max(range(len(self.stages)), key=lambda i: (self.stages[i].load, -i))
