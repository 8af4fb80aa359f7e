"""Hypothesis strategies for partita's nouns.

All numbers are small multiples of one half: sums and products of them are exact in floating point, so values computed
in different orders can be compared with ``==`` and ties are real ties.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

import msgspec
from hypothesis import settings
from hypothesis import strategies as st

from partita.nouns import graph as graphs_module
from partita.nouns.pipeline import Contiguity, Plan, Stage
from partita.problems.throughput.problem import (
    DeviceKind,
    LinkedGroup,
    MicrobatchSchedule,
    MovedTensor,
    SavedTensor,
    StoredParameter,
    ThroughputProblem,
    TimedOperator,
)

__all__ = ["examples", "graphs", "halves", "plans", "random_problem", "throughput_problems"]


#: Examples of a test under the profile ``ci`` (see conftest.py) that does not say how many it wants.
USUAL_EXAMPLES = 60


def examples(count: int) -> settings:
    """Run a test on so many examples, and on proportionally more under a profile that has more."""
    return settings(max_examples=max(1, count * settings().max_examples // USUAL_EXAMPLES))


@cache
def halves(low: float, high: float) -> st.SearchStrategy[float]:
    """Multiples of one half from ``low`` to ``high``; made once, for making a strategy takes longer than drawing."""
    return st.integers(int(2 * low), int(2 * high)).map(lambda doubled: doubled / 2)


@lru_cache(maxsize=None, typed=True)
def among(*values: Any) -> st.SearchStrategy[Any]:
    """One of some values, made once."""
    return st.sampled_from(values)


@cache
def places(count: int, least: int, most: int) -> st.SearchStrategy[list[int]]:
    """Some of so many places, each once at most; made once."""
    return st.lists(st.sampled_from(range(count)), min_size=least, max_size=most, unique=True)


@st.composite
def throughput_problems(
    draw: st.DrawFn,
    *,
    training: bool | None = None,
    memory: bool | None = None,
    max_operators: int = 7,
    kinds: tuple[int, int] = (1, 3),
    max_count: int = 3,
    max_devices: int = 5,
    cpus: bool = True,
    unsupported: bool = True,
    colocation: bool = True,
    orphans: bool = True,
    latency: bool = True,
    schedules: Sequence[str] = ("inference", "1f1b", "gpipe"),
    recompute: bool | None = None,
    supported_somewhere: bool = False,
    variants: Sequence[str] = (),
) -> ThroughputProblem:
    """Small problems with every feature of the format; an argument that is None leaves the feature to chance.

    Parameters
    ----------
    training
        Whether there are backward operators.
    memory
        Whether memory is limited (and used).
    max_operators
        Most operators, backward ones included.
    kinds, max_count, max_devices
        Fewest and most device kinds, most devices of a kind, most devices in all.
    cpus
        Whether there may be kinds that are no accelerators; these pay nothing for transfers and have no memory limit.
    unsupported
        Whether operators may be unable to run on some kinds.
    colocation
        Whether forward operators may be tied (backward operators of training problems always may).
    orphans
        Whether backward operators may have a colocation class without forward operators.
    latency
        Whether a transfer may cost a fixed time.
    schedules, recompute
        The schedules to draw from, and whether to recompute.
    supported_somewhere
        Give each operator a time on at least one kind that has devices. A plan may still not exist.
    variants
        Those of ``problems.throughput.variants`` that the problem must use (``gpipe`` is said by ``schedules``).
    """
    train = draw(st.booleans()) if training is None else training
    limited = draw(st.booleans()) if memory is None else memory
    device_kinds = draw(_device_kinds(kinds, max_count, max_devices, limited, cpus, latency))
    forward = draw(st.integers(1, max(1, max_operators - 1 if train else max_operators)))
    backward = draw(st.integers(1, max(1, max_operators - forward))) if train else 0
    count = forward + backward

    ties: list[int | None] = [draw(among(None, None, None, 0, 1)) if colocation else None for _ in range(forward)]
    for _ in range(backward):
        mirror = draw(st.integers(-1 if orphans else 0, forward - 1))
        if mirror < 0:
            # No forward operator has these classes; two orphans may share one.
            ties.append(draw(among(None, 50, 51)))
            continue
        if ties[mirror] is None:
            ties[mirror] = 10 + mirror
        ties.append(ties[mirror])

    # Positions are an execution order; ids are neither contiguous nor in that order, and the list may be shuffled.
    ids = [3 * number + 1 for number in draw(st.permutations(range(count)))]
    no_time = among(*[False] * 9, unsupported)
    operators = []
    for place in range(count):
        times = [None if draw(no_time) else draw(halves(0, 4)) for _ in device_kinds]
        usable = [i for i, kind in enumerate(device_kinds) if kind.count]
        if supported_somewhere and all(times[i] is None for i in usable):
            times[usable[0]] = 1.0
        operators.append(
            TimedOperator(
                id=ids[place],
                times=tuple(times),
                name=draw(among("", f"op{place}")),
                backward=place >= forward,
                colocation=ties[place],
                memory_bytes=draw(halves(0, 2)) if limited else 0.0,
                workspace_bytes=draw(halves(0, 2)) if limited and draw(st.booleans()) else 0.0,
            )
        )
    tensors = draw(_tensors(ids, forward))
    parameters: list[StoredParameter] = []
    saved: list[SavedTensor] = []
    if limited:
        for number in range(draw(st.integers(0, 3))):
            users = draw(places(count, 1, 3))
            parameters.append(
                StoredParameter(
                    name=f"w{number}",
                    users=tuple(ids[place] for place in users),
                    weight_bytes=draw(halves(0, 2)),
                    gradient_bytes=draw(halves(0, 1)) if train else 0.0,
                    optimizer_bytes=draw(halves(0, 1)) if train else 0.0,
                )
            )
        for number in range(draw(st.integers(0, 3)) if train else 0):
            readers = tuple(ids[forward + place] for place in draw(places(backward, 1, 3)))
            saved.append(SavedTensor(name=f"s{number}", users=readers, bytes=draw(halves(0, 2))))
    schedule = MicrobatchSchedule(
        name=draw(among(*schedules)),
        microbatches=draw(st.integers(1, 4)),
        recompute=draw(st.booleans()) if recompute is None else recompute,
    )
    return ThroughputProblem(
        name="random",
        operators=tuple(draw(st.permutations(operators))),
        tensors=tuple(tensors),
        parameters=tuple(parameters),
        saved=tuple(saved),
        schedule=schedule,
        unit="ms",
        **draw(_variant_fields(device_kinds, variants)),
    )


@st.composite
def _variant_fields(draw: st.DrawFn, kinds: list[DeviceKind], variants: Sequence[str]) -> dict[str, Any]:
    """Fields of a problem that make it use the variants; the kinds are given again with their rates."""
    fields: dict[str, Any] = {}
    if "overlap" in variants or "duplex" in variants:
        fields["communication"] = draw(among(*(v for v in variants if v in ("overlap", "duplex"))))
    if "replicas" in variants:
        fields["max_replicas"] = draw(st.integers(2, 4))
        fields["weight_sync_per_batch"] = draw(st.booleans())
    if "streaming" in variants:
        fields["streaming"] = True
    if "groups" in variants:
        first = [draw(st.integers(0, kind.count)) for kind in kinds]
        rates = [draw(among(1.0, 2.0, 0.5)) for _ in range(2)]
        fields["groups"] = tuple(
            LinkedGroup(
                name=name, counts=tuple(counts), transfer_time_per_unit=rate, transfer_latency=draw(halves(0, 1))
            )
            for name, rate, counts in (
                ("left", rates[0], first),
                ("right", rates[1], [kind.count - held for kind, held in zip(kinds, first, strict=True)]),
            )
        )
    rate = among(0.0, 0.25, 0.5, 1.0)
    fields["kinds"] = tuple(
        msgspec.structs.replace(
            kind,
            sync_time_per_byte=draw(rate) if "replicas" in variants else 0.0,
            reload_time_per_byte=draw(rate) if "streaming" in variants else 0.0,
        )
        for kind in kinds
    )
    return fields


@st.composite
def _device_kinds(
    draw: st.DrawFn,
    number: tuple[int, int],
    max_count: int,
    max_devices: int,
    limited: bool,
    cpus: bool,
    latency: bool,
) -> list[DeviceKind]:
    result: list[DeviceKind] = []
    kinds = draw(st.integers(*number))
    left = max_devices
    for place in range(kinds):
        # The last kind has a device if no other one has.
        fewest = 1 if left == max_devices and place == kinds - 1 else 0
        count = draw(st.integers(fewest, max(fewest, min(max_count, left))))
        left -= count
        cpu = cpus and draw(st.integers(0, 3 if place == 0 else 1)) == 0
        delayed = not cpu and latency and draw(st.booleans())
        result.append(
            DeviceKind(
                name=f"cpu{place}" if cpu else f"gpu{place}",
                count=count,
                memory_bytes=draw(halves(1, 16)) if limited and not cpu and draw(st.integers(0, 3)) else None,
                accelerator=not cpu,
                transfer_time_per_unit=0.0 if cpu else draw(among(1.0, 1.0, 0.5, 2.0)),
                transfer_latency=draw(halves(0, 1)) if delayed else 0.0,
            )
        )
    return result


@st.composite
def _tensors(draw: st.DrawFn, ids: list[int], forward: int) -> list[MovedTensor]:
    """Tensors along the positions; the backward part follows the forward part, and never feeds it."""
    tensors = []
    for place, identity in enumerate(ids):
        later = ids[place + 1 :]
        for _ in range(draw(among(1, 1, 1, 2, 0))):
            # A tensor without consumers is an output of the model (or a gradient that stays where it is).
            consumers = tuple(later[k] for k in draw(places(len(later), 0, 3))) if later else ()
            tensors.append(MovedTensor(producer=identity, consumers=consumers, size=draw(halves(0, 3))))
    if forward < len(ids) and draw(st.booleans()):
        # A chain, as the backward part of a chain of layers has it.
        backward = ids[forward:]
        for place in range(len(backward) - 1):
            tensors.append(
                MovedTensor(producer=backward[place], consumers=(backward[place + 1],), size=draw(halves(0, 3)))
            )
    return tensors


@st.composite
def plans(
    draw: st.DrawFn,
    problem: ThroughputProblem,
    *,
    keep_classes: bool | None = None,
    contiguity: Contiguity | None = None,
) -> Plan:
    """Any assignment of a problem's operators to its devices, in any order of stages: mostly not feasible.

    Parameters
    ----------
    problem
        The problem.
    keep_classes
        Keep operators of a colocation class together; None leaves it to chance.
    contiguity
        What the plan claims; None leaves it to chance.
    """
    devices = list(draw(st.permutations(problem.device_names())))
    spare: list[list[str]] = [[] for _ in problem.kinds]
    if problem.max_replicas > 1:
        # Some devices join others of their kind, mostly no more than may.
        while len(devices) > 1 and draw(st.booleans()):
            name, kind = devices.pop()
            spare[kind].append(name)
    together = draw(st.booleans()) if keep_classes is None else keep_classes
    chosen: dict[object, int] = {}
    members: list[list[int]] = [[] for _ in devices]
    for op in problem.operators:
        key = op.colocation if together and op.colocation is not None else ("alone", op.id)
        if key not in chosen:
            chosen[key] = draw(st.integers(0, len(devices) - 1))
        members[chosen[key]].append(op.id)
    stages = tuple(
        Stage(
            devices=(names := (name, *(spare[kind].pop() for _ in range(draw(st.integers(0, len(spare[kind]))))))),
            kind=problem.kinds[kind].name,
            operators=tuple(ids),
            data_parallel=len(names),
        )
        for (name, kind), ids in zip(devices, members, strict=True)
        if ids
    )
    claimed: Contiguity = draw(among("acyclic", "free")) if contiguity is None else contiguity
    return Plan(stages=stages, contiguity=claimed)


@st.composite
def graphs(draw: st.DrawFn, *, training: bool | None = None, max_operators: int = 8) -> graphs_module.Graph:
    """Small valid model graphs with shared and tied parameters, free operators, model inputs and module names."""
    train = draw(st.booleans()) if training is None else training
    forward = draw(st.integers(1, max(1, max_operators - 1 if train else max_operators)))
    backward = draw(st.integers(1, max(1, max_operators - forward))) if train else 0
    count = forward + backward
    modules = {"": "Model", "layers": "ModuleList", "layers.0": "Block", "layers.1": "Block"}
    operators = []
    for place in range(count):
        is_backward = place >= forward
        free = draw(among(False, False, False, True))
        tie = draw(among(None, *range(forward if is_backward else place))) if is_backward or place else None
        operators.append(
            graphs_module.Operator(
                name=f"op{place}",
                target=draw(among("aten.mm.default", "aten.add.Tensor", "aten.view.default")),
                module=draw(among(*modules)),
                phase="backward" if is_backward else "forward",
                dtype=draw(among("float32", "float16", "bfloat16")),
                flops=0 if free else draw(st.integers(0, 10**6)),
                bytes_read=0 if free else draw(st.integers(0, 10**4)),
                bytes_written=0 if free else draw(st.integers(0, 10**4)),
                workspace_bytes=0 if free else draw(st.integers(0, 100)),
                colocation=tie if is_backward or draw(st.integers(0, 3)) == 0 else None,
                free=free,
            )
        )
    tensors = []
    for place in range(-1, count):
        later = range(place + 1, count)
        for number in range(draw(st.integers(0, 2))):
            readers = [later[k] for k in draw(places(len(later), 0, 3))] if later else []
            shape = tuple(draw(st.lists(st.integers(1, 4), max_size=3)))
            size = 4
            for extent in shape:
                size *= extent
            tensors.append(
                graphs_module.Tensor(
                    name=f"input.{number}" if place < 0 else f"op{place}.{number}",
                    producer=None if place < 0 else place,
                    consumers=tuple(sorted(readers)),
                    shape=shape,
                    bytes=size,
                )
            )
    parameters = []
    for number in range(draw(st.integers(0, 3))):
        users = draw(places(count, 0, 3))
        extent = draw(st.integers(1, 8))
        buffer = draw(st.booleans())
        parameters.append(
            graphs_module.Parameter(
                name=f"layers.0.w{number}",
                aliases=(f"layers.1.w{number}",) if draw(st.booleans()) else (),
                shape=(extent,),
                bytes=4 * extent,
                users=tuple(sorted(users)),
                trainable=not buffer and draw(st.booleans()),
                buffer=buffer,
            )
        )
    return graphs_module.Graph(
        name="random",
        operators=tuple(operators),
        tensors=tuple(tensors),
        parameters=tuple(parameters),
        modules=modules,
        training=train,
    )


def random_problem(seed: int, operators: int = 60, *, devices: int = 4, training: bool = False) -> ThroughputProblem:
    """A problem too large for the brute force: layers of random width with local tensors, the same for the same seed.

    With ``training`` each operator has a backward one, and the tensors their gradients.
    """
    rng = random.Random(seed)
    times = [rng.randint(1, 16) / 2 for _ in range(operators)]
    edges = [
        (place, tuple(sorted({min(operators - 1, place + rng.randint(1, 5)) for _ in range(rng.randint(1, 3))})))
        for place in range(operators - 1)
    ]
    ops = [TimedOperator(id=i, times=(time,), colocation=i if training else None) for i, time in enumerate(times)]
    tensors = [MovedTensor(producer=a, consumers=consumers, size=rng.randint(0, 6) / 2) for a, consumers in edges]
    if training:
        # Operator i has backward operator operators + i; the gradients go the other way.
        ops += [
            TimedOperator(id=operators + i, times=(2 * time,), colocation=i, backward=True)
            for i, time in enumerate(times)
        ]
        tensors += [
            MovedTensor(producer=operators + consumer, consumers=(operators + a,), size=rng.randint(0, 6) / 2)
            for a, consumers in edges
            for consumer in consumers
        ]
    return ThroughputProblem(
        name=f"random {seed}",
        kinds=(DeviceKind(name="gpu", count=devices),),
        operators=tuple(ops),
        tensors=tuple(tensors),
        unit="ms",
    )
