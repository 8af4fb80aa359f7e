"""A layer of a hybrid problem: what it costs at every tensor-parallel degree, and what it hands to others.

Source: Tarnawski, Narayanan and Phanishayee, "Piper: Multidimensional Planner for DNN Parallelization" (NeurIPS 2021),
§3 and Appendices A and B. The paper's letters are in the docstrings, the code uses words.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from partita.ground.checks import check_fields, check_number
from partita.ground.errors import InputError
from partita.ground.rounding import leq
from partita.nouns.pipeline import SharedDegrees
from partita.problems.hybrid.training import LayerState

#: The share of a layer's time that is its forward part, where its configuration does not say.
FORWARD_SHARE = 1 / 3


class Configuration(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One way to run a layer at one tensor-parallel degree (the paper's TMPC).

    Attributes
    ----------
    id
        Name, unique among the configurations of the layer at that degree.
    time
        Time of one microbatch, forward and backward, tensor-parallel traffic included (p), in the problem's unit.
    weight_bytes
        Weights on each device (w), synchronised between data-parallel replicas.
    memory_per_microbatch_bytes
        Memory on each device for every microbatch in flight (a).
    memory_bytes
        Memory on each device whatever is in flight (b).
    sharded_bytes
        Memory that the data-parallel replicas of a stage share out evenly among them: each device holds a d-th, d
        counting the replicas in all machines. Not in the paper; optimizer states under ZeRO-1 are of this kind.
    sync_in_bytes
        By id of the predecessor: what the group moves so that all its devices have that tensor (c_fw); 0 if absent.
    sync_out_bytes
        By id of the successor: the same for the tensor that comes back in the backward pass (c_bw); 0 if absent.
    forward_time
        What of ``time`` is the forward part; a third of it if None. Only time lines read it.
    traffic_time
        What of ``time`` is tensor-parallel traffic. Only time lines read it.
    """

    id: str
    time: float
    weight_bytes: float = 0.0
    memory_per_microbatch_bytes: float = 0.0
    memory_bytes: float = 0.0
    sharded_bytes: float = 0.0
    sync_in_bytes: dict[int, float] = {}
    sync_out_bytes: dict[int, float] = {}
    forward_time: float | None = None
    traffic_time: float = 0.0

    @property
    def figures(self) -> tuple[float, float, float, float, float]:
        """Time, weights, and memory for every microbatch, whatever is in flight, and shared out."""
        memory = self.memory_per_microbatch_bytes, self.memory_bytes, self.sharded_bytes
        return self.time, self.weight_bytes, *memory

    @property
    def forward(self) -> float:
        """Time of the forward part."""
        return self.time * FORWARD_SHARE if self.forward_time is None else self.forward_time

    def held_bytes(self, in_flight: int, replicas: int) -> float:
        """Memory on each device of a stage with so many microbatches in flight and data-parallel replicas."""
        held = self.memory_per_microbatch_bytes * in_flight + self.memory_bytes
        return held + self.sharded_bytes / replicas if self.sharded_bytes else held


