"""The throughput problem: split a DAG of operators over devices so that the most loaded device is least loaded.

Sources: Tarnawski et al., "Efficient Algorithms for Device Placement of DNN Graph Operators" (NeurIPS 2020), §3, §5,
Appendix C; the communication term as a hypergraph cut. Memory by position under a pipeline schedule follows Narayanan
et al., "PipeDream" (SOSP 2019) and Huang et al., "GPipe" (NeurIPS 2019).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Literal

import msgspec

from partita.ground.checks import check_at_least, check_fields, check_number
from partita.ground.dags import check_acyclic
from partita.ground.errors import InputError
from partita.nouns.pipeline import Plan
from partita.problems.kind import Stated
from partita.problems.throughput.devices import TRANSFER_TIMES, DeviceKind, LinkedGroup, check_groups, check_kinds

#: How transfers and work share a device's time: one after the other, both at once, or both directions at once as well.
Communication = Literal["sum", "overlap", "duplex"]

#: What a stage needs while it runs: the largest workspace of its operators, or the peak of its order.
WorkingMemory = Literal["largest", "peak"]


class TimedOperator(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One operator with its times."""

    id: int  #: Unique number; results refer to it.
    #: Time per microbatch on each device kind, in the problem's unit; None where it cannot run.
    times: tuple[float | None, ...]
    #: For people: the operator's name and the qualified module that calls it.
    name: str = ""
    module: str = ""
    backward: bool = False  #: Whether it belongs to the backward part of training.
    colocation: int | None = None  #: Operators with the same number share a device; None for no such tie.
    #: Memory it occupies on its device whatever else is there (instance files: weights and activations in one).
    memory_bytes: float = 0.0
    workspace_bytes: float = 0.0  #: Memory needed only while it runs; a stage needs the largest of its operators.

    @property
    def label(self) -> str:
        """The operator in a message."""
        return f"operator {self.id}" + (f" ({self.name})" if self.name else "")


