"""The hybrid problem: data-, tensor- and pipeline-parallel training with memory-saving options per layer.

Source: Tarnawski, Narayanan and Phanishayee, "Piper: Multidimensional Planner for DNN Parallelization" (NeurIPS 2021),
§3 and Appendices A and B. The paper's letters are in the docstrings, the code uses words.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar

import msgspec

from partita.ground.checks import check_at_least, check_fields, check_positive, check_scale
from partita.ground.dags import check_acyclic, check_ends, topological_order
from partita.ground.errors import InputError
from partita.nouns.pipeline import UNSHARED, SharedDegrees
from partita.problems.hybrid.layer import ContextExpertLayers, Edge, Layer, check_layer, check_state
from partita.problems.hybrid.training import Training, check_limits, check_training
from partita.problems.kind import Stated


class Hierarchy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Devices sit in machines, which are linked more slowly than the devices inside (Appendix E with two levels)."""

    devices_per_machine: int  #: Devices in each machine (K_1). A tensor-parallel group lies within one.
    #: Bytes that each machine, with all its devices together, exchanges with other machines per unit of time (B_2).
    #: Between devices of one machine the problem's ``bandwidth_bytes_per_unit`` holds (B_1), per device.
    machine_bandwidth_bytes_per_unit: float


class HybridProblem(Stated, frozen=True, kw_only=True):
    """Minimise the time per microbatch of the slowest stage, or the time of one optimizer step.

    A plan is a pipeline; a stage runs a set of layers on d·t devices, d data-parallel replicas of a group of t
    tensor-parallel devices. ``partita.problems.hybrid.steady.evaluate`` defines what it costs.

    Attributes
    ----------
    devices
        Identical devices there are (K).
    memory_bytes
        Memory of each (M); None for no limit.
    bandwidth_bytes_per_unit
        Bytes that each device moves per unit of time (B); with a hierarchy, inside its machine (B_1).
    microbatches
        Most data-parallel replicas of all stages together (N), so that a batch of N microbatches fills the pipeline.
    layers, edges
        The model, a directed acyclic graph. Where edges leave the order of layers free they run as they are listed: in
        a step that says which gradients are exchanged last, and what parts of an interleaved schedule hold.
    weight_sync_per_batch
        False: weights are synchronised for every d microbatches, as in the paper. True: once per batch of N
        microbatches, and d must divide N, as in a later version of the published program.
    hierarchy
        Machines of several devices; None if all devices are linked alike. Devices must fill whole machines, or all be
        in one.
    update_shared
        Whether the replicas of a stage share out the optimizer's step.
    training
        Of a problem about one optimizer step of N microbatches, what its plans may choose; None for the time per sample
        of an endless stream. ``partita.problems.hybrid.step.evaluate`` defines what a step costs; it reads neither
        ``weight_sync_per_batch`` nor ``update_shared``, nor what configurations say of weights.
    spreads
        For all context-, expert- and expert-tensor degrees that plans of a step may have together, but for (1, 1, 0),
        what layers cost.
    device
        Name of the kind of devices.
    others
        Of a problem about a step, further kinds of devices that stages may be on: the same layers, edges and
        microbatches on them, each a problem of its own. ``devices`` and all other fields are about the first kind.
    microbatch_samples
        Samples in a microbatch: all times are of one microbatch, which the published formats call a sample.

    Raises
    ------
    InputError
        If a value is not finite or negative, an id repeats or is unknown, a list is empty, or the graph has a cycle.
    """

    kind: ClassVar[str] = "hybrid"
    format: ClassVar[str] = "partita.hybrid"

    devices: int
    memory_bytes: float | None = None
    bandwidth_bytes_per_unit: float
    microbatches: int
    layers: tuple[Layer, ...]
    edges: tuple[Edge, ...] = ()
    weight_sync_per_batch: bool = False
    hierarchy: Hierarchy | None = None
    update_shared: bool = False
    training: Training | None = None
    spreads: tuple[ContextExpertLayers, ...] = ()
    device: str = ""
    others: tuple[HybridProblem, ...] = ()
    microbatch_samples: int = 1

    def __post_init__(self) -> None:
        where = f"problem {self.name!r}"
        if not self.layers:
            raise InputError(f"{where} has no layers; a plan needs at least one")
        for field in ("devices", "microbatches", "microbatch_samples"):
            check_at_least(f"{where}: {field}", getattr(self, field))
        check_fields(where, self, "memory_bytes")
        check_positive(where, "bandwidth_bytes_per_unit", self.bandwidth_bytes_per_unit)
        if self.hierarchy is not None:
            _check_hierarchy(where, self.devices, self.hierarchy)
        before: dict[int, set[int]] = {}
        for layer in self.layers:
            if layer.id in before:
                raise InputError(f"{where}: layer id {layer.id} appears twice; ids must be unique")
            before[layer.id] = set()
        after: dict[int, set[int]] = {layer.id: set() for layer in self.layers}
        for edge in self.edges:
            owner = f"{where}: edge {edge.source} → {edge.target}"
            check_ends(owner, "layer", (edge.source, edge.target), before)
            if edge.target in after[edge.source]:
                raise InputError(f"{owner} appears twice; give one edge with the bytes of both")
            check_fields(owner, edge, "bytes")
            after[edge.source].add(edge.target)
            before[edge.target].add(edge.source)
        for layer in self.layers:
            check_layer(where, layer, before[layer.id], after[layer.id])
        check_acyclic(where, "layers", [layer.id for layer in self.layers], self.links())
        if self.training is not None:
            check_training(where, self.training)
            check_limits(where, self.training.limits, before)
            for layer in self.layers:
                check_state(f"{where}: {layer.label}", layer)
        _check_spreads(where, self)
        if self.others:
            _check_others(where, self)

    def replace(self, *, memory_bytes: float | None = None, **changes: object) -> HybridProblem:  # type: ignore[override]
        """A copy with changes, validated again; infinite ``memory_bytes`` removes the limit.

        Memory and microbatches are changed on all kinds of devices.

        Raises
        ------
        InputError
            If a changed value is invalid.
        """
        if memory_bytes is not None:
            changes["memory_bytes"] = None if memory_bytes == math.inf else memory_bytes
        shared = {name: changes[name] for name in ("microbatches", "memory_bytes") if name in changes}
        if self.others and shared and "others" not in changes:
            changes["others"] = tuple(msgspec.structs.replace(other, **shared) for other in self.others)
        return msgspec.structs.replace(self, **changes)

    def scale_communication(self, factor: float) -> HybridProblem:
        """A copy in which every transfer takes ``factor`` times as long, inside machines and between them."""
        check_scale(factor, zero=False)
        if factor == 1.0:
            return self
        hierarchy = self.hierarchy
        if hierarchy is not None:
            between = hierarchy.machine_bandwidth_bytes_per_unit / factor
            hierarchy = msgspec.structs.replace(hierarchy, machine_bandwidth_bytes_per_unit=between)
        others = tuple(other.scale_communication(factor) for other in self.others)
        bandwidth = self.bandwidth_bytes_per_unit / factor
        return self.replace(bandwidth_bytes_per_unit=bandwidth, hierarchy=hierarchy, others=others)

    @property
    def step(self) -> Training:
        """What plans may choose, of a problem about a step."""
        assert self.training is not None
        return self.training

    @property
    def kinds(self) -> tuple[HybridProblem, ...]:
        """The problem on each kind of devices, the first kind first."""
        return (self, *self.others)

    def on(self, device: str) -> HybridProblem:
        """The problem on one kind of devices, by its name or, for the first, an empty one, or an InputError."""
        for kind in self.kinds:
            if device in ("", kind.device):
                return kind
        known = ", ".join(repr(kind.device) for kind in self.kinds)
        raise InputError(f"problem {self.name!r} has no devices {device!r}; it has {known}")

    @property
    def all_devices(self) -> int:
        """Devices of all kinds."""
        return sum(kind.devices for kind in self.kinds)

    def at(self, context: int, expert: int, expert_tensor: int = 0) -> HybridProblem | None:
        """The problem of devices that share out sequence and experts so, as one without such degrees; None if unknown.

        Its edges are what each device of a group that shares out the sequence hands over.
        """
        degrees = SharedDegrees(context, expert, expert_tensor)
        if degrees == UNSHARED:
            return self if not self.spreads else self.replace(spreads=(), training=_plain(self.training))
        for there in self.spreads:
            if there.shared == degrees:
                edges = tuple(msgspec.structs.replace(edge, bytes=edge.bytes / context) for edge in self.edges)
                training = _plain(self.training, there.reserves)
                return self.replace(layers=there.layers, edges=edges, training=training, spreads=())
        return None

    def with_layers(self, change: Callable[[Layer], Layer]) -> HybridProblem:
        """A copy with changed layers, whatever the devices share out."""
        spreads = tuple(
            msgspec.structs.replace(there, layers=tuple(map(change, there.layers))) for there in self.spreads
        )
        return self.replace(layers=tuple(map(change, self.layers)), spreads=spreads)

    def least_device_times(self) -> dict[int, float]:
        """By layer the least that all devices of a group together take for a microbatch, whatever their degrees."""
        found = dict.fromkeys((layer.id for layer in self.layers), math.inf)
        for context, layers in ((1, self.layers), *((there.context, there.layers) for there in self.spreads)):
            for layer in layers:
                times = (
                    t * context * min(c.time for c in row)
                    for t, row in layer.configurations.items()
                    if row and t <= self.devices_per_machine
                )
                found[layer.id] = min([found[layer.id], *times])
        return found

    @property
    def devices_per_machine(self) -> int:
        """Devices that may form a tensor-parallel group: those of one machine, or all without a hierarchy."""
        return self.devices if self.hierarchy is None else min(self.devices, self.hierarchy.devices_per_machine)

    @property
    def machines(self) -> int:
        """Machines there are; 1 without a hierarchy."""
        return self.devices // self.devices_per_machine

    def room(self, block: int) -> int:
        """Devices in whole blocks (``SharedDegrees.block``) at most: each in one machine, where some may be idle."""
        return self.machines * (self.devices_per_machine // block) * block

    def room_words(self, block: int) -> str:
        """How many these are, and why not all."""
        room = self.room(block)
        return str(room) if room == self.devices else f"{room} in groups of {block} that each lie in a machine"

    def holds(self, replicas: int, tensor: int) -> bool:
        """Whether one stage's devices lie beside each other with none idle between them, in machines of their own."""
        width, machine = replicas * tensor, self.devices_per_machine
        return width <= machine or (width <= self.devices and machine % tensor == 0)

    def degrees(self) -> list[int]:
        """Tensor-parallel degrees that some layer has and the devices (of one machine) allow, ascending."""
        found = {degree for layer in self.layers for degree in layer.configurations}
        return sorted(degree for degree in found if degree <= self.devices_per_machine)

    def shared_degrees(self) -> list[int]:
        """Those of them that every layer has."""
        return [t for t in self.degrees() if all(layer.configurations.get(t) for layer in self.layers)]

    def links(self) -> list[tuple[int, int]]:
        """The ends of every edge, as places among the layers."""
        place = {layer.id: number for number, layer in enumerate(self.layers)}
        return [(place[edge.source], place[edge.target]) for edge in self.edges]

    def order(self) -> list[int]:
        """Places of the layers in topological order, in the problem's own where that is free."""
        return topological_order(len(self.layers), self.links())

    def replicas(self, most: int) -> list[int]:
        """Data-parallel degrees up to ``most``, ascending: once per batch they divide it."""
        return [d for d in range(1, most + 1) if not self.weight_sync_per_batch or self.microbatches % d == 0]

    @property
    def shards(self) -> bool:
        """Whether replicas share out any memory."""
        return any(c.sharded_bytes for layer in self.layers for row in layer.configurations.values() for c in row)

    def sync_factor(self, replicas: int) -> float:
        """How often each weight byte is moved for d microbatches: 4·(d − 1)/d, or 4·(d − 1)/N once per batch."""
        return 4.0 * (replicas - 1) / (self.microbatches if self.weight_sync_per_batch else replicas)


def _check_hierarchy(where: str, devices: int, hierarchy: Hierarchy) -> None:
    size = hierarchy.devices_per_machine
    check_at_least(f"{where}: devices_per_machine", size)
    if devices > size and devices % size:
        raise InputError(
            f"{where}: {devices} devices do not fill machines of {size}; "
            f"take {devices // size * size} or {(devices // size + 1) * size} devices"
        )
    check_positive(where, "machine_bandwidth_bytes_per_unit", hierarchy.machine_bandwidth_bytes_per_unit)


def _check_others(where: str, problem: HybridProblem) -> None:
    names = [kind.device for kind in problem.kinds]
    if "" in names or len(set(names)) < len(names):
        raise InputError(f"{where}: kinds of devices are called {', '.join(map(repr, names))}; give each its own name")
    ids = [layer.id for layer in problem.layers]
    for other in problem.others:
        owner = f"{where}: on {other.device}"
        if problem.training is None or other.training is None:
            raise InputError(f"{owner}: several kinds of devices are for steps; give every kind its training")
        if problem.step.zero_shards != (0,):
            raise InputError(f"{owner}: of several kinds of devices all replicas share out; leave zero_shards out")
        if problem.spreads or other.spreads:
            raise InputError(
                f"{owner}: context- and expert-parallel degrees are for devices of one kind; leave spreads out"
            )
        if other.others:
            raise InputError(f"{owner}: a further kind of devices has others of its own; list all in the problem")
        if [layer.id for layer in other.layers] != ids or other.edges != problem.edges:
            raise InputError(f"{owner}: layers or edges differ; all kinds run the same model")
        for what, mine, theirs in (
            ("microbatches", problem.microbatches, other.microbatches),
            *(
                (name, getattr(problem.training, name), getattr(other.training, name))
                for name in ("schedules", "zero", "zero_shards", "mesh", "overlap", "limits")
            ),
        ):
            if mine != theirs:
                raise InputError(f"{owner}: {what} is {theirs}, and {mine} on {problem.device}; they must be the same")


def _check_spreads(where: str, problem: HybridProblem) -> None:
    """All degrees that plans may have together are there, with the same layers."""
    training, known = problem.training, [there.shared for there in problem.spreads]
    if training is None:
        if problem.spreads:
            raise InputError(f"{where}: context- and expert-parallel degrees are for a step; leave spreads out")
        return
    if len(set(known)) < len(known) or UNSHARED in known:
        raise InputError(f"{where}: spreads of ({UNSHARED}), or twice of the same degrees; leave them out")
    for degrees in training.shared:
        if degrees not in {UNSHARED, *known}:
            raise InputError(f"{where} allows {degrees}, and its spreads do not say what layers then cost")
    ids = [layer.id for layer in problem.layers]
    for there in problem.spreads:
        owner = f"{where}, {there.shared}"
        if min(there.context, there.expert) < 1 or there.expert_tensor < 0:
            raise InputError(f"{owner}: degrees must be at least 1, and the expert-tensor degree 0 or more")
        if [layer.id for layer in there.layers] != ids:
            raise InputError(f"{owner}: the layers are not those of the problem, in the same order")
        problem.at(*there.shared)


def _plain(training: Training | None, reserves: dict[int, float] | None = None) -> Training | None:
    """What plans may choose, without context- and expert-parallel degrees."""
    if training is None:
        return None
    kept = training.reserves if reserves is None else reserves
    return msgspec.structs.replace(training, context=(1,), expert=(1,), expert_tensor=(0,), reserves=kept)
