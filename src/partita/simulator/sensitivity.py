"""What would change a step, found by simulating it again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from partita.simulator.program import Program
from partita.simulator.simulate import Simulation, simulate

#: How much faster a device becomes, and how much wider a link.
FASTER, WIDER = 1.1, 2.0

#: The most slices that all further runs simulate together, so that these take a few seconds at most.
_SLICES = 2_000_000


@dataclass(frozen=True)
class Change:
    """A change and the step that it makes."""

    what: str  #: In words.
    step_time: float  #: Of the changed program.
    before: float  #: Of the program as it is.

    @property
    def saved(self) -> float:
        """Share of the step that is saved; negative if it becomes longer."""
        return 1 - self.step_time / self.before if self.before > 0 else 0.0


def changes(simulation: Simulation) -> list[Change]:
    """Every place of devices 10 % faster, and every link twice as wide, one at a time.

    Links are those of devices, where they move anything, and those between machines. Nothing else is changed: not the
    split, and not the schedule. Of long time lines only what is longest on the critical path is asked, and of very long
    ones nothing.
    """
    program, before = simulation.program, simulation.step_time
    variants = list(_variants(program, range(len(program.places))))
    runs = affordable(simulation)
    if len(variants) > runs:
        variants = list(_variants(program, _critical_places(simulation)[: runs // 2]))
    return [Change(what, simulate(changed).step_time, before) for what, changed in variants]


def affordable(simulation: Simulation) -> int:
    """How many further runs of such a time line take a few seconds at most."""
    return _SLICES // max(simulation.timeline.count, 1)


def _variants(program: Program, numbers: range | list[int]) -> Iterator[tuple[str, Program]]:
    for number in numbers:
        place = program.places[number]
        if not place.is_link and _works(program, number):
            yield f"{_owner(program, number)} 10 % faster", faster(program, number)
    for number in numbers:
        if _moves(program, number):
            what = (
                program.places[number].name
                if program.places[number].is_link
                else f"link of {program.places[number].name}"
            )
            yield f"{what} twice as wide", wider(program, number)


def _works(program: Program, number: int) -> bool:
    """Whether the devices of a place have anything to do."""
    updates = bool(program.ends) and program.ends[number].update > 0
    return updates or any(step.place == number and step.time > 0 for step in program.steps)


def _owner(program: Program, number: int) -> str:
    """A place with its devices."""
    place = program.places[number]
    names = [name for devices in place.replicas for name in devices]
    return f"{place.name} ({names[0] if len(names) == 1 else f'{len(names)} devices'})"


def _moves(program: Program, number: int) -> bool:
    steps = [step for step in program.steps if step.place == number]
    moved = any(
        number in (program.steps[m.source].place, program.steps[m.target].place, *m.links) for m in program.messages
    )
    if program.contention != "dedicated" and moved:
        return True
    if program.places[number].is_link:
        return any(step.time > 0 for step in steps) or any(e.link == number and e.link_sync for e in program.ends)
    ends = program.ends[number].sync > 0 if program.ends else False
    return ends or any(step.incoming > 0 or step.outgoing > 0 for step in steps)


def faster(program: Program, number: int, factor: float = FASTER) -> Program:
    """The program with a place's devices that much faster at their work, the optimizer's included."""
    steps = [
        replace(step, time=step.time / factor, times=None if step.times is None else step.times / factor)
        if step.place == number
        else step
        for step in program.steps
    ]
    ends = [
        replace(end, update=end.update / factor) if place == number else end for place, end in enumerate(program.ends)
    ]
    return replace(program, steps=steps, ends=ends)


def wider(program: Program, number: int, factor: float = WIDER) -> Program:
    """The program with a link (of a place's devices, or a place that is one) that much wider."""
    link = program.places[number].is_link
    steps = []
    for step in program.steps:
        if step.place == number and link:
            step = replace(step, time=step.time / factor)
        elif step.place == number:
            step = replace(step, incoming=step.incoming / factor, outgoing=step.outgoing / factor)
        steps.append(step)
    ends = []
    for place, end in enumerate(program.ends):
        if end.link == number:
            end = replace(end, link_sync=end.link_sync / factor)
        if place == number:
            behind = tuple((share, time / factor) for share, time in end.behind)
            end = replace(end, sync=end.sync / factor, behind=behind)
        ends.append(end)
    places = [
        replace(place, capacity=place.capacity * factor) if i == number else place
        for i, place in enumerate(program.places)
    ]
    return replace(program, steps=steps, ends=ends, places=places)


def _critical_places(simulation: Simulation) -> list[int]:
    """The places on the critical path, that which it spends most time at first."""
    program, line = simulation.program, simulation.timeline
    number = [use.place for use in simulation.uses]
    spent = np.zeros(len(program.places))
    for slice_ in simulation.critical():
        device = line.lanes[int(line.lane[slice_])].device
        if device >= 0:
            spent[number[device]] += line.end[slice_] - line.start[slice_]
    return [int(place) for place in np.argsort(-spent, kind="stable") if spent[place] > 0]
