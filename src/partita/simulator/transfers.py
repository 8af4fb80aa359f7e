"""Transfers that stand in each other's way: each takes, or shares, its ends' engines and the links that it passes."""

from __future__ import annotations

import math

import numpy as np

from partita.engines.kernels.arrays import Longs
from partita.simulator.builder import ProgramTasks
from partita.simulator.timeline import TRANSFER


class _Engines:
    """What moves data at a place, by direction: things to hold one at a time, or links to share."""

    def __init__(self, builder: ProgramTasks) -> None:
        self.builder = builder
        self.known: dict[tuple[int, str], Longs] = {}

    def of(self, number: int, outward: bool) -> Longs | None:
        """One engine for every instance of a place; None where moving costs nothing."""
        place = self.builder.program.places[number]
        if math.isinf(place.capacity):
            return None
        direction = ("out" if outward else "in") if place.streams == "duplex" else "both"
        key = number, direction
        if key not in self.known:
            if self.builder.program.contention == "serial":
                self.known[key] = self.builder.new_things(place.instances)
            else:
                first = len(self.builder.capacity)
                self.builder.capacity += [place.capacity] * place.instances
                self.known[key] = np.arange(first, first + place.instances, dtype=np.int64)
        return self.known[key]


def add_messages(builder: ProgramTasks) -> None:
    """A transfer for every message and microbatch."""
    program, micro = builder.program, builder.micro
    engines = _Engines(builder)
    serial = program.contention == "serial"
    for message in program.messages:
        ends = program.steps[message.source].place, program.steps[message.target].place
        passed = [(ends[0], True), *zip(message.links, (True, False), strict=False), (ends[1], False)]
        found = [(number, engines.of(number, outward)) for number, outward in passed]
        capacity = min((program.places[number].capacity for number, engine in found if engine is not None), default=0.0)
        time, amount = message.latency, 0.0
        if capacity:
            time, amount = (time + message.size / capacity, 0.0) if serial else (time, message.size)
        added = builder.add(
            time, TRANSFER, builder.lanes_at(ends[0], "link", micro), message.source, micro, amount=amount
        )
        builder.wait(added, builder.tail[message.source] + micro)
        builder.wait(builder.head[message.target] + micro, added)
        builder.received.append((added, builder.lanes_at(ends[1], "link", micro)))
        for _, engine in found:
            if engine is not None and (serial or amount):
                taken = builder.holds if serial else builder.uses
                taken.append((added, engine[micro % len(engine)]))
