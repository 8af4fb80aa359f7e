"""The same problem in other words: other units of time and of memory, other ids, and another order of its parts.

A plan's value changes with the unit of time and with nothing else.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable
from typing import Any

import msgspec

from partita.nouns.pipeline import Stage
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.training import Training
from partita.problems.throughput.problem import ThroughputProblem

__all__ = ["in_other_bytes", "in_other_ids", "in_other_time", "renumbered"]


def _times(items: Iterable[Any], fields: str, factor: float) -> tuple[Any, ...]:
    """The structs with some fields multiplied; None stays."""
    return tuple(
        msgspec.structs.replace(
            item,
            **{name: None if getattr(item, name) is None else getattr(item, name) * factor for name in fields.split()},
        )
        for item in items
    )


def _each(table: dict[int, Any], fields: str, factor: float) -> dict[int, Any]:
    """The same for the values of a table."""
    return dict(zip(table, _times(table.values(), fields, factor), strict=True))


def _latencies(training: Training | None, factor: float) -> Training | None:
    if training is None:
        return None
    calls, hops = (tuple(time * factor for time in times) for times in (training.call_times, training.hop_times))
    return msgspec.structs.replace(training, call_times=calls, hop_times=hops)


def in_other_time(problem: Any, factor: float) -> Any:
    """The problem with every time multiplied."""
    if isinstance(problem, HybridProblem):
        hierarchy = problem.hierarchy
        if hierarchy is not None:
            (hierarchy,) = _times([hierarchy], "machine_bandwidth_bytes_per_unit", 1.0 / factor)
        return problem.replace(
            layers=tuple(
                msgspec.structs.replace(
                    layer,
                    configurations={
                        t: _times(row, "time forward_time traffic_time", factor)
                        for t, row in layer.configurations.items()
                    },
                    states=_each(layer.states, "update_time weight_gradient_time", factor),
                )
                for layer in problem.layers
            ),
            bandwidth_bytes_per_unit=problem.bandwidth_bytes_per_unit / factor,
            hierarchy=hierarchy,
            training=_latencies(problem.training, factor),
        )
    rates = "transfer_time_per_unit transfer_latency"
    return problem.replace(
        kinds=_times(problem.kinds, f"{rates} sync_time_per_byte reload_time_per_byte", factor),
        groups=_times(problem.groups, rates, factor),
        operators=tuple(
            msgspec.structs.replace(op, times=tuple(None if t is None else t * factor for t in op.times))
            for op in problem.operators
        ),
    )


def in_other_bytes(problem: Any, factor: float) -> Any:
    """The problem with every size multiplied, and every time per byte divided."""
    if isinstance(problem, HybridProblem):
        return _hybrid_in_other_bytes(problem, factor)
    rates = "transfer_time_per_unit sync_time_per_byte reload_time_per_byte"
    return problem.replace(
        kinds=_times(_times(problem.kinds, "memory_bytes", factor), rates, 1.0 / factor),
        groups=_times(problem.groups, "transfer_time_per_unit", 1.0 / factor),
        operators=_times(problem.operators, "memory_bytes workspace_bytes", factor),
        tensors=_times(problem.tensors, "size", factor),
        parameters=_times(problem.parameters, "weight_bytes gradient_bytes optimizer_bytes", factor),
        saved=_times(problem.saved, "bytes", factor),
    )


def _hybrid_in_other_bytes(problem: HybridProblem, factor: float) -> HybridProblem:
    amounts = "weight_bytes memory_per_microbatch_bytes memory_bytes sharded_bytes"

    def more(table: dict[int, float]) -> dict[int, float]:
        return {identity: value * factor for identity, value in table.items()}

    layers = tuple(
        msgspec.structs.replace(
            layer,
            configurations={
                t: tuple(
                    msgspec.structs.replace(
                        c, sync_in_bytes=more(c.sync_in_bytes), sync_out_bytes=more(c.sync_out_bytes)
                    )
                    for c in _times(row, amounts, factor)
                )
                for t, row in layer.configurations.items()
            },
            states=_each(layer.states, "parameter_bytes gradient_bytes optimizer_bytes", factor),
        )
        for layer in _times(problem.layers, "weight_bytes", factor)
    )
    training = problem.training
    if training is not None:
        training = msgspec.structs.replace(training, reserves=more(training.reserves))
    hierarchy = problem.hierarchy
    if hierarchy is not None:
        (hierarchy,) = _times([hierarchy], "machine_bandwidth_bytes_per_unit", factor)
    return msgspec.structs.replace(
        problem,
        layers=layers,
        edges=_times(problem.edges, "bytes", factor),
        memory_bytes=None if problem.memory_bytes is None else problem.memory_bytes * factor,
        bandwidth_bytes_per_unit=problem.bandwidth_bytes_per_unit * factor,
        hierarchy=hierarchy,
        training=training,
    )


def renumbered(problem: Any, seed: int) -> tuple[Any, dict[int, int]]:
    """The problem with other ids, its operators, tensors, layers and edges in another order; and the new ids."""
    rng = random.Random(seed)

    def shuffled(items: Iterable[Any]) -> tuple[Any, ...]:
        held = list(items)
        rng.shuffle(held)
        return tuple(held)

    if isinstance(problem, HybridProblem):
        number = dict(zip((layer.id for layer in problem.layers), _numbers(len(problem.layers), rng), strict=True))

        def named(table: dict[int, float]) -> dict[int, float]:
            return {number[identity]: value for identity, value in table.items()}

        order = [problem.layers[place].id for place in problem.order()]
        forced = set(itertools.pairwise(order)) <= {(edge.source, edge.target) for edge in problem.edges}
        # Layers of a step run in the problem's own order where edges leave that free: there it says something.
        listed = tuple if problem.training is not None and not forced else shuffled
        changed = problem.replace(
            layers=listed(
                msgspec.structs.replace(
                    layer,
                    id=number[layer.id],
                    configurations={
                        t: shuffled(
                            msgspec.structs.replace(
                                c, sync_in_bytes=named(c.sync_in_bytes), sync_out_bytes=named(c.sync_out_bytes)
                            )
                            for c in row
                        )
                        for t, row in layer.configurations.items()
                    },
                )
                for layer in problem.layers
            ),
            edges=shuffled(
                msgspec.structs.replace(edge, source=number[edge.source], target=number[edge.target])
                for edge in problem.edges
            ),
        )
        return changed, number
    assert isinstance(problem, ThroughputProblem)
    number = dict(zip((op.id for op in problem.operators), _numbers(len(problem.operators), rng), strict=True))
    classes = sorted({op.colocation for op in problem.operators if op.colocation is not None})
    tie = dict(zip(classes, _numbers(len(classes), rng), strict=True))

    def users(items: Iterable[Any], field: str) -> tuple[Any, ...]:
        return shuffled(
            msgspec.structs.replace(item, **{field: shuffled(number[user] for user in getattr(item, field))})
            for item in items
        )

    row = problem.row
    if row is not None:
        units = tuple(shuffled(number[identity] for identity in unit) for unit in row.units)
        row = msgspec.structs.replace(row, units=units)
    changed = problem.replace(
        operators=shuffled(
            msgspec.structs.replace(
                op, id=number[op.id], colocation=None if op.colocation is None else tie[op.colocation]
            )
            for op in problem.operators
        ),
        tensors=users(
            (msgspec.structs.replace(tensor, producer=number[tensor.producer]) for tensor in problem.tensors),
            "consumers",
        ),
        parameters=users(problem.parameters, "users"),
        saved=users(problem.saved, "users"),
        row=row,
    )
    return changed, number


def in_other_ids(plan: Any, number: dict[int, int]) -> Any:
    """A plan of the problem before as one of the problem after ``renumbered``."""
    stages = []
    for stage in plan.stages:
        changes: dict[str, Any] = {"operators": tuple(number[identity] for identity in stage.operators)}
        if isinstance(stage, Stage):
            changes["configurations"] = {number[identity]: name for identity, name in stage.configurations.items()}
            changes["chunks"] = tuple(tuple(number[identity] for identity in part) for part in stage.chunks)
        stages.append(msgspec.structs.replace(stage, **changes))
    return msgspec.structs.replace(plan, stages=tuple(stages))


def _numbers(count: int, rng: random.Random) -> list[int]:
    """Distinct numbers, neither small nor in order."""
    return rng.sample(range(10 * count + 10), count)
