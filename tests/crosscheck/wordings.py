"""An instance in other words: other units by a power of two, which changes no digit, other ids, another order."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Literal

from msgspec.structs import replace

from second_opinions import metamorphic

__all__ = ["Wording", "in_other_words"]

Wording = Literal["", "times", "bytes", "ids"]


def in_other_words(problem: Any, wording: Wording, factor: float) -> Any:
    """The instance with all times or sizes multiplied, or renumbered by a seed; None where it is not known how."""
    change = _CHANGES.get((problem.kind, wording))
    return None if change is None else change(problem, factor)


def _plain_hybrid(change: Callable[[Any, float], Any]) -> Callable[[Any, float], Any]:
    """What is known of a hybrid problem alone: not of several kinds of devices, nor of experts."""

    def changed(problem: Any, factor: float) -> Any:
        if problem.spreads or problem.others or any(layer.update_times for layer in problem.layers):
            return None
        if any(state.experts is not None for layer in problem.layers for state in layer.states.values()):
            return None
        if problem.training is not None and (problem.training.limits.together or problem.training.limits.handed):
            return None
        return change(problem, factor)

    return changed


def _renumbered(problem: Any, seed: float) -> Any:
    return metamorphic.renumbered(problem, int(seed))[0]


def _multiplied(items: Any, names: str, factor: float) -> Any:
    return tuple(
        replace(item, **{n: None if (x := getattr(item, n)) is None else x * factor for n in names.split()})
        for item in items
    )


def _rows(table: Any, factor: float) -> Any:
    return tuple(tuple(None if x is None else x * factor for x in row) for row in table)


def _latency_times(problem: Any, factor: float) -> Any:
    operators = _multiplied(problem.operators, "cpu_time accelerator_time transfer_time", factor)
    return replace(problem, operators=operators)


def _latency_bytes(problem: Any, factor: float) -> Any:
    limit = None if problem.memory_bytes is None else problem.memory_bytes * factor
    return replace(problem, memory_bytes=limit, operators=_multiplied(problem.operators, "memory_bytes", factor))


def _makespan_times(problem: Any, factor: float) -> Any:
    operators = tuple(
        replace(op, times=times)
        for op, times in zip(problem.operators, _rows([op.times for op in problem.operators], factor), strict=True)
    )
    flows = tuple(replace(flow, times=_rows(flow.times, factor)) for flow in problem.flows)
    return replace(problem, operators=operators, flows=flows)


def _makespan_bytes(problem: Any, factor: float) -> Any:
    operators = _multiplied(problem.operators, "memory", factor)
    return replace(problem, devices=_multiplied(problem.devices, "memory", factor), operators=operators)


def _mapping_times(problem: Any, factor: float) -> Any:
    stages = tuple(
        replace(stage, times_s=None if stage.times_s is None else tuple(t * factor for t in stage.times_s))
        for stage in _multiplied(problem.stages, "time_s", factor)
    )
    return replace(problem, stages=stages, bandwidth_bytes_per_s=_rows(problem.bandwidth_bytes_per_s, 1.0 / factor))


def _mapping_bytes(problem: Any, factor: float) -> Any:
    return replace(
        problem,
        stages=_multiplied(problem.stages, "parameter_bytes", factor),
        transfers=_multiplied(problem.transfers, "bytes", factor),
        bandwidth_bytes_per_s=_rows(problem.bandwidth_bytes_per_s, factor),
    )


def _layer_placement_times(problem: Any, factor: float) -> Any:
    """In units in which seconds per token are so many times as many: rates are as many times fewer."""
    machines = tuple(
        replace(machine, tokens_per_s={k: rate / factor for k, rate in machine.tokens_per_s.items()})
        for machine in problem.machines
    )
    return replace(problem, machines=machines, links=_multiplied(problem.links, "tokens_per_s", 1.0 / factor))


def _layer_placement_ids(problem: Any, seed: float) -> Any:
    rng = random.Random(seed)
    return replace(problem, machines=_shuffled(problem.machines, rng), links=_shuffled(problem.links, rng))


def _shuffled(items: Any, rng: random.Random) -> Any:
    return tuple(rng.sample(items, len(items)))


def _new_ids(problem: Any, rng: random.Random) -> dict[int, int]:
    count = len(problem.operators)
    return dict(zip((op.id for op in problem.operators), rng.sample(range(10 * count), count), strict=True))


def _latency_ids(problem: Any, seed: float) -> Any:
    rng = random.Random(seed)
    new = _new_ids(problem, rng)
    operators = tuple(replace(op, id=new[op.id]) for op in problem.operators)
    edges = tuple((new[u], new[v]) for u, v in problem.edges)
    return replace(problem, operators=_shuffled(operators, rng), edges=_shuffled(edges, rng))


def _makespan_ids(problem: Any, seed: float) -> Any:
    rng = random.Random(seed)
    new = _new_ids(problem, rng)
    operators = tuple(replace(op, id=new[op.id]) for op in problem.operators)
    flows = tuple(replace(flow, source=new[flow.source], target=new[flow.target]) for flow in problem.flows)
    pairs = tuple((new[u], new[v]) for u, v in problem.precedence)
    return replace(
        problem,
        operators=_shuffled(operators, rng),
        flows=_shuffled(flows, rng),
        precedence=_shuffled(pairs, rng),
    )


_CHANGES: dict[tuple[str, Wording], Callable[[Any, float], Any]] = {
    ("throughput", "times"): metamorphic.in_other_time,
    ("throughput", "bytes"): metamorphic.in_other_bytes,
    ("throughput", "ids"): _renumbered,
    ("hybrid", "times"): _plain_hybrid(metamorphic.in_other_time),
    ("hybrid", "bytes"): _plain_hybrid(metamorphic.in_other_bytes),
    ("hybrid", "ids"): _plain_hybrid(_renumbered),
    ("latency", "times"): _latency_times,
    ("latency", "bytes"): _latency_bytes,
    ("latency", "ids"): _latency_ids,
    ("makespan", "times"): _makespan_times,
    ("makespan", "bytes"): _makespan_bytes,
    ("makespan", "ids"): _makespan_ids,
    ("mapping", "times"): _mapping_times,
    ("mapping", "bytes"): _mapping_bytes,
    ("layer_placement", "times"): _layer_placement_times,
    ("layer_placement", "ids"): _layer_placement_ids,
}
