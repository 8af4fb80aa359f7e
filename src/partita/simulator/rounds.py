"""Rounds: an order in which every device keeps up with the busiest one, however often it is passed.

Cut what a microbatch passes into units, each on one stream (a device's work, its copies, a link). Number the rounds; a
unit that is ``offset`` rounds from the start takes microbatch m in round m + offset, a unit at a place of r instances
that take turns stays r rounds. Every unit lies behind those that it waits for, so if each round lasts as long as the
busiest stream is busy for one microbatch, everything is ready when its round begins: a stream that does what is due in
the order of the rounds keeps that pace, whatever order the graph has. Run without waiting for the ends of rounds, no
unit is later than that. (Tarnawski et al., NeurIPS 2020, §5.2, have the rounds; there devices advance together.)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from partita.engines.kernels.arrays import Longs
from partita.ground.dags import topological_order
from partita.simulator.program import Place, Program, Step

#: The parts of a step, in order.
IN, WORK, OUT = range(3)


#: More parts than a program has steps in a row.
_FAR = 1_000


def parts_of(place: Place, step: Step) -> list[int]:
    """Which parts a step has."""
    if place.is_link:
        return [WORK]
    return [part for part, time in enumerate((step.incoming, 1.0, step.outgoing)) if time > 0]


def offsets(program: Program) -> Longs:
    """(steps, 3) Rounds from the start of every step's parts; −1 for parts that a step does not have."""
    count = len(program.steps)
    found = np.full((count, 3), -1, dtype=np.int64)
    before: list[list[int]] = [[] for _ in range(count)]
    for source, target in program.edges:
        before[target].append(source)
    end = [0] * count
    for number in topological_order(count, program.edges):
        step = program.steps[number]
        place = program.places[step.place]
        due = max((end[source] for source in before[number]), default=0)
        if program.barrier and step.letter == "B":
            # Behind all that goes forward: that is never as many rounds deep.
            due = max(due, _FAR * program.total)
        for part in parts_of(place, step):
            found[number, part] = due
            if place.streams != "sum":
                due += place.instances
        end[number] = due + (place.instances if place.streams == "sum" else 0)
    return found


def in_rounds(units: Sequence[tuple[int, int]], instance: int, instances: int, total: int) -> tuple[Longs, Longs]:
    """Columns and microbatches of one stream, the given one of its instances, in the order of the rounds.

    Units are (offset, column) of everything that the stream does for a microbatch, of which there are so many in total.
    """
    mine = np.arange(instance, total, instances, dtype=np.int64)
    rounds = np.concatenate([mine + offset for offset, _ in units])
    column = np.repeat(np.array([column for _, column in units], dtype=np.int64), len(mine))
    depth = np.repeat(np.array([offset for offset, _ in units], dtype=np.int64), len(mine))
    microbatch = np.tile(mine, len(units))
    # Of what is due in the same round, the deepest first: it is the oldest.
    order = np.lexsort((column, -depth, rounds))
    return column[order], microbatch[order]
