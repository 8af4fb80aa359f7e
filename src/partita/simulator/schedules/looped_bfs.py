"""Breadth-first pipeline: every stage runs all microbatches before the rank goes on to its next stage."""

from __future__ import annotations

from partita.simulator.schedules.protocol import Action, Schedule


class LoopedBreadthFirst(Schedule):
    """GPipe with several stages on each rank (Lamy-Poirier, "Breadth-First Pipeline Parallelism", MLSys 2023).

    Backward, stages and microbatches are gone through from the last to the first.
    """

    name = "looped-bfs"
    summary = "all forward, then all backward, stage by stage of several on each rank (Lamy-Poirier, MLSys 2023)"
    default_chunks = 2

    def refusal(self, ranks: int, chunks: int, microbatches: int) -> str | None:
        """It runs with all numbers."""
        return None

    def orders(self, ranks: int, chunks: int, microbatches: int) -> list[list[Action]]:
        """All forward actions, and the backward actions in the opposite order."""
        orders = []
        for rank in range(ranks):
            stages = range(rank, ranks * chunks, ranks)
            forward = [Action(stage, "F", microbatch) for stage in stages for microbatch in range(microbatches)]
            orders.append(forward + [action._replace(letter="B") for action in reversed(forward)])
        return orders

    def in_flight(self, rank: int, ranks: int, chunks: int, microbatches: int) -> int:
        """All microbatches in all stages."""
        return chunks * microbatches
