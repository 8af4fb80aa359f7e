"""A simulation as plain values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from partita.simulator.critical import critical_summary
from partita.simulator.sensitivity import Change
from partita.simulator.simulate import DeviceUse, Simulation

#: Of what makes a peak of memory, how much is named.
NAMED = 8

#: What a device of a place holds: name, bytes, and whether it is held for every microbatch in flight.
Holding = tuple[str, float, bool]


def simulation_document(
    simulation: Simulation,
    sensitivities: Sequence[Change] = (),
    holdings: Callable[[int], Sequence[Holding]] | None = None,
) -> dict[str, Any]:
    """What a simulation says, and what would change it, in the program's unit of time and in bytes.

    ``holdings`` says what the devices of a place hold, one by one, where that is known.
    """
    program, line = simulation.program, simulation.timeline
    path = simulation.critical()
    summary = critical_summary(line, path)
    latencies = simulation.latencies
    devices: list[dict[str, Any]] = []
    for number, use in enumerate(simulation.uses):
        entry = _device(simulation, number, use, holdings)
        devices += [{"name": name, **entry} for name in use.devices]
    return {
        "name": program.name,
        "schedule": program.schedule,
        "microbatches": program.microbatches,
        "pieces": list(program.pieces),
        "contention": program.contention,
        "unit": program.unit,
        "step_time": simulation.step_time,
        "throughput": simulation.throughput,
        "bubble_fraction": simulation.bubble_fraction,
        "steady_period": simulation.period,
        "first_microbatch": {"ends": float(simulation.left[0]), "takes": float(latencies[0])},
        "last_microbatch": {"ends": float(simulation.left[-1]), "takes": float(latencies[-1])},
        "devices": devices,
        "links": _links(simulation),
        "critical_path": [line.label(place) for place in path],
        "critical_time": {
            "by_sort": dict(summary.by_sort),
            "by_device": dict(summary.by_owner),
            "waiting": summary.waiting,
        },
        "sensitivities": [
            {"change": change.what, "step_time": change.step_time, "saved": change.saved} for change in sensitivities
        ],
        "notes": list(program.notes),
    }


def _device(
    simulation: Simulation, number: int, use: DeviceUse, holdings: Callable[[int], Sequence[Holding]] | None
) -> dict[str, Any]:
    place = simulation.program.places[use.place]
    found: dict[str, Any] = {
        "place": place.name,
        "replica": use.instance,
        "busy": use.busy,
        "communication_exposed": use.communication_exposed,
        "communication_hidden": use.communication_hidden,
        "idle": use.idle,
        "peak_memory_bytes": use.peak_memory_bytes,
        "peak": None,
    }
    if use.peak_time is not None:
        curve = simulation.timeline.memory[number]
        at = int(curve.total.argmax())
        flying = simulation.held(use.place, use.instance, use.peak_time)
        found["peak"] = {
            "time": use.peak_time,
            "limit_bytes": curve.limit,
            "parts": {name: float(levels[at]) for name, levels in curve.parts.items()},
            "microbatches": flying,
            "tensors": _largest(() if holdings is None else holdings(use.place), len(flying)),
        }
    return found


def _largest(holdings: Sequence[Holding], flying: int) -> list[dict[str, Any]]:
    """The largest of what a device holds at its peak."""
    sizes = [(name, size * flying if each else size, each) for name, size, each in holdings]
    sizes = sorted((entry for entry in sizes if entry[1] > 0), key=lambda entry: (-entry[1], entry[0]))
    return [
        {"name": name, "bytes": size, "microbatches": flying if each else None} for name, size, each in sizes[:NAMED]
    ]


def _links(simulation: Simulation) -> list[dict[str, Any]]:
    """Links that are no device's, and for how long each is in use."""
    line = simulation.timeline
    busy: dict[str, float] = {}
    for number, lane in enumerate(line.lanes):
        if lane.device < 0:
            mine = line.lane == number
            name = lane.owner if lane.stream == "link" else f"{lane.owner}, {lane.stream}"
            busy[name] = float((line.end[mine] - line.start[mine]).sum())
    return [{"name": name, "busy": time} for name, time in busy.items()]
