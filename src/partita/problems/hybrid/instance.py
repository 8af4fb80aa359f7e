"""A hybrid problem as plain arrays over its suffix sets, for the kernels."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from partita.dags import topological_order
from partita.kernels.hybrid.arrays import HybridArrays, HybridScratch
from partita.kernels.throughput.arrays import as_arrays, bit_rows
from partita.problems.hybrid.downsets import as_bits
from partita.problems.hybrid.problem import Configuration, HybridProblem
from partita.units import TOLERANCE, up_to

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class HybridInstance:
    """What does not depend on the suffix sets: layers in topological order with the options worth having.

    Attributes
    ----------
    problem
        Where it comes from.
    order
        Place in ``problem.layers`` of each layer in topological order.
    source, target, bytes
        Edges, by topological place; bytes.
    after, before
        Bit sets of each layer's successors and predecessors.
    degrees
        Tensor-parallel degrees.
    options
        For each degree and layer its options, the fastest first; empty where the layer lacks the degree.
    uniform
        For each degree whether all options of every layer share weights, sharded memory and synchronisation.
    """

    problem: HybridProblem
    order: tuple[int, ...]
    source: tuple[int, ...]
    target: tuple[int, ...]
    bytes: tuple[float, ...]
    after: tuple[int, ...]
    before: tuple[int, ...]
    degrees: tuple[int, ...]
    options: tuple[tuple[tuple[Configuration, ...], ...], ...]
    uniform: tuple[bool, ...]

    @property
    def homeless(self) -> int:
        """Bit set of the layers without a degree that the devices allow: with any there is no plan."""
        return sum(1 << v for v in range(len(self.order)) if not any(row[v] for row in self.options))

    @property
    def width(self) -> int:
        """Largest sum of data-parallel degrees."""
        return min(self.problem.microbatches, self.problem.devices)

    def ids(self, members: int) -> tuple[int, ...]:
        """Layer ids of a bit set, in the problem's order."""
        layers = self.problem.layers
        return tuple(layers[p].id for p in sorted(p for v, p in enumerate(self.order) if members >> v & 1))


def build_instance(problem: HybridProblem) -> HybridInstance:
    """Sort the layers, and leave out configurations that another one beats in every respect."""
    place = {layer.id: number for number, layer in enumerate(problem.layers)}
    order = tuple(topological_order(len(place), ((place[edge.source], place[edge.target]) for edge in problem.edges)))
    rank = {number: v for v, number in enumerate(order)}
    source = tuple(rank[place[edge.source]] for edge in problem.edges)
    target = tuple(rank[place[edge.target]] for edge in problem.edges)
    after, before = [0] * len(order), [0] * len(order)
    for u, v in zip(source, target, strict=True):
        after[u] |= 1 << v
        before[v] |= 1 << u
    degrees = tuple(problem.degrees())
    options = tuple(
        tuple(_worth_having(problem.layers[number].configurations.get(degree, ())) for number in order)
        for degree in degrees
    )
    return HybridInstance(
        problem=problem,
        order=order,
        source=source,
        target=target,
        bytes=tuple(edge.bytes for edge in problem.edges),
        after=tuple(after),
        before=tuple(before),
        degrees=degrees,
        options=options,
        uniform=tuple(all(_alike(choices) for choices in row) for row in options),
    )


def _synchronisation(choice: Configuration) -> dict[tuple[str, int], float]:
    """The synchronisation that costs anything."""
    tables = (("in", choice.sync_in_bytes), ("out", choice.sync_out_bytes))
    return {(side, other): value for side, table in tables for other, value in table.items() if value > 0}


def _alike(choices: Sequence[Configuration]) -> bool:
    return all(
        choice.weight_bytes == choices[0].weight_bytes
        and choice.sharded_bytes == choices[0].sharded_bytes
        and _synchronisation(choice) == _synchronisation(choices[0])
        for choice in choices[1:]
    )


def _no_worse(one: Configuration, other: Configuration) -> bool:
    mine, theirs = _synchronisation(one), _synchronisation(other)
    return (
        one.time <= other.time
        and one.weight_bytes <= other.weight_bytes
        and one.memory_per_microbatch_bytes <= other.memory_per_microbatch_bytes
        and one.memory_bytes <= other.memory_bytes
        and one.sharded_bytes <= other.sharded_bytes
        and all(value <= theirs.get(key, 0.0) for key, value in mine.items())
    )


def _worth_having(choices: Sequence[Configuration]) -> tuple[Configuration, ...]:
    kept: list[Configuration] = []
    for choice in sorted(choices, key=lambda c: (c.time, c.memory_per_microbatch_bytes, c.memory_bytes)):
        if not any(_no_worse(other, choice) for other in kept):
            kept = [other for other in kept if not _no_worse(choice, other)]
            kept.append(choice)
    return tuple(kept)