class MovedTensor(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One tensor: moved once out of its producer's device and once into each other device that reads it."""

    producer: int  #: Id of the operator that makes it.
    consumers: tuple[int, ...]  #: Ids of the operators that read it, distinct.
    size: float  #: Bytes, or the transfer time where the file gives that; see ``DeviceKind.transfer_time_per_unit``.
    name: str = ""  #: For people.


class StoredParameter(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A weight or buffer: each device that holds one of its users stores it once."""

    name: str  #: Qualified name.
    users: tuple[int, ...]  #: Ids of the operators that read it.
    #: What it costs on every device that holds a user.
    weight_bytes: float
    gradient_bytes: float = 0.0
    optimizer_bytes: float = 0.0
    cache: bool = False  #: Whether it is no weight but the keys and values of earlier tokens.


class SavedTensor(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An activation kept from forward to backward, once per microbatch in flight on each device that holds a user."""

    name: str  #: The tensor's name.
    users: tuple[int, ...]  #: Ids of the backward operators that read it.
    bytes: float  #: Its size.


class MicrobatchSchedule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How microbatches flow through the stages; it decides how many a stage holds at once."""

    #: ``inference`` (one at a time), ``1f1b`` (a stage holds as many as there are stages from it to the last), or
    #: ``gpipe`` (all microbatches of the batch, forward ones first: it changes the objective of training, too).
    name: Literal["inference", "1f1b", "gpipe"] = "inference"
    microbatches: int = 1  #: Microbatches per batch.
    #: Keep only the tensors that enter a stage and run its forward part again before its backward part.
    recompute: bool = False

    def in_flight(self, devices_to_end: int, replicas: int = 1) -> int:
        """Microbatches held by each replica of a stage, with so many devices in it and all later ones (1 for the last).

        Its replicas take turns (Tarnawski et al., "Piper", NeurIPS 2021, §4).
        """
        if self.name == "inference":
            return 1
        if self.name == "gpipe":
            return self.microbatches
        return min(-(-devices_to_end // replicas), self.microbatches)

    @property
    def positional(self) -> bool:
        """Whether a stage's memory depends on its position in the pipeline."""
        return self.name == "1f1b" and self.microbatches > 1


class UnitChain(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What runtimes with a chain of blocks can run: stages are runs of its units, all with equally many replicas."""

    #: Ids of the operators of every unit, forward and backward; each operator is in one.
    units: tuple[tuple[int, ...], ...]
    #: Pairs of units (places in ``units``): what the first hands to the second must not pass over a stage.
    handed: tuple[tuple[int, int], ...] = ()
    hosts_first: bool = False  #: Whether only the first stage may be on devices that are no accelerators.


class ThroughputProblem(Stated, frozen=True, kw_only=True):
    """Minimise the largest device load (time per microbatch in steady state).

    The load of a device that holds the operators S is the sum of their times on it plus the transfer time of every
    distinct tensor with a producer or consumer in S and another one outside. With ``schedule.recompute`` forward times
    of training problems count twice. The fields from ``communication`` on change this; ``docs/variants.md`` says how.

    ``InputError`` if a value is not finite or negative, an id repeats or is unknown, the graph has a cycle, or nothing
    can run.
    """

    kind: ClassVar[str] = "throughput"
    format: ClassVar[str] = "partita.problem"

    kinds: tuple[DeviceKind, ...]  #: The devices, grouped.
    operators: tuple[TimedOperator, ...]
    tensors: tuple[MovedTensor, ...] = ()
    parameters: tuple[StoredParameter, ...] = ()
    saved: tuple[SavedTensor, ...] = ()
    #: How many microbatches a stage holds; with ``gpipe``, training minimises the largest forward load plus the largest
    #: backward load.
    schedule: MicrobatchSchedule = MicrobatchSchedule()
    #: ``sum``: work and transfers add; ``overlap``: the larger counts; ``duplex``: the largest of work, transfers in,
    #: and transfers out.
    communication: Communication = "sum"
    #: Most devices (of one kind) that may run one stage, each its share of the samples.
    max_replicas: int = 1
    #: Whether replicas synchronise their weights once per batch rather than for every microbatch.
    weight_sync_per_batch: bool = False
    #: Devices behind slower links, which pay for what crosses their boundary; none for a flat machine.
    groups: tuple[LinkedGroup, ...] = ()
    streaming: bool = False  #: Whether memory over the limit is allowed, and fetched again for every sample.
    #: What a stage needs while it runs, with ``streaming``. ``largest``: the largest workspace of its operators.
    #: ``peak``: the most that workspace and tensors take while its operators run in the plan's order; tensor sizes are
    #: bytes then (``partita.problems.throughput.working_memory``).
    working_memory: WorkingMemory = "largest"
    #: Units that stages are runs of, and the chain they are in; None where stages may be any sets of operators.
    row: UnitChain | None = None
    #: Samples in a microbatch: all times are of one microbatch, which the published formats call a sample.
    microbatch_samples: int = 1

    def __post_init__(self) -> None:
        validate(self)

    def replace(  # type: ignore[override]
        self,
        *,
        accelerators: int | None = None,
        cpus: int | None = None,
        memory_bytes: float | None = None,
        kinds: Sequence[DeviceKind] | None = None,
        **changes: object,
    ) -> ThroughputProblem:
        """A copy with changes, any fields by name, validated again.

        ``accelerators`` and ``cpus`` are new device counts, which need exactly one kind of accelerators or CPUs;
        ``memory_bytes`` is that of every accelerator, and infinity removes the limit. ``InputError`` if a count is
        ambiguous, or a changed value is invalid.
        """
        kinds = list(self.kinds if kinds is None else kinds)
        for accelerator, count, option in ((True, accelerators, "accelerators"), (False, cpus, "cpus")):
            if count is None:
                continue
            places = [i for i, kind in enumerate(kinds) if kind.accelerator is accelerator]
            if len(places) != 1:
                found = ", ".join(kinds[i].name for i in places) or "none"
                raise InputError(
                    f"{option}={count} needs exactly one such device kind, the problem has {found}; replace `kinds`"
                )
            kinds[places[0]] = msgspec.structs.replace(kinds[places[0]], count=count)
        if memory_bytes is not None:
            limit = None if math.isinf(memory_bytes) and memory_bytes > 0 else memory_bytes
            kinds = [msgspec.structs.replace(k, memory_bytes=limit) if k.accelerator else k for k in kinds]
        return msgspec.structs.replace(self, kinds=tuple(kinds), **changes)

    def scale_communication(self, factor: float) -> ThroughputProblem:
        """A copy in which every transfer takes ``factor`` times as long, on links of devices and of groups."""
        return self if factor == 1.0 else self.with_links(TRANSFER_TIMES, lambda time: time * factor)

    def with_links(self, fields: Iterable[str], change: Callable[[float], float]) -> ThroughputProblem:
        """A copy in which these times of links of devices and groups are what ``change`` makes of them."""

        def changed(link: Any) -> Any:
            times = {name: change(getattr(link, name)) for name in fields if hasattr(link, name)}
            return msgspec.structs.replace(link, **times)

        return self.replace(kinds=tuple(map(changed, self.kinds)), groups=tuple(map(changed, self.groups)))

    @property
    def device_count(self) -> int:
        """All devices, CPUs included."""
        return sum(kind.count for kind in self.kinds)

    @property
    def present(self) -> tuple[int, ...]:
        """Places of the kinds that have devices."""
        return tuple(place for place, kind in enumerate(self.kinds) if kind.count > 0)

    @property
    def training(self) -> bool:
        """Whether there are backward operators."""
        return any(op.backward for op in self.operators)

    @property
    def gpipe(self) -> bool:
        """Whether forward and backward loads have their own maximum (GPipe's objective)."""
        return self.schedule.name == "gpipe" and self.training

    def kind_named(self, name: str) -> DeviceKind:
        """The device kind of a name."""
        return next(kind for kind in self.kinds if kind.name == name)

    def device_names(self) -> list[tuple[str, int]]:
        """Name and kind index of every device, in the order of ``kinds``."""
        return [(f"{kind.name}:{i}", index) for index, kind in enumerate(self.kinds) for i in range(kind.count)]

    def group_of(self) -> dict[str, int]:
        """Index of the group of every device, by name; empty without groups."""
        return {
            f"{kind.name}:{sum(group.counts[place] for group in self.groups[:number]) + i}": number
            for place, kind in enumerate(self.kinds)
            for number, entry in enumerate(self.groups)
            for i in range(entry.counts[place])
        }

    def stage_groups(self, plan: Plan) -> list[int]:
        """Group of every stage's first device; 0 for all without groups."""
        group_of = self.group_of()
        return [group_of.get(stage.devices[0], 0) for stage in plan.stages]


def validate(problem: ThroughputProblem) -> None:
    """Check a problem; see ``ThroughputProblem`` for what it raises."""
    where = f"problem {problem.name!r}"
    if not problem.operators:
        raise InputError(f"{where} has no operators; a plan needs at least one")
    check_kinds(where, problem.kinds)
    check_groups(where, problem.kinds, problem.groups)
    check_at_least(f"{where}: max_replicas", problem.max_replicas)
    if problem.working_memory == "peak":
        if not problem.streaming:
            raise InputError(f"{where}: working_memory 'peak' is for memory over the limit at a price; set streaming")
        if problem.training:
            raise InputError(
                f"{where}: working_memory 'peak' is for inference, and there are backward operators; use 'largest'"
            )
    check_at_least(f"{where}: microbatches", problem.schedule.microbatches)
    check_at_least(f"{where}: microbatch_samples", problem.microbatch_samples)
    index: dict[int, int] = {}
    kinds = len(problem.kinds)
    for place, op in enumerate(problem.operators):
        if index.setdefault(op.id, place) != place:
            raise InputError(f"{where}: operator id {op.id} appears twice; ids must be unique")
        owner = f"{where}: {op.label}"
        if len(op.times) != kinds:
            raise InputError(f"{owner} has {len(op.times)} times; it needs one for each of the {kinds} device kinds")
        for kind, time in zip(problem.kinds, op.times, strict=True):
            if time is not None:
                check_number(owner, f"time on {kind.name}", time)
        check_fields(owner, op, "memory_bytes", "workspace_bytes")
    edges: list[tuple[int, int]] = []
    for tensor in problem.tensors:
        owner = f"{where}: tensor {tensor.name!r}" if tensor.name else f"{where}: tensor of operator {tensor.producer}"
        check_fields(owner, tensor, "size")
        _check_ids(owner, (tensor.producer,), index)
        _check_ids(owner, tensor.consumers, index)
        if tensor.producer in tensor.consumers:
            raise InputError(f"{owner}: operator {tensor.producer} makes and reads it; leave it out of the consumers")
        source = index[tensor.producer]
        for consumer in tensor.consumers:
            edges.append((source, index[consumer]))
            if problem.operators[source].backward and not problem.operators[index[consumer]].backward:
                raise InputError(
                    f"{where}: backward operator {tensor.producer} feeds forward operator {consumer}; "
                    "tensors may only go from the forward part to the backward part"
                )
    for parameter in problem.parameters:
        owner = f"{where}: parameter {parameter.name!r}"
        _check_ids(owner, parameter.users, index)
        check_fields(owner, parameter, "weight_bytes", "gradient_bytes", "optimizer_bytes")
    for saved in problem.saved:
        owner = f"{where}: saved tensor {saved.name!r}"
        _check_ids(owner, saved.users, index)
        check_fields(owner, saved, "bytes")
    check_acyclic(where, "operators", list(index), edges)
    if problem.row is not None:
        _check_chain(where, problem.row, list(index))


def _check_ids(owner: str, ids: Iterable[int], index: dict[int, int]) -> None:
    seen: set[int] = set()
    for number in ids:
        if number not in index:
            raise InputError(f"{owner}: there is no operator with id {number}")
        if number in seen:
            raise InputError(f"{owner}: operator id {number} is listed twice; list each once")
        seen.add(number)


def _check_chain(where: str, chain: UnitChain, known: list[int]) -> None:
    listed = [identity for unit in chain.units for identity in unit]
    if sorted(listed) != sorted(known):
        wrong = sorted(set(known) ^ set(listed)) or sorted({v for v in listed if listed.count(v) > 1})
        raise InputError(f"{where}: the units of its chain hold every operator once; operator {wrong[0]} is not")
    if not all(chain.units):
        raise InputError(f"{where}: unit {chain.units.index(())} of its chain has no operators; leave it out")
    for first, last in chain.handed:
        if not 0 <= first < last < len(chain.units):
            raise InputError(f"{where}: units {first} and {last} of its chain are no pair of units in order")
