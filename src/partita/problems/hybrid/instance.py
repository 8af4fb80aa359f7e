"""A hybrid problem as plain arrays over its downsets, for the kernels."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from partita.engines.kernels.arrays import Floats, Longs, as_arrays, bit_rows
from partita.engines.kernels.graph_arrays import lists, pointer_of, rows_of
from partita.engines.kernels.hybrid.arrays import HybridArrays, HybridKnown, HybridScratch, HybridWork, StageIndex
from partita.ground.dags import members_of
from partita.ground.rounding import allowance, rounded_down
from partita.problems.hybrid.downsets import as_bits
from partita.problems.hybrid.layer import Configuration
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.room import Room, most_room


@dataclass(frozen=True)
class HybridInstance:
    """What does not depend on the downsets: layers in topological order with the options worth having."""

    problem: HybridProblem  #: Where it comes from.
    order: tuple[int, ...]  #: Place in ``problem.layers`` of each layer in topological order.
    #: Edges, by topological place; bytes.
    source: Longs
    target: Longs
    bytes: tuple[float, ...]
    #: Bit sets of each layer's successors and predecessors.
    after: tuple[int, ...]
    before: tuple[int, ...]
    degrees: tuple[int, ...]  #: Tensor-parallel degrees.
    #: For each degree and layer its options, the fastest first; empty where the layer lacks the degree.
    options: tuple[tuple[tuple[Configuration, ...], ...], ...]
    #: For each degree whether all options of every layer share weights, sharded memory and synchronisation.
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
        """Layer ids of a bit set, ascending."""
        return tuple(sorted(self.problem.layers[p].id for v, p in enumerate(self.order) if members >> v & 1))


def build_instance(problem: HybridProblem) -> HybridInstance:
    """Sort the layers, and leave out configurations that another one beats in every respect."""
    order = tuple(problem.order())
    rank = {number: v for v, number in enumerate(order)}
    edges = [(rank[u], rank[v]) for u, v in problem.links()]
    source, target = np.array(edges, dtype=np.int64).reshape(-1, 2).T
    after, before = [0] * len(order), [0] * len(order)
    for u, v in edges:
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


def of_step(choices: Sequence[Configuration]) -> tuple[Configuration, ...]:
    """Choices as a step counts them: what configurations say of weights, and that replicas share out, is not read."""
    return tuple(msgspec.structs.replace(choice, weight_bytes=0.0, sharded_bytes=0.0) for choice in choices)


def _synchronisation(choice: Configuration) -> dict[tuple[str, int], float]:
    """The synchronisation that costs anything."""
    tables = (("in", choice.sync_in_bytes), ("out", choice.sync_out_bytes))
    return {(side, other): value for side, table in tables for other, value in table.items() if value > 0}


def _alike(choices: Sequence[Configuration]) -> bool:
    shared = [(choice.weight_bytes, choice.sharded_bytes, _synchronisation(choice)) for choice in choices]
    return all(other == shared[0] for other in shared)


def _no_worse(one: Configuration, other: Configuration) -> bool:
    theirs = _synchronisation(other)
    return all(mine <= its for mine, its in zip(one.figures, other.figures, strict=True)) and all(
        value <= theirs.get(key, 0.0) for key, value in _synchronisation(one).items()
    )


def _worth_having(choices: Sequence[Configuration]) -> tuple[Configuration, ...]:
    kept: list[Configuration] = []
    for choice in sorted(choices, key=lambda c: (c.time, c.memory_per_microbatch_bytes, c.memory_bytes)):
        if not any(_no_worse(other, choice) for other in kept):
            kept = [other for other in kept if not _no_worse(choice, other)]
            kept.append(choice)
    return tuple(kept)


def build_arrays(model: HybridInstance, sets: Iterable[int], room: Room = most_room) -> tuple[HybridArrays, list[int]]:
    """The arrays over some downsets, and the sets in the arrays' order; every layer has a degree.

    ``room`` says how much of a device's memory is room.
    """
    problem, source, target, held = model.problem, model.source, model.target, list(sets)
    degree, lacking = np.array(model.degrees)[:, None], np.array([[not row for row in rows] for rows in model.options])
    allowed = np.array([*problem.replicas(model.width), model.width + 1])
    fastest, values = _options(model)
    segment, smallest = _segments(model)
    values |= _traffic(model, "in", target, source) | _traffic(model, "out", source, target)

    # Least time on one device times devices, over the degrees: a stage keeps d·t devices busy for at most the target,
    # so that both layers' and edges' add up to at most devices times target.
    least = np.where(lacking, math.inf, degree * fastest["time"]).min(axis=0)
    edge_least = np.where(lacking[:, source], math.inf, degree * values["edge_leave"]).min(axis=0)
    bits = as_bits(held, len(model.order)).astype(bool)
    # Added layer by layer, so that rounding never makes a subset heavier than its superset.
    work = np.zeros((len(held), 2))
    for v, parts in enumerate(_parts(least)):
        work += bits[:, v, None] * parts
    by_work = np.lexsort((bits.sum(axis=1), work.sum(axis=1)))
    work, bits = work[by_work], bits[by_work]
    crossing = ~bits[:, source] & bits[:, target]
    size = bits.astype(np.float64)
    rest = (1.0 - size) @ least + crossing.astype(np.float64) @ edge_least
    terms = 4 * (len(least) + len(source)) + 8
    values |= {
        "degree": model.degrees,
        "uniform": model.uniform,
        "members": bit_rows(bits),
        "work": work,
        "rest": rounded_down(rest, rest, terms),
        "cross_ptr": pointer_of(crossing.sum(axis=1)),
        "cross": np.nonzero(crossing)[1],
        "source": source,
        "target": target,
        "edge_time": [2.0 * value / problem.bandwidth_bytes_per_unit for value in model.bytes],
        "segment": segment,
        "next_replicas": allowed[np.searchsorted(allowed, np.arange(model.width + 2))],
        "limits": [
            room(problem.memory_bytes, len(least)),
            problem.microbatches,
            problem.weight_sync_per_batch,
            allowance(1.0, terms),
        ],
    }
    values["missing"] = lacking.astype(np.float64) @ size.T
    values |= {name: sums_over(of_layers, size) for name, of_layers in {**fastest, **smallest}.items()}
    return as_arrays(HybridArrays, values), [held[k] for k in by_work]


def sums_over(of_layers: Floats, bits: Floats) -> Floats:
    """(R, Z, 2) sums of rows (R, n) over the layers of sets (Z, n), in two parts."""
    return np.stack([part @ bits.T for part in np.moveaxis(_parts(of_layers), -1, 0)], axis=-1)


def _parts(values: Floats) -> Floats:
    """Numbers (…, n), not negative, as sums (…, n, 2) of multiples of a unit and what is left.

    The unit is such that no sum over n of its multiples rounds.
    """
    _, exponent = np.frexp(values.sum(axis=-1, keepdims=True))
    unit = np.maximum(np.ldexp(1.0, exponent - 52), np.finfo(np.float64).tiny)
    whole = np.floor(values / unit) * unit
    return np.stack([whole, values - whole], axis=-1)


#: What ``Configuration.figures`` are called.
_COLUMNS = ("time", "weight", "active", "fixed", "sharded")


def _options(model: HybridInstance) -> tuple[dict[str, Floats], dict[str, Any]]:
    """The fastest values of every degree and layer, and the options of all layers, flat."""
    n, ranks, bandwidth = len(model.order), len(model.degrees), model.problem.bandwidth_bytes_per_unit
    fastest = np.zeros((len(_COLUMNS), ranks, n))
    pointers = np.zeros((ranks, n + 1), dtype=np.int64)
    kind = np.zeros((ranks, n), dtype=np.int64)
    flat: list[tuple[float, ...]] = []
    for r, row in enumerate(model.options):
        kinds: dict[tuple[tuple[float, ...], ...], int] = {}
        for v, choices in enumerate(row):
            pointers[r, v] = len(flat)
            figures = [choice.figures for choice in choices]
            kind[r, v] = kinds.setdefault(tuple(memory[2:] for memory in figures), len(kinds))
            flat += figures
            if choices:
                # Weights and shared memory are the smallest; where all are alike, they are those of the fastest, too.
                _, least_weight, _, _, least_sharded = np.min(figures, axis=0)
                time, _, active, fixed, _ = figures[0]
                fastest[:, r, v] = time, least_weight, active, fixed, least_sharded
        pointers[r, n] = len(flat)
    columns = np.array(flat, dtype=np.float64).reshape(-1, len(_COLUMNS)).T
    for weight in fastest[1], columns[1]:
        weight /= bandwidth
    return dict(zip(_COLUMNS, fastest, strict=True)), {
        "option_ptr": pointers,
        "kind": kind,
        **{f"option_{name}": column for name, column in zip(_COLUMNS, columns, strict=True)},
    }


def _traffic(model: HybridInstance, side: str, mine: Longs, other: Longs) -> dict[str, Any]:
    """The edges ``in`` or ``out`` of every layer, the end of each that is ``mine``, and what its options move."""
    bandwidth = model.problem.bandwidth_bytes_per_unit
    ids = [model.problem.layers[model.order[v]].id for v in other]
    ptr, of = rows_of(mine, np.arange(len(mine)), len(model.order))
    edges = lists(ptr, of)
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
        f"{side}_ptr": ptr,
        f"{side}_edges": of,
        f"option_{side}_ptr": pointers,
        f"option_{side}": moved,
    }


def _segments(model: HybridInstance) -> tuple[Longs, dict[str, Floats]]:
    """Runs of in-flight counts y over which every layer's smallest configuration, of a·y + b, stays the same.

    Returns the run of every degree and count, and what the smallest configurations take, (runs, n) each.
    """
    width = model.width
    counts = np.arange(1, width + 1, dtype=np.float64)
    of_count = np.zeros((len(model.degrees), width + 1), dtype=np.int64)
    taken: list[list[tuple[float, float, float]]] = []
    for r, row in enumerate(model.options):
        keys = [tuple((c.memory_per_microbatch_bytes, c.memory_bytes) for c in choices) for choices in row]
        smallest = {key: np.array([a * counts + b for a, b in key]).argmin(axis=0) for key in set(keys) if key}
        starts = sorted({0}.union(*((np.flatnonzero(np.diff(best)) + 1).tolist() for best in smallest.values())))
        for begin, end in zip(starts, [*starts[1:], width], strict=True):
            of_count[r, begin + 1 : end + 1] = len(taken)
            taken.append(
                [
                    (*key[smallest[key][begin]], choices[smallest[key][begin]].time) if key else (0.0, 0.0, 0.0)
                    for key, choices in zip(keys, row, strict=True)
                ]
            )
    columns = np.ascontiguousarray(np.array(taken).transpose(2, 0, 1))
    return of_count, dict(zip(("small_active", "small_fixed", "small_time"), columns, strict=True))


def new_scratch(model: HybridInstance) -> HybridScratch:
    """Working memory for one thread."""
    n = len(model.order)
    size = max((sum(len(choices) for choices in row) for row in model.options), default=0) + 1
    lengths = dict.fromkeys(("gain", "loss", "option", "step_gain", "step_loss", "step_order"), size) | {"counters": 2}
    return as_arrays(HybridScratch, {name: np.zeros(lengths.get(name, n + 2)) for name in HybridScratch._fields})


def nothing_known() -> HybridKnown:
    """Where no times of stages are remembered."""
    return as_arrays(HybridKnown, {name: np.zeros(1) for name in HybridKnown._fields})


def configurations_of(
    model: HybridInstance, work: HybridWork, sets: Sequence[int], stage: StageIndex
) -> dict[int, str]:
    """What the layers of the stage run that the last knapsack was of, by id, in the order of the problem's layers."""
    chosen = {}
    for v in members_of(sets[stage.outer] & ~sets[stage.inner]):
        option = int(work.scratch.best[v]) - int(work.arrays.option_ptr[stage.r, v])
        chosen[model.order[v]] = model.options[stage.r][v][option].id
    return {model.problem.layers[place].id: chosen[place] for place in sorted(chosen)}


