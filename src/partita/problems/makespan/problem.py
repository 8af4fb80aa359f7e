"""The makespan problem: one sample over devices that differ, and links that differ between every two of them.

Source: "Moirai: Towards Optimal Placement for Distributed Inference on Heterogeneous Devices" (2023), §III. Its flow
nodes are the flows here; transfers have no latency term there, here they are whatever the matrices say.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec

from partita.ground.checks import check_fields, check_number, check_scale
from partita.ground.dags import check_acyclic, check_ends, topological_order
from partita.ground.errors import InputError
from partita.ground.shown import brief
from partita.problems.kind import Stated


class Device(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One device."""

    name: str  #: For people.
    memory: float | None = None  #: What it holds, in the problem's unit of memory; None for no limit.


class MakespanOperator(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One operator."""

    id: int  #: Unique number; plans refer to it.
    times: tuple[float | None, ...]  #: Time on each device, in the problem's unit; None where it cannot run.
    name: str = ""  #: For people.
    memory: float = 0.0  #: What it takes of its device, for the whole run.
    colocation: int | None = None  #: Operators of one class run on one device; None for no class.
    module: str = ""  #: The part of a model that it belongs to, for people.
    type: str = ""  #: What it computes, in the words of fusion rules (``conv``); empty if that is not known.
    #: Of a fused operator the numbers of those it was made of, in their order; empty if it was not.
    members: tuple[int, ...] = ()

    @property
    def label(self) -> str:
        """The operator in a message."""
        names = " of ".join(name for name in (self.name, self.module) if name)
        return f"operator {self.id}" + (f" ({names})" if names else "")


class MakespanFlow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one operator hands to another."""

    id: int  #: Number, unique among the flows; plans refer to it.
    #: Ids of the producer and of the reader.
    source: int
    target: int
    #: Transfer time from each device (row) to each (column), in the problem's unit; 0 on the diagonal.
    times: tuple[tuple[float, ...], ...]


class MakespanProblem(Stated, frozen=True, kw_only=True):
    """Minimise the end of the last operator.

    A plan gives every operator a device and a start, and every flow between two devices a start;
    ``partita.problems.makespan.evaluate`` says what it must keep.

    Raises
    ------
    InputError
        If a value is negative or not finite, an id repeats or is unknown, a list has another length than there are
        devices, an operator runs nowhere, or the graph has a cycle.
    """

    kind: ClassVar[str] = "makespan"
    format: ClassVar[str] = "partita.makespan"

    devices: tuple[Device, ...]
    operators: tuple[MakespanOperator, ...]
    flows: tuple[MakespanFlow, ...] = ()  #: Between the operators, which form a directed acyclic graph.
    #: Pairs of ids: the second operator starts after the first has ended, wherever they run.
    precedence: tuple[tuple[int, int], ...] = ()
    #: Whether two flows that leave the same device, or enter the same device, exclude each other.
    sender_congestion: bool = True
    receiver_congestion: bool = True
    serial_operators: bool = True  #: Whether two operators on one device exclude each other.
    memory_unit: str = "bytes"  #: What memory is counted in, for people.

    def __post_init__(self) -> None:
        where = f"problem {self.name!r}"
        if not self.devices:
            raise InputError(f"{where} has no devices; a plan needs at least one")
        if not self.operators:
            raise InputError(f"{where} has no operators; a plan needs at least one")
        for device in self.devices:
            check_fields(f"{where}: device {device.name!r}", device, "memory")
        known: set[int] = set()
        for op in self.operators:
            owner = f"{where}: {op.label}"
            if op.id in known:
                raise InputError(f"{where}: operator id {op.id} appears twice; ids must be unique")
            known.add(op.id)
            _check_length(f"{owner}: times", op.times, len(self.devices))
            check_fields(owner, op, "memory")
            for device, time in zip(self.devices, op.times, strict=True):
                if time is not None:
                    check_number(owner, f"time on device {device.name!r}", time)
            if all(time is None for time in op.times):
                raise InputError(f"{owner} has no time on any device; give at least one")
        flow_ids: set[int] = set()
        for flow in self.flows:
            owner = f"{where}: flow {flow.id} ({flow.source} → {flow.target})"
            if flow.id in flow_ids:
                raise InputError(f"{where}: flow id {flow.id} appears twice; ids must be unique among flows")
            flow_ids.add(flow.id)
            check_ends(owner, "operator", (flow.source, flow.target), known)
            _check_transfers(owner, flow.times, self.devices)
        for pair in self.precedence:
            check_ends(f"{where}: precedence {pair[0]} → {pair[1]}", "operator", pair, known)
        check_acyclic(where, "operators", [op.id for op in self.operators], self.links())

    def scale_communication(self, factor: float) -> MakespanProblem:
        """A copy in which every transfer takes ``factor`` times as long.

        Raises
        ------
        InputError
            If the factor is negative or not finite.
        """
        check_scale(factor)
        if factor == 1.0:
            return self
        flows = tuple(
            msgspec.structs.replace(flow, times=tuple(tuple(time * factor for time in row) for row in flow.times))
            for flow in self.flows
        )
        return self.replace(flows=flows)

    def flow_labels(self) -> dict[int, str]:
        """Every flow in a message, by id: its number, and the name of its producer if that has one."""
        names = {op.id: f" ({op.name})" if op.name else "" for op in self.operators}
        return {flow.id: f"flow {flow.id}{names[flow.source]}" for flow in self.flows}

    def links(self) -> list[tuple[int, int]]:
        """The ends of every flow, then of every precedence, as places among the operators."""
        place = {op.id: number for number, op in enumerate(self.operators)}
        pairs = [(flow.source, flow.target) for flow in self.flows] + list(self.precedence)
        return [(place[source], place[target]) for source, target in pairs]

    def order(self) -> list[int]:
        """Places of the operators in topological order, in the problem's own where that is free."""
        return topological_order(len(self.operators), self.links())

    def ranks(self) -> tuple[list[int], dict[int, int]]:
        """Numbers by place of operators and by id of flows that grow along every dependency.

        What takes no time may be at the same instant as what it depends on: then these say what is first.
        """
        operators = [0] * len(self.operators)
        for number, place in enumerate(self.order()):
            operators[place] = 2 * number
        place_of = {op.id: place for place, op in enumerate(self.operators)}
        return operators, {flow.id: operators[place_of[flow.source]] + 1 for flow in self.flows}

    def classes(self) -> list[list[int]]:
        """Places of the operators that run together: every colocation class, every other operator alone."""
        found: dict[tuple[bool, int], list[int]] = {}
        for place, op in enumerate(self.operators):
            key = (False, place) if op.colocation is None else (True, op.colocation)
            found.setdefault(key, []).append(place)
        return list(found.values())


class PlacedOperator(msgspec.Struct, frozen=True, kw_only=True):
    """An operator's device, as a place among the problem's, and its time."""

    device: int
    start: float
    end: float


class Sent(msgspec.Struct, frozen=True, kw_only=True, rename={"source": "from", "target": "to"}):
    """A flow's devices, as places among the problem's, and its time; files call them ``from`` and ``to``."""

    source: int
    target: int
    start: float
    end: float


class MakespanPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What runs when."""

    operators: dict[int, PlacedOperator]  #: By id, every operator.
    flows: dict[int, Sent] = {}  #: By id, the flows between different devices, and only these.

    __repr__ = brief


def device_labels(names: Sequence[str]) -> list[str]:
    """The names of devices, with their number where there are several of a name."""
    return [name if names.count(name) == 1 else f"{name}:{number}" for number, name in enumerate(names)]


def _check_length(what: str, values: Sequence[Any], devices: int) -> None:
    if len(values) != devices:
        raise InputError(f"{what} has {len(values)} entries; it needs one for each of the {devices} devices")


def _check_transfers(owner: str, times: tuple[tuple[float, ...], ...], devices: Sequence[Device]) -> None:
    _check_length(f"{owner}: times", times, len(devices))
    for a, row in enumerate(times):
        _check_length(f"{owner}: times from device {devices[a].name!r}", row, len(devices))
        for b, time in enumerate(row):
            field = f"time from device {devices[a].name!r} to {devices[b].name!r}"
            check_number(owner, field, time)
            if a == b and time != 0:
                raise InputError(f"{owner}: {field} is {time}; it must be 0, nothing is moved")