def build_arrays(model: HybridInstance, sets: Iterable[int]) -> tuple[HybridArrays, list[int]]:
    """The arrays over some suffix sets, and the sets in the arrays' order."""
    problem = model.problem
    n, m, bandwidth = len(model.order), len(model.source), problem.bandwidth_bytes_per_unit
    held = list(sets)
    bits = as_bits(held, n).astype(bool)

    least, edge_least = _least_device_time(model)
    # Added layer by layer, so that rounding never makes a subset heavier than its superset.
    work = np.zeros(len(held))
    for v in range(n):
        work += bits[:, v] * least[v]
    by_work = np.lexsort((bits.sum(axis=1), work))
    work, bits = work[by_work], bits[by_work]
    crossing = np.zeros((len(held), m), dtype=bool)
    for e in range(m):
        crossing[:, e] = ~bits[:, model.source[e]] & bits[:, model.target[e]]

    options = _Options(model)
    size = bits.astype(np.float64)
    across = crossing.astype(np.float64)
    cross_ptr = np.concatenate(([0], np.cumsum(crossing.sum(axis=1))))
    segments = _Segments(model)
    limit = math.inf if problem.memory_bytes is None else up_to(problem.memory_bytes)
    values: dict[str, Any] = {
        "degree": model.degrees,
        "uniform": model.uniform,
        "members": bit_rows(bits),
        "work": work,
        "rest": np.maximum(0.0, work[-1] - work) * (1.0 - TOLERANCE) + across @ edge_least,
        "missing": np.array([[not choices for choices in row] for row in model.options], dtype=np.float64) @ size.T,
        "cross_ptr": cross_ptr,
        "cross": np.nonzero(crossing)[1],
        "source": model.source,
        "target": model.target,
        "edge_time": [2.0 * value / bandwidth for value in model.bytes],
        "enter": options.arrays["edge_enter"] @ across.T,
        "leave": options.arrays["edge_leave"] @ across.T,
        "segment": segments.of_count,
        "small_active": segments.active @ size.T,
        "small_fixed": segments.fixed @ size.T,
        "small_time": segments.time @ size.T,
        "next_replicas": _next_replicas(model),
        "limits": [limit, problem.microbatches, problem.weight_sync_per_batch],
        **{name: values @ size.T for name, values in options.fastest.items()},
        **options.arrays,
    }
    return as_arrays(HybridArrays, values), [held[k] for k in by_work]


def _least_device_time(model: HybridInstance) -> tuple[list[float], Floats]:
    """For each layer and edge the least time on one device times devices: min over degrees of t·p and t·2(c + sync)/B.

    A stage keeps d·t devices busy for at most the target, so both add up to at most devices times target.
    """
    bandwidth = model.problem.bandwidth_bytes_per_unit
    layers = []
    for v in range(len(model.order)):
        rows = [(t, row[v]) for t, row in zip(model.degrees, model.options, strict=True)]
        layers.append(min((t * min(c.time for c in choices) for t, choices in rows if choices), default=0.0))
    edges = np.zeros(len(model.source))
    for e, u in enumerate(model.source):
        head = model.problem.layers[model.order[model.target[e]]].id
        found = [
            t * 2.0 * (model.bytes[e] + min(c.sync_out_bytes.get(head, 0.0) for c in row[u])) / bandwidth
            for t, row in zip(model.degrees, model.options, strict=True)
            if row[u]
        ]
        edges[e] = min(found, default=0.0) * (1.0 - TOLERANCE)
    return layers, edges


#: What an option takes, in the order in which it is kept.
_COLUMNS = ("time", "weight", "active", "fixed", "sharded")


class _Options:
    """The options of all layers, flat, and each layer's fastest values by degree."""

    def __init__(self, model: HybridInstance) -> None:
        n, ranks, bandwidth = len(model.order), len(model.degrees), model.problem.bandwidth_bytes_per_unit
        fastest = np.zeros((len(_COLUMNS), ranks, n))
        pointers = np.zeros((ranks, n + 1), dtype=np.int64)
        kind = np.zeros((ranks, n), dtype=np.int64)
        flat: list[tuple[float, ...]] = []
        for r, row in enumerate(model.options):
            kinds: dict[tuple[tuple[float, ...], ...], int] = {}
            for v, choices in enumerate(row):
                pointers[r, v] = len(flat)
                memory = tuple((c.memory_per_microbatch_bytes, c.memory_bytes, c.sharded_bytes) for c in choices)
                kind[r, v] = kinds.setdefault(memory, len(kinds))
                flat += [(c.time, c.weight_bytes / bandwidth, *m) for c, m in zip(choices, memory, strict=True)]
                if choices:
                    weight, sharded = min(c.weight_bytes for c in choices), min(c.sharded_bytes for c in choices)
                    fastest[:, r, v] = (choices[0].time, weight / bandwidth, *memory[0][:2], sharded)
            pointers[r, n] = len(flat)
        self.fastest = dict(zip(_COLUMNS, fastest, strict=True))
        columns = np.array(flat, dtype=np.float64).reshape(-1, len(_COLUMNS)).T
        self.arrays: dict[str, Any] = {
            "option_ptr": pointers,
            "kind": kind,
            **{f"option_{name}": column for name, column in zip(_COLUMNS, columns, strict=True)},
            **_traffic(model, "in", model.target, model.source),
            **_traffic(model, "out", model.source, model.target),
        }


