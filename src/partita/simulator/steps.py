"""A step in a few numbers, of long batches without simulating all of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from partita.ground.errors import InputError
from partita.ground.rounding import TOLERANCE
from partita.simulator.program import Program
from partita.simulator.simulate import Simulation, simulate
from partita.simulator.timeline import SYNC, UPDATE

#: Steps times microbatches up to which a batch is simulated whole.
_WHOLE = 60_000


@dataclass(frozen=True)
class StepSummary:
    """A simulated step, in the program's unit of time."""

    time: float  #: Of the whole step.
    pipeline: float  #: Up to the end of the last backward part, or of the last forward part without training.
    #: What synchronisation and update take after that.
    weight_sync: float
    update: float
    idle: float  #: What all devices together wait, device by device.
    devices: int  #: How many there are.

    @property
    def bubble(self) -> float:
        """Share of the devices' time in which they wait."""
        return self.idle / (self.time * self.devices) if self.time > 0 else 0.0


def summary(simulation: Simulation) -> StepSummary:
    """What a simulation says of its step."""
    line = simulation.timeline
    begin, finish = simulation.begin, simulation.finish
    passed = [begin]
    last = np.isin(line.sort, (SYNC, UPDATE))
    for chosen in (~last, line.sort == SYNC):
        passed.append(max(passed[-1], min(float(line.end[chosen].max()), finish) if chosen.any() else begin))
    return StepSummary(
        time=simulation.step_time,
        pipeline=passed[1] - begin,
        weight_sync=passed[2] - passed[1],
        update=finish - passed[2],
        idle=sum(use.idle * len(use.devices) for use in simulation.uses),
        devices=sum(len(use.devices) for use in simulation.uses),
    )


def step_summary(make: Callable[[int], Program], microbatches: int) -> StepSummary:
    """The step of a batch of so many microbatches, for any number of which ``make`` gives the program.

    A long batch is not simulated whole where it repeats itself. A *turn* is as many microbatches as give each replica
    as many as its like. In a shorter batch, with as many microbatches left over from whole turns, look at all that is
    in flight before it drains, and a turn earlier: if every part of every step of all these microbatches starts and
    ends just one turn's time later than the one a turn before, whatever is still to come finds the same state at both
    times. So the longer batch goes on like that, turn by turn, and drains as the shorter one does. Schedules that do
    not settle inside a batch are simulated whole.
    """
    try:
        found = _from_shorter(make, microbatches)
    except InputError:
        # Some schedules only take certain numbers.
        found = None
    return summary(simulate(make(microbatches))) if found is None else found


def _from_shorter(make: Callable[[int], Program], microbatches: int) -> StepSummary | None:
    """The step of a batch from shorter ones; None if it has to be simulated whole."""
    probe = make(1)
    turn = math.lcm(*(place.instances for place in probe.places))
    depth = sum(place.instances for place in probe.places)
    if not (probe.settles and probe.flushes and len(probe.steps) * microbatches > _WHOLE):
        return None
    for factor in (6, 30):
        base = microbatches % turn + -(-factor * depth // turn) * turn + 2 * turn
        if 2 * base >= microbatches:
            break
        short = simulate(make(base))
        if _repeats(short, turn, max(depth, _most_held(short.program))):
            return _extended(summary(short), summary(simulate(make(base + turn))), (microbatches - base) // turn)
    return None


def _most_held(program: Program) -> int:
    """The most microbatches that are between their forward and backward work at some place."""
    change = np.array([{"F": 1, "B": -1, "W": -1}.get(step.letter, 0) for step in program.steps], dtype=np.int64)
    held = [
        int(np.cumsum(change[order.steps]).max(initial=0)) * program.places[order.place].instances
        for order in program.orders or ()
    ]
    return max(held, default=0)


def _repeats(simulation: Simulation, turn: int, depth: int) -> bool:
    """Whether the batch repeats itself, turn by turn, before it drains."""
    last = simulation.program.total - depth
    first = last - 2 * depth - turn
    if first < turn:
        return False
    shifts = [table[:, first:last] - table[:, first - turn : last - turn] for table in simulation.passed]
    period = float(shifts[1].max())
    return period > 0 and all(bool(np.all(np.abs(shift - period) <= TOLERANCE * period)) for shift in shifts)


def _extended(short: StepSummary, longer: StepSummary, turns: int) -> StepSummary:
    """A batch that is longer by so many turns, from two that differ by one."""
    added = longer.time - short.time
    return StepSummary(
        time=short.time + turns * added,
        pipeline=short.pipeline + turns * added,
        weight_sync=short.weight_sync,
        update=short.update,
        idle=short.idle + turns * (longer.idle - short.idle),
        devices=short.devices,
    )