#: The options of every layer at one degree.
Space = Sequence[Sequence[Configuration]]


def sort_counts(sets: Sequence[int], spaces: Sequence[Space]) -> Longs:
    """(sorts, Z) how many layers of every sort each set has; layers of one sort have the same options on all spaces."""
    sorts: dict[object, int] = {}
    of_layer = np.array(
        [
            sorts.setdefault(
                tuple(tuple((c.time, c.memory_per_microbatch_bytes, c.memory_bytes) for c in row) for row in rows),
                len(sorts),
            )
            for rows in zip(*spaces, strict=True)
        ]
    )
    bits = as_bits(sets, len(of_layer))
    return np.stack([bits[:, of_layer == sort].sum(axis=1, dtype=np.int64) for sort in range(len(sorts))])


def stage_kinds(counts: Longs, inner: Longs, outer: Longs, beside: Floats | None = None) -> tuple[Longs, Longs]:
    """Stages with equally many layers of every sort, between inner and outer sets, and the same number ``beside``.

    Returns an example of every kind of stages, and (stages,) the kind of each.
    """
    # Numbers that tell the counts apart unless two happen to collide, which is checked.
    random = np.random.default_rng(0).integers(1, 1 << 62, size=len(counts) + 1)
    key = random[1:] @ counts
    key = key[outer] - key[inner]
    place = None if beside is None else np.unique(beside, return_inverse=True)[1].ravel()
    if place is not None:
        key += random[0] * place
    _, example, found = np.unique(key, return_index=True, return_inverse=True)
    same = example[found]
    differences = (row[outer] - row[inner] for row in counts)
    if any(not np.array_equal(row, row[same]) for row in (*differences, *(() if place is None else (place,)))):
        example = found = np.arange(len(inner))
    return example, found
