"""Models on clusters with several kinds of devices: the layers are priced on each kind alone, and put together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from partita.nouns.cluster import Cluster
from partita.nouns.graph import Graph
from partita.problems.hybrid.problem import Hierarchy, HybridProblem
from partita.problems.hybrid.spaces import StrategySpaces
from partita.problems.hybrid.step.pricing import step_spaces
from partita.problems.hybrid.training import Training

#: Most kinds of devices that stages may be on.
MOST_KINDS = 3


def uneven_kinds(cluster: Cluster) -> str | None:
    """What keeps a cluster's machines from being alike kind by kind, as the rest of a sentence; None if they are.

    Devices are accelerators, where there are any; clusters of one kind are those that ``machines.uneven`` is about.
    """
    groups, machine = cluster.workers(), cluster.machine_of()
    if len(groups) > MOST_KINDS:
        return f"has {len(groups)} kinds of devices, and stages may be on {MOST_KINDS}"
    if cluster.matrix_bytes_per_s is not None:
        return "has several kinds of devices and a bandwidth matrix"
    seen: dict[int, str] = {}
    for group in groups:
        counts = cluster.per_machine(group)
        if len(set(counts)) > 1:
            return f"has machines of {min(counts)} to {max(counts)} {group.spec.name}"
        for device in group.indices:
            if seen.setdefault(machine[device], group.spec.name) != group.spec.name:
                return f"has a machine with {seen[machine[device]]} and {group.spec.name}"
    return None


def priced_on_kinds(
    graph: Graph,
    cluster: Cluster,
    training: Training,
    *,
    suit: Callable[[StrategySpaces], HybridProblem],
    **settings: Any,
) -> StrategySpaces:
    """The problem of training on a cluster of several kinds of devices, and the spaces of that which works fastest.

    That kind is the first. Settings and errors are those of ``pricing.strategy_spaces``; ``suit`` says what is made of
    problem on each kind.
    """
    found = []
    for number, (name, part) in enumerate(kinds_of(cluster)):
        spaces = step_spaces(graph, part, training, **settings)
        problem = _networked(suit(spaces), cluster, number)
        found.append((sum(problem.least_device_times().values()), problem.replace(device=name), spaces))
    found.sort(key=lambda entry: entry[0])
    first, others = found[0][1], tuple(problem for _, problem, _ in found[1:])
    asked = settings.get("name")
    name = asked if asked is not None else f"{graph.name} on {cluster.name}"
    notes = dict.fromkeys(
        note if note in graph.notes else f"{problem.device}: {note}"
        for _, problem, _ in found
        for note in problem.notes
    )
    spaces = found[0][2]
    return StrategySpaces(
        first.replace(name=name, others=others, notes=tuple(notes)), spaces.layers, spaces.reserve_bytes
    )


def kinds_of(cluster: Cluster) -> list[tuple[str, Cluster]]:
    """The machines of every kind of devices as a cluster of their own, with the kind's name."""
    machine = cluster.machine_of()
    found = []
    for group in cluster.workers():
        mine = sorted({machine[device] for device in group.indices})
        machines = tuple(cluster.machines[number] for number in mine)
        found.append((group.spec.name, msgspec.structs.replace(cluster, name=group.spec.name, machines=machines)))
    return found


def _networked(problem: HybridProblem, cluster: Cluster, number: int) -> HybridProblem:
    """The problem on one kind with its machines' way to those of other kinds, even if it has one machine only."""
    training, groups, machine = problem.step, cluster.workers(), cluster.machine_of()
    path = cluster.path(groups[number].indices[0], groups[number - 1].indices[0])
    mine = {machine[device] for device in groups[number].indices}
    rate = min(min(cluster.machine_network_bytes_per_s(m), cluster.host_limit_bytes_per_s(m)) for m in mine)
    training = msgspec.structs.replace(
        training,
        call_times=(training.call_times[0], float(path.latency_s)),
        hop_times=(training.hop_times[0], float(path.hop_time_s)),
        switched=(training.switched[0], bool(path.switched)),
    )
    hierarchy = problem.hierarchy or Hierarchy(
        devices_per_machine=problem.devices, machine_bandwidth_bytes_per_unit=rate
    )
    return problem.replace(hierarchy=hierarchy, training=training)
