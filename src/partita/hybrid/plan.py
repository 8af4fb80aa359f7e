"""A hybrid plan: stages with their degrees of parallelism, first stage first."""

from __future__ import annotations

import msgspec

__all__ = ["HybridPlan", "HybridStage"]


class HybridStage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One stage, on ``data_parallel · tensor_parallel`` devices of its own.

    Attributes
    ----------
    operators
        Ids of its layers, in the problem's order.
    data_parallel
        Replicas of the stage (d); they take turns at microbatches.
    tensor_parallel
        Devices of each replica (t).
    configurations
        Id of the configuration chosen for each layer, all of degree t.
    """

    operators: tuple[int, ...]
    data_parallel: int
    tensor_parallel: int
    configurations: dict[int, str]

    @property
    def devices(self) -> int:
        """Devices it uses."""
        return self.data_parallel * self.tensor_parallel


class HybridPlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Stages in pipeline order, first stage first."""

    stages: tuple[HybridStage, ...]

    @property
    def devices(self) -> int:
        """Devices that all stages use together."""
        return sum(stage.devices for stage in self.stages)

    @property
    def microbatches(self) -> int:
        """Microbatches in flight: data-parallel replicas of all stages together."""
        return sum(stage.data_parallel for stage in self.stages)
