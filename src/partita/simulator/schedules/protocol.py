"""What a schedule is: the order in which every rank of a pipeline runs its actions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

#: Forward, whole backward, gradient of the inputs, gradient of the weights: the letters of torch's schedules.
Letter = Literal["F", "B", "I", "W"]


class Action(NamedTuple):
    """One thing that a rank does: a part of a stage's work for a microbatch."""

    stage: int
    letter: Letter
    microbatch: int

    def __str__(self) -> str:
        return f"{self.stage}{self.letter}{self.microbatch}"


class Schedule:
    """A way to run microbatches through the stages of a pipeline.

    A pipeline has ranks 0, 1, … in a row, each with ``chunks`` stages. Ranks do their actions one after the other in
    the order that is given here, each as soon as its inputs are there. Whoever derives from this says ``name``,
    ``summary`` and ``orders``, and what differs of the rest.
    """

    #: On the command line; one line, with the source.
    name: str
    summary: str
    training: bool = True  #: Whether there are backward actions.
    flush: bool = True  #: Whether a batch ends before the next one begins.
    splits_backward: bool = False  #: Whether gradients of inputs and of weights are actions of their own.
    barrier: bool = False  #: Whether all forward work of a batch comes before all backward work.
    #: Whether ranks find a steady pace inside a long batch: then what they do for one microbatch follows on what they
    #: do for another, rather than on what they do for all.
    settles: bool = False
    default_chunks: int = 1  #: Stages of each rank if nothing is asked for.

    def refusal(self, ranks: int, chunks: int, microbatches: int) -> str | None:
        """Why it does not run with these numbers, and what would do; None if it does."""
        return None if chunks == 1 else f"schedule {self.name} has one stage on each rank; leave chunks at 1"

    def rank_of(self, ranks: int, chunks: int) -> list[int]:
        """The rank of every stage: by default 0, 1, …, and once more from the first for every further chunk."""
        return [stage % ranks for stage in range(ranks * chunks)]

    def orders(self, ranks: int, chunks: int, microbatches: int) -> list[list[Action]]:
        """What every rank does, in order; called only where ``refusal`` has nothing to say."""
        raise NotImplementedError

    def in_flight(self, rank: int, ranks: int, chunks: int, microbatches: int) -> int | None:
        """The most (chunk, microbatch) pairs whose activations a rank holds at once; None if no formula is known.

        They are held from the start of the forward action to the end of the action that ends the backward part; where
        there is no backward part, to the end of the forward action.
        """
        return None

    def weight_versions(self, in_flight: int) -> int:
        """How many versions of its weights a rank keeps that may hold so many microbatches at once.

        One where a batch ends before the next begins. Without a flush a microbatch's backward part should use the
        weights that its forward part used, and updates happen in between.
        """
        return 1


class InTurns(Schedule):
    """A schedule in which what a rank does depends on its own microbatches and on how many it may hold alone.

    Such schedules also run where stages have different numbers of replicas that take turns at microbatches.
    """

    def own_order(self, stage: int, microbatches: Sequence[int], in_flight: int) -> list[Action]:
        """What a replica of a stage does with its own microbatches, of which it may hold so many at once."""
        raise NotImplementedError

    def orders(self, ranks: int, chunks: int, microbatches: int) -> list[list[Action]]:
        return [self.own_order(rank, range(microbatches), ranks - rank) for rank in range(ranks)]
