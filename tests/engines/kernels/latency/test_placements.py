"""Operators in pieces on accelerators and on the CPU: what placements take, and the best one, against plain Python."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from instances.kernel_arrays import dags, values
from instances.strategies import examples
from partita.engines.kernels.compiled import compiled
from partita.engines.kernels.graph_arrays import graph_of, partition_of
from partita.engines.kernels.latency.arrays import LatencyArrays, PlacementState, empty_placement
from partita.engines.kernels.latency.blocks import block_options
from partita.engines.kernels.latency.branches import FOUND, OVER, SPENT, branch, rests
from partita.engines.kernels.latency.quotient import longest, relocate, reset
from partita.engines.kernels.latency.slicing import slice_order


@st.composite
def latencies(draw: st.DrawFn, *, most: int = 6, passes: int = 2, barred: bool = True, slots: int = 8) -> LatencyArrays:
    """A few operators on at most so many slots; accelerators are about twice as fast, transfers included."""
    n, edges = draw(dags(1, most))
    backward = draw(st.integers(0, n)) if passes > 1 else n
    acc = draw(values(n, 0.0, 2.0))
    for v in range(n if barred else 0):
        if draw(st.integers(0, 5)) == 0:
            acc[v] = np.inf
    both = 2 if backward < n else 1
    shapes = [(d, both, p) for d in (1, 2) for p in (1, 2) if d * both * p <= slots]
    return LatencyArrays(
        graph=graph_of(edges, n),
        group=partition_of([draw(st.integers(0, v)) if draw(st.integers(0, 3)) == 0 else v for v in range(n)], n),
        cpu=draw(values(n, 1.0, 7.0)),
        acc=acc,
        comm=draw(values(n, 0.0, 1.5)),
        mem=draw(values(n, 0.0)),
        part=(np.arange(n) >= backward).astype(np.int32),
        shape=np.array(draw(st.sampled_from(shapes)), np.int32),
        limit=np.array([draw(st.sampled_from([np.inf, 4.0, 8.0]))]),
    )


def latency_of(a: LatencyArrays, slot: list[int] | tuple[int, ...], *, chained: bool = True) -> float:
    """Pieces begin when all that they read is there, and on an accelerator after the one before."""
    n, slots, each = len(slot), int(a.shape.prod()), int(a.shape[1] * a.shape[2])
    node = [slots + v if slot[v] == slots else slot[v] for v in range(n)]
    duration = dict.fromkeys(range(slots), 0.0) | {slots + v: float(a.cpu[v]) for v in range(n) if slot[v] == slots}
    edges = {(p - 1, p) for p in range(slots) if chained and p % each}
    for v in range(n):
        readers = a.graph.after(v).tolist()
        edges |= {(node[v], node[w]) for w in readers if node[w] != node[v]}
        if slot[v] < slots:
            duration[slot[v]] += a.acc[v] + (a.comm[v] if any(slot[w] != slot[v] for w in readers) else 0.0)
        for p in {slot[w] for w in readers} - {slot[v], slots}:
            duration[p] += a.comm[v]
    end: dict[int, float] = {}
    while len(end) < len(duration):
        ready = [p for p in duration if p not in end and all(q in end for q, r in edges if r == p)]
        if not ready:
            return math.inf
        for p in ready:
            end[p] = max((end[q] for q, r in edges if r == p), default=0.0) + duration[p]
    return max(end.values())


@compiled
def move(a: LatencyArrays, s: PlacementState, v: int, to: int) -> tuple[int, float]:
    """Where an operator was, and the latency after the move."""
    at = relocate(a, s, v, to)
    return at, longest(a, s)


#: What follows from the slots.
FOLLOWS = ("readers", "into", "out", "work", "held", "links", "degree")


@examples(240)
@given(latencies(barred=False), st.data())
def test_a_placement_is_kept_up_to_date_under_moves(a: LatencyArrays, data: st.DataObject) -> None:
    n, slots = a.cpu.shape[0], int(a.shape.prod())
    s, fresh = empty_placement(a), empty_placement(a)
    start = np.array([data.draw(st.integers(0, slots)) for _ in range(n)], np.int32)
    assert reset(a, s, start) == latency_of(a, start.tolist()) == s.value[1]
    for _ in range(6):
        v, to = data.draw(st.integers(0, n - 1)), data.draw(st.integers(0, slots))
        before = int(s.slot[v])
        at, latency = move(a, s, v, to)
        assert at == before
        assert s.slot[v] == to
        assert latency == latency_of(a, s.slot.tolist()) == reset(a, fresh, s.slot.copy())
        for name in FOLLOWS:
            assert getattr(s, name).tolist() == getattr(fresh, name).tolist(), name
        each = int(a.shape[1] * a.shape[2])
        for d in range(a.shape[0]):
            assert s.held[d] == sum(a.mem[v] for v in range(n) if s.slot[v] < slots and s.slot[v] // each == d)
        on_cpu = s.on_cpu[: s.outside[0]].tolist()
        assert sorted(on_cpu) == [v for v in range(n) if s.slot[v] == slots]
        assert all(s.where[v] == place for place, v in enumerate(on_cpu))


def allowed(a: LatencyArrays, barred: list[bool], slot: tuple[int, ...]) -> bool:
    """What runs together is on one device, backward parts are in the later pass, and memory holds it."""
    slots, each = int(a.shape.prod()), int(a.shape[1] * a.shape[2])
    device = [-1 if p == slots else p // each for p in slot]
    for v, p in enumerate(slot):
        if p < slots and (barred[v] or p % each // a.shape[2] != a.part[v]):
            return False
        if any(device[u] != device[v] for u in range(len(slot)) if a.group.of[u] == a.group.of[v]):
            return False
    return all(sum(a.mem[v] for v in range(len(slot)) if device[v] == d) <= a.limit[0] for d in range(a.shape[0]))


@examples(300)
@given(latencies(most=4, slots=4), st.booleans(), st.integers(1, 50))
def test_branching_ends_with_the_best_placement(a: LatencyArrays, chained: bool, steps: int) -> None:
    n, slots = a.cpu.shape[0], int(a.shape.prod())
    barred = [not math.isfinite(a.acc[v]) for v in range(n)]
    best = min(
        latency_of(a, slot, chained=chained)
        for slot in itertools.product(range(slots + 1), repeat=n)
        if allowed(a, barred, slot)
    )
    slot, choice, at = np.zeros(n, np.int32), np.zeros(n, np.int32), np.zeros(1, np.int64)
    rest, least, answer = rests(a, np.array(barred, np.int32)), math.inf, SPENT
    while answer != OVER:
        answer = branch(a, np.array(barred, np.int32), rest, chained, slot, choice, at, least, steps)
        if answer == FOUND:
            assert allowed(a, barred, tuple(slot.tolist()))
            value = latency_of(a, slot.tolist(), chained=chained)
            assert value < least
            least = value
    assert least == best


@given(latencies())
def test_what_must_follow_an_operator(a: LatencyArrays) -> None:
    """The least over where each of those on a path is; a tensor is paid for between a piece and the CPU."""
    n = a.cpu.shape[0]
    barred = np.array([not math.isfinite(time) for time in a.acc], np.int32)
    on_cpu, in_piece = rests(a, barred)
    paths = {v: [[v]] for v in range(n)}
    for v in reversed(range(n)):
        paths[v] += [[v, *path] for w in a.graph.after(v).tolist() for path in paths[w]]

    def least(path: list[int], home: bool) -> float:
        if len(path) == 1:
            return 0.0
        v, w = path[:2]
        there = a.cpu[w] + least(path[1:], False) + (a.comm[v] if home else 0.0)
        here = a.acc[w] + least(path[1:], True) + (0.0 if home else a.comm[v])
        return float(there if barred[w] else min(there, here))

    # A bound over all paths at once is at most what the worst of them takes, and at least what each step says.
    for v in range(n):
        assert on_cpu[v] >= max(least(path, False) for path in paths[v])
        assert in_piece[v] >= max(least(path, True) for path in paths[v])
        after = a.graph.after(v).tolist()
        there = {w: a.cpu[w] + on_cpu[w] for w in after}
        here = {w: math.inf if barred[w] else a.acc[w] + in_piece[w] for w in after}
        assert on_cpu[v] == max((min(there[w], a.comm[v] + here[w]) for w in after), default=0.0)
        assert in_piece[v] == max((min(a.comm[v] + there[w], here[w]) for w in after), default=0.0)


@examples(300)
@given(latencies(passes=1), st.integers(0, 3), st.booleans(), st.data())
def test_an_order_is_cut_into_pieces(a: LatencyArrays, most: int, largest: bool, data: st.DataObject) -> None:
    n = a.cpu.shape[0]
    ends = [place for place in range(1, n) if data.draw(st.booleans())]
    ptr = np.array([0, *ends, n], np.int32)
    groups = len(ptr) - 1
    cpu = data.draw(values(groups, 1.0, 9.0))

    def piece(left: int, right: int) -> float:
        inside = set(range(ptr[left], ptr[right]))
        if sum(a.mem[v] for v in inside) > a.limit[0]:
            return math.inf
        into = {u for v in inside for u in a.graph.before(v).tolist()} - inside
        out = {v for v in inside if set(a.graph.after(v).tolist()) - inside}
        return float(sum(a.acc[v] for v in inside) + sum(a.comm[v] for v in into | out))

    def value(labels: tuple[int, ...]) -> float:
        times = [cpu[g] for g in range(groups) if labels[g] < 0]
        for number in {label for label in labels if label >= 0}:
            members = [g for g in range(groups) if labels[g] == number]
            if members != list(range(members[0], members[-1] + 1)):
                return math.inf
            times.append(piece(members[0], members[-1] + 1))
        return max(times) if largest else sum(times)

    best = min(value(labels) for labels in itertools.product(range(-1, most), repeat=groups))
    found = slice_order(a, np.arange(n, dtype=np.int32), ptr, cpu, most, largest)
    assert value(tuple(found.tolist())) == best
    numbers = [label for label in found.tolist() if label >= 0]
    assert numbers == sorted(numbers)
    assert set(numbers) == set(range(len(set(numbers))))


@examples(40)
@given(dags(1, 3), st.data())
def test_ways_through_a_block(dag: tuple[int, list[tuple[int, int]]], data: st.DataObject) -> None:
    """Of the ways with one set before the next piece, each that is best for its memory is listed, at its cost."""
    n, edges = dag
    sets = [s for s in range(1 << n) if all(s >> u & 1 for u, w in edges if s >> w & 1)]
    count = len(sets)
    out, into, work, rest = (data.draw(values(count, 0.0)) for _ in range(4))
    cpu, acc, comm = data.draw(values(n, 0.5)), data.draw(values(n, 0.0)), data.draw(values(n + 1, 0.0))
    before = [sum(1 << u for u, w in edges if w == v) for v in range(n)]
    after = [sum(1 << w for u, w in edges if u == v) for v in range(n)]
    for v in range(n):
        before[v] |= (0 if before[v] else 1) << n
        after[v] |= (0 if after[v] else 1) << n
    by_memory = data.draw(st.permutations(range(count)))
    arrays = np.array(sets, np.int64), np.array(by_memory, np.int64), out, into, work, rest, cpu, acc, comm
    found = block_options(*arrays, np.array(before, np.int64), np.array(after, np.int64))

    def between(chosen: int) -> tuple[float, float]:
        """All on the CPU; and the longest path where each tensor is paid for if it changes sides."""
        alone: dict[int, float] = {}
        sides: dict[int, tuple[float, float]] = {}
        latest = 0.0
        for v in [v for v in range(n) if chosen >> v & 1]:
            reads = [u for u in range(n) if before[v] >> u & 1 and chosen >> u & 1]
            outside = [comm[u] for u in range(n + 1) if before[v] >> u & 1 and not (u < n and chosen >> u & 1)]
            alone[v] = cpu[v] + max((alone[u] for u in reads), default=0.0)
            on_cpu = max((min(sides[u][0], sides[u][1] + comm[u]) for u in reads), default=0.0)
            on_acc = max([*outside, *(min(sides[u][0] + comm[u], sides[u][1]) for u in reads)], default=0.0)
            sides[v] = on_cpu + cpu[v], on_acc + acc[v]
            if after[v] & ~chosen:
                latest = max(latest, min(sides[v][0], sides[v][1] + comm[v]))
        return max(alone.values(), default=0.0), latest

    listed = {(int(f), int(x), int(p)): float(c) for c, p, x, f in zip(*found, strict=True)}
    assert len(listed) == len(found[0])
    for i in range(count):
        least = [math.inf, math.inf]
        for x in by_memory:
            if sets[x] & ~sets[i]:
                continue
            base = out[x] + into[i] + work[x] + rest[i]
            plain, with_piece = between(sets[i] & ~sets[x])
            wanted = [base + plain, base + with_piece if sets[x] != sets[i] else math.inf]
            for p in range(2):
                useful = wanted[p] < least[p] and (p == 0 or wanted[1] < wanted[0])
                assert ((i, x, p) in listed) == useful
                if useful:
                    least[p] = wanted[p]
                    assert listed[i, x, p] == pytest.approx(wanted[p])