def _traffic(model: HybridInstance, side: str, mine: Sequence[int], other: Sequence[int]) -> dict[str, Any]:
    """The edges on one side of every layer, and the time of what its options move over them.

    Parameters
    ----------
    model
        The problem.
    side
        ``in`` or ``out``.
    mine, other
        The end of every edge that is looked at, and the one across.
    """
    bandwidth = model.problem.bandwidth_bytes_per_unit
    ids = [model.problem.layers[model.order[v]].id for v in other]
    edges = [[e for e, end in enumerate(mine) if end == v] for v in range(len(model.order))]
    least = np.zeros((len(model.degrees), len(mine)))
    moved: list[float] = []
    pointers = [0]
    for r, row in enumerate(model.options):
        for v, choices in enumerate(row):
            tables: list[dict[int, float]] = [getattr(choice, f"sync_{side}_bytes") for choice in choices]
            for table in tables:
                moved += [2.0 * table.get(ids[e], 0.0) / bandwidth for e in edges[v]]
                pointers.append(len(moved))
            for e in edges[v] if choices else ():
                least[r, e] = 2.0 * (model.bytes[e] + min(table.get(ids[e], 0.0) for table in tables)) / bandwidth
    return {
        "edge_enter" if side == "in" else "edge_leave": least,
        f"{side}_ptr": np.cumsum([0, *map(len, edges)]),
        f"{side}_edges": [e for row in edges for e in row],
        f"option_{side}_ptr": pointers,
        f"option_{side}": moved,
    }


class _Segments:
    """Runs of in-flight counts y over which every layer's smallest configuration, of a·y + b, stays the same."""

    def __init__(self, model: HybridInstance) -> None:
        width, n = model.width, len(model.order)
        counts = np.arange(1, width + 1, dtype=np.float64)
        self.of_count = np.zeros((len(model.degrees), width + 1), dtype=np.int64)
        active: list[list[float]] = []
        fixed: list[list[float]] = []
        time: list[list[float]] = []
        for r, row in enumerate(model.options):
            smallest: dict[Any, Any] = {}
            changes = {0}
            keys = []
            for choices in row:
                key = tuple((c.memory_per_microbatch_bytes, c.memory_bytes) for c in choices)
                keys.append(key)
                if key in smallest or not key:
                    continue
                best = np.array([a * counts + b for a, b in key]).argmin(axis=0)
                smallest[key] = best
                changes |= set((np.flatnonzero(np.diff(best)) + 1).tolist())
            starts = sorted(changes)
            for begin, end in zip(starts, [*starts[1:], width], strict=True):
                self.of_count[r, begin + 1 : end + 1] = len(active)
                chosen = [row[v][int(smallest[keys[v]][begin])] if row[v] else None for v in range(n)]
                active.append([0.0 if c is None else c.memory_per_microbatch_bytes for c in chosen])
                fixed.append([0.0 if c is None else c.memory_bytes for c in chosen])
                time.append([0.0 if c is None else c.time for c in chosen])
        self.active, self.fixed, self.time = np.array(active), np.array(fixed), np.array(time)


def _next_replicas(model: HybridInstance) -> npt.NDArray[np.int64]:
    """For each d the smallest allowed data-parallel degree at least d; width + 1 for none."""
    width, batch = model.width, model.problem.microbatches
    result = np.full(width + 2, width + 1, dtype=np.int64)
    for d in range(width, 0, -1):
        allowed = not model.problem.weight_sync_per_batch or batch % d == 0
        result[d] = d if allowed else result[d + 1]
    result[0] = result[1]
    return result


def new_scratch(model: HybridInstance) -> HybridScratch:
    """Working memory for one thread."""
    n = len(model.order)
    size = max((sum(len(choices) for choices in row) for row in model.options), default=0) + 1
    lengths = dict.fromkeys(("gain", "loss", "option", "step_gain", "step_loss", "step_order"), size) | {"counters": 2}
    return as_arrays(HybridScratch, {name: np.zeros(lengths.get(name, n + 2)) for name in HybridScratch._fields})
