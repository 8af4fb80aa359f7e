"""What interleaved schedules share: ranks that go through their stages in turn, a round of microbatches at a time.

Megatron-LM (Narayanan et al., SC 2021, section 2.2) has rounds of as many microbatches as ranks. torch's schedules also
have longer ones, all of one length, and one short round.
"""

from __future__ import annotations

from partita.simulator.schedules.phases import Unit
from partita.simulator.schedules.protocol import Schedule


class InRounds(Schedule):
    """A schedule of several stages on each rank, whose microbatches make rounds of one length."""

    default_chunks = 2

    def refusal(self, ranks: int, chunks: int, microbatches: int) -> str | None:
        return _uneven(self.name, ranks, microbatches)


def round_length(ranks: int, microbatches: int) -> int:
    """How many microbatches a round has."""
    return microbatches // max(1, microbatches // ranks)


def _uneven(name: str, ranks: int, microbatches: int) -> str | None:
    """What to do about microbatches that rounds of one length cannot share; None if they can."""
    if _even(ranks, microbatches):
        return None
    fewer = next(number for number in range(microbatches, 0, -1) if _even(ranks, number))
    more = next(number for number in range(microbatches, microbatches + ranks) if _even(ranks, number))
    return (
        f"schedule {name} runs microbatches in rounds of one length, and {microbatches} microbatches on {ranks} ranks "
        f"make {microbatches // ranks} unequal ones; use {fewer} or {more} microbatches, or a multiple of the ranks"
    )


def _even(ranks: int, microbatches: int) -> bool:
    """Whether rounds have one length."""
    return microbatches % max(1, microbatches // ranks) == 0


def forward_units(rank: int, ranks: int, chunks: int, microbatches: int) -> list[Unit]:
    """In which order a rank's parts go forward: round by round, in each from the first stage to the last."""
    return _units(range(rank, ranks * chunks, ranks), ranks, microbatches)


def backward_units(rank: int, ranks: int, chunks: int, microbatches: int) -> list[Unit]:
    """In which order a rank's parts go backward: round by round, in each from the last stage to the first."""
    return _units(range(rank, ranks * chunks, ranks)[::-1], ranks, microbatches)


def _units(stages: range, ranks: int, microbatches: int) -> list[Unit]:
    """Rounds, each through the stages in this order."""
    length = round_length(ranks, microbatches)
    return [
        (stage, microbatch)
        for start in range(0, microbatches, length)
        for stage in stages
        for microbatch in range(start, start + length)
    ]