class Layer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One layer.

    Attributes
    ----------
    id
        Unique number; plans refer to it.
    configurations
        By tensor-parallel degree, the configurations to choose from; a degree that is absent cannot be used.
    name
        For people.
    weight_bytes
        Weights of the whole layer, which machines synchronise with each other; None for the smallest over the degrees t
        of t times the largest weights that a device holds. Only problems with a hierarchy read it.
    update_times
        By degree, the time of the optimizer's step for the layer on one device, once per batch; 0 if absent. It is part
        of a step (``partita.problems.hybrid.steady.evaluate``), not of the objective.
    states
        By degree, what devices hold of the weights and replicas exchange, if the problem is about a step; nothing if
        absent. Configurations then hold nothing of it themselves.
    """

    id: int
    configurations: dict[int, tuple[Configuration, ...]]
    name: str = ""
    weight_bytes: float | None = None
    update_times: dict[int, float] = {}
    states: dict[int, LayerState] = {}

    @property
    def whole_weight_bytes(self) -> float:
        """Weights that one machine with the layer synchronises with others, whatever its degrees (Appendix E's w)."""
        if self.weight_bytes is not None:
            return self.weight_bytes
        return min(t * max(c.weight_bytes for c in choices) for t, choices in self.configurations.items() if choices)

    @property
    def label(self) -> str:
        """The layer in a message."""
        return f"layer {self.id}" + (f" ({self.name})" if self.name else "")


class ContextExpertLayers(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What layers take where devices share out the sequence, or experts, in a problem about a step."""

    context: int  #: Devices that share out the sequence: each has a c-th of the tokens of what layers hand over.
    expert: int  #: Groups that share out the experts of a layer.
    expert_tensor: int = 0  #: Devices of each such group; 0 for a tensor-parallel group.
    layers: tuple[Layer, ...]  #: The layers of the problem, in the same order, with what they then cost each device.
    reserves: dict[int, float] = {}  #: As in ``Training``, then.

    @property
    def shared(self) -> SharedDegrees:
        """The degrees."""
        return SharedDegrees(self.context, self.expert, self.expert_tensor)


class Edge(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The tensor that one layer hands to another: ``bytes`` go each way, forward and backward."""

    source: int
    target: int
    bytes: float


def check_layer(where: str, layer: Layer, before: set[int], after: set[int]) -> None:
    owner = f"{where}: {layer.label}"
    if not any(layer.configurations.values()):
        raise InputError(f"{owner} has no configurations; give at least one for some tensor-parallel degree")
    check_fields(owner, layer, "weight_bytes")
    for degree, time in layer.update_times.items():
        check_number(owner, f"update time at degree {degree}", time)
    for degree, configurations in layer.configurations.items():
        if degree < 1:
            raise InputError(f"{owner}: tensor-parallel degree {degree} must be at least 1")
        seen: set[str] = set()
        for choice in configurations:
            place = f"{owner}, degree {degree}, configuration {choice.id!r}"
            if choice.id in seen:
                raise InputError(f"{place} appears twice; ids must be unique within a layer and degree")
            seen.add(choice.id)
            sizes = ("weight_bytes", "memory_per_microbatch_bytes", "memory_bytes", "sharded_bytes")
            check_fields(place, choice, "time", *sizes)
            _check_parts(place, choice)
            _check_sync(place, "sync_in_bytes", choice.sync_in_bytes, before, "comes from")
            _check_sync(place, "sync_out_bytes", choice.sync_out_bytes, after, "goes to")


def check_state(owner: str, layer: Layer) -> None:
    """What a step needs to know of a layer: its state at a degree is one, whichever configuration runs."""
    sizes = ("parameter_bytes", "gradient_bytes", "optimizer_bytes", "update_time", "weight_gradient_time")
    for degree, state in layer.states.items():
        for part in (state, state.experts or LayerState()):
            check_fields(f"{owner}, state at degree {degree}", part, *sizes)
    for degree, choices in layer.configurations.items():
        if any(c.sync_in_bytes != choices[0].sync_in_bytes for c in choices) or any(
            c.sync_out_bytes != choices[0].sync_out_bytes for c in choices
        ):
            raise InputError(
                f"{owner}, degree {degree}: configurations differ in synchronisation; in a problem about a step those "
                "of one degree share it"
            )


def _check_parts(place: str, choice: Configuration) -> None:
    check_fields(place, choice, "forward_time", "traffic_time")
    for field in ("forward_time", "traffic_time"):
        part = getattr(choice, field)
        if part is not None and not leq(part, choice.time):
            raise InputError(f"{place}: {field} is {part}, more than its time of {choice.time}, which it is a part of")


def _check_sync(place: str, field: str, table: Mapping[int, float], neighbours: set[int], verb: str) -> None:
    for neighbour, value in table.items():
        if neighbour not in neighbours:
            raise InputError(f"{place}: {field} names layer {neighbour}, but no edge {verb} it; remove the entry")
        check_number(place, f"{field} of layer {neighbour}", value)
