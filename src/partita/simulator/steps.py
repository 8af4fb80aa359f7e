"""A step in a few numbers, of long batches without simulating all of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import astuple, dataclass

import numpy as np

from partita.simulator.program import Program
from partita.simulator.simulate import Simulation, simulate
from partita.simulator.timeline import SYNC, UPDATE

#: Steps times microbatches up to which a batch is simulated whole.
_WHOLE = 60_000

#: Two further turns of microbatches that take equally long, within this share of a step, show that the pace is steady.
_SAME = 1e-10


@dataclass(frozen=True)
class StepSummary:
    """A simulated step, in the program's unit of time.

    Attributes
    ----------
    time
        Of the whole step.
    pipeline
        Up to the end of the last backward part, or of the last forward part without training.
    weight_sync, update
        What synchronisation and update take after that.
    idle
        What all devices together wait, device by device.
    devices
        How many there are.
    """

    time: float
    pipeline: float
    weight_sync: float
    update: float
    idle: float
    devices: int

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
    """The step of a batch.

    A long batch is not simulated whole where its pace is steady: if one more turn of microbatches, in which every
    replica gets as many as its like, adds the same to every figure twice in a row, all further ones do. Batches that
    are compared have as many microbatches left over from whole turns.

    Parameters
    ----------
    make
        The program of a batch of so many microbatches.
    microbatches
        Of the batch.
    """
    probe = make(1)
    turn = math.lcm(*(place.instances for place in probe.places))
    depth = sum(place.instances for place in probe.places)
    if len(probe.steps) * microbatches > _WHOLE:
        for turns in (4, 16):
            base = microbatches % turn + -(-turns * depth // turn) * turn
            if base + 2 * turn >= microbatches:
                break
            runs = [np.array(astuple(summary(simulate(make(base + k * turn))))) for k in range(3)]
            added = runs[2] - runs[1]
            if np.all(np.abs(added - (runs[1] - runs[0])) <= _SAME * runs[2][0] * np.maximum(runs[2][-1], 1)):
                whole = runs[0] + added * ((microbatches - base) // turn)
                time, pipeline, weight_sync, update, idle = whole[:-1].tolist()
                return StepSummary(time, pipeline, weight_sync, update, idle, int(whole[-1]))
    return summary(simulate(make(microbatches)))
