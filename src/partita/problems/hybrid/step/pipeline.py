"""What a schedule makes of the times of stages, and what it holds.

With p stages, v parts of each, and n microbatches for each replica, a pipeline takes

    Σ φ_i + max κ_i,   κ_i = n·τ_i − φ_i

from the first forward to the last backward part: while stage i works on all its microbatches, one microbatch passes the
others for the first and the last time, and delays i by their φ. τ_i is what a stage takes for one microbatch.

| schedule | φ | source |
|---|---|---|
| 1f1b | τ | Narayanan et al., SC 2021, §2.2 |
| gpipe | τ | Huang et al., NeurIPS 2019: the sum of φ + κ of forward and of backward parts, each with a κ of its own |
| interleaved | τ/v | Narayanan et al., SC 2021, §2.2 |
| zero-bubble | max(f, b, f + b − w), f forward, b and w backward | Qi et al., ICLR 2024, §2.1; simulated |
b is the backward part without gradients of weights, w the rest of it.
"""

from __future__ import annotations

import functools

from partita.simulator.schedules.interleaved import warm_up
from partita.simulator.schedules.phases import one_each
from partita.simulator.schedules.rounds import backward_units, forward_units


def passing_time(schedule: str, chunks: int, forward: float, backward: float, weight_gradients: float) -> float:
    """By how much a stage delays the others, φ: see above; the backward part includes gradients of weights."""
    if schedule == "zero-bubble":
        inputs = backward - weight_gradients
        return max(forward, inputs, forward + inputs - weight_gradients)
    return (forward + backward) / chunks


def pipeline_time(passing: list[float], holding: list[float], ahead: list[float]) -> float:
    """From the first forward to the last backward part, given φ, κ and, where they are apart, κ of forward parts."""
    return sum(passing) + max(holding) + max(ahead)


def refusal(schedule: str, stages: int, chunks: int, microbatches: int, zero: int) -> str | None:
    """Why a schedule does not run such a pipeline with so many microbatches for each replica; None if it does.

    ``zero`` is ZeRO's stage.
    """
    if schedule == "zero-bubble" and stages > 1 and zero > 1:
        return f"no runtime has a zero-bubble schedule beside ZeRO-{zero}; take ZeRO-1, or another schedule"
    if schedule == "zero-bubble" and microbatches < stages:
        return (
            f"a zero-bubble schedule takes as many microbatches as its {stages} stages or more, each replica has "
            f"{microbatches}"
        )
    if schedule != "interleaved":
        return None if chunks == 1 else f"schedule {schedule} passes every stage once, the plan has {chunks} parts"
    if chunks < 2 or stages < 2:
        return "an interleaved schedule has two stages or more, in two parts or more each"
    if microbatches % stages:
        return (
            f"an interleaved schedule takes a multiple of its {stages} stages in microbatches, each replica has "
            f"{microbatches}"
        )
    return None


def held(schedule: str, stages: int, chunks: int, microbatches: int, rank: int) -> tuple[tuple[int, ...], ...]:
    """The most that a rank holds: numbers of microbatches in flight in each of its parts, none of which rules another.

    They are held from the forward part to the end of the backward part, as simulated.
    """
    if schedule == "interleaved":
        return _interleaved(stages, chunks, microbatches, rank)
    if schedule == "gpipe":
        return ((microbatches,),)
    if schedule == "zero-bubble":
        return ((min(stages, microbatches),),)
    return ((min(stages - rank, microbatches),),)


@functools.lru_cache(maxsize=4096)
def _interleaved(stages: int, chunks: int, microbatches: int, rank: int) -> tuple[tuple[int, ...], ...]:
    """Counts along the order of a rank; beyond a few rounds they repeat."""
    count = min(microbatches, 4 * stages)
    actions = one_each(
        forward_units(rank, stages, chunks, count),
        backward_units(rank, stages, chunks, count),
        warm_up(rank, stages, chunks, count),
    )
    now = [0] * chunks
    seen: set[tuple[int, ...]] = set()
    for action in actions:
        part = action.stage // stages
        now[part] += 1 if action.letter == "F" else -1
        if action.letter == "F":
            seen.add(tuple(now))
    return tuple(
        sorted(
            one
            for one in seen
            if not any(other != one and all(a <= b for a, b in zip(one, other, strict=True)) for other in seen)
        )
    )
