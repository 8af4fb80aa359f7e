"""Replicas on devices within a target, against all ways to place them."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from instances.kernel_arrays import NEVER, values
from instances.strategies import examples, halves
from partita.engines.kernels.annealing import Cooling
from partita.engines.kernels.graph_arrays import csr
from partita.engines.kernels.mapping.anneal import anneal
from partita.engines.kernels.mapping.arrays import MappingArrays, load_of
from partita.engines.kernels.mapping.placing import FOUND, GAVE_UP, NONE, covers, depth_first, place_pattern
from partita.engines.kernels.random import generator


@st.composite
def mappings(draw: st.DrawFn) -> MappingArrays:
    """One to three stages of up to three replicas on up to six devices; transfers of a stage, the largest first."""
    stages = draw(st.sampled_from([1, 2, 2, 3, 3]))
    count = draw(st.integers(1, 3 if stages == 1 else 2))
    devices = draw(st.integers(stages * count, 5)) if stages * count <= 5 else stages * count
    pairs = [pair for pair in itertools.combinations(range(stages), 2) if draw(st.integers(0, 3))]
    size = {pair: draw(halves(0.5, 4)) for pair in pairs}
    beside = [
        sorted(((size[p], sum(p) - s) for p in pairs if s in p), key=lambda entry: -entry[0]) for s in range(stages)
    ]
    ptr, other = csr([[t for _, t in row] for row in beside])
    inverse = np.stack([draw(values(devices)) for _ in range(devices)])
    np.fill_diagonal(inverse, 0.0)
    numbers = np.arange(stages * count).reshape(stages, count)
    return MappingArrays(
        replicas=count,
        time=np.stack([draw(values(devices, 0.0)) for _ in range(stages)]),
        inverse=inverse,
        ptr=ptr,
        other=other,
        weight=np.array([weight for row in beside for weight, _ in row], np.float64),
        ring=draw(values(stages, 0.0)) if count > 1 else np.zeros(stages),
        after=np.roll(numbers, -1, 1).ravel().astype(np.int32),
        before=np.roll(numbers, 1, 1).ravel().astype(np.int32),
    )


def load(a: MappingArrays, device: tuple[int, ...] | list[int], x: int) -> float:
    """Its time, what it exchanges, and the slower of its links in the ring."""
    s, r = divmod(x, a.replicas)
    d, total = device[x], float(a.time[s, device[x]])
    for k in range(a.ptr[s], a.ptr[s + 1]):
        total += a.weight[k] * a.inverse[d, device[a.other[k] * a.replicas + r]]
    return total + a.ring[s] * max(a.inverse[d, device[a.after[x]]], a.inverse[d, device[a.before[x]]])


def nearest(a: MappingArrays) -> np.ndarray:
    """The other devices of every device, nearest first."""
    devices = a.inverse.shape[0]
    rows = [sorted((e for e in range(devices) if e != d), key=lambda e: a.inverse[d, e]) for d in range(devices)]
    return np.array(rows, np.int32).reshape(devices, devices - 1)


@examples(300)
@given(mappings(), st.data())
def test_depth_first_finds_a_mapping_or_proves_that_there_is_none(a: MappingArrays, data: st.DataObject) -> None:
    (stages, devices), n = a.time.shape, a.time.shape[0] * a.replicas
    allowed = np.array([[data.draw(st.integers(0, 3)) > 0 for _ in range(devices)] for _ in range(stages)], np.int32)
    best = np.inf
    for device in itertools.permutations(range(devices), n):
        loads = [load(a, device, x) for x in range(n)]
        placed = np.array(device, np.int32)
        assert all(math.isclose(load_of(a, placed, x), loads[x], rel_tol=1e-6, abs_tol=1e-12) for x in range(n))
        if all(allowed[x // a.replicas, d] for x, d in enumerate(device)):
            best = min(best, max(loads))
    target = data.draw(st.one_of(halves(0, 16), st.sampled_from([best, best - 0.25]))) if best < np.inf else 9.0
    order = np.array(data.draw(st.permutations(range(n))), np.int32)
    free, device = np.full(max(n, devices), -1, np.int32), np.empty(n, np.int32)
    floor = np.where(np.eye(devices, dtype=bool), np.inf, a.inverse).min(1) if devices > 1 else np.zeros(1)
    for least in (np.zeros(devices), floor):
        found = depth_first(a, order, free[:n], free[:devices], allowed, least, target, 10**6, NEVER, device)
        assert found == (FOUND if best <= target else NONE)
        if found == FOUND:
            assert len(set(device.tolist())) == n
            assert all(allowed[x // a.replicas, d] for x, d in enumerate(device))
            assert max(load(a, device.tolist(), x) for x in range(n)) <= target
    assert depth_first(a, order, free[:n], free[:devices], allowed, floor, 1e9, 0, NEVER, device) in (GAVE_UP, NONE)
    stop = np.ones(1, np.int64)
    assert depth_first(a, order, free[:n], free[:devices], allowed, floor, 1e9, 10**6, stop, device) == GAVE_UP


def test_symmetry_leaves_one_of_equal_mappings() -> None:
    """Three replicas that are alike on three devices that are alike: in the order of their numbers."""
    a = MappingArrays(
        1, np.ones((3, 4)), np.zeros((4, 4)), np.zeros(4, np.int32), np.zeros(0, np.int32), np.zeros(0), np.zeros(3),
        *(np.arange(3, dtype=np.int32),) * 2,
    )  # fmt: skip
    order, everywhere, device = np.array([2, 0, 1], np.int32), np.ones((3, 4), np.int32), np.empty(3, np.int32)
    none = np.full(4, -1, np.int32)
    above = np.array([2, 0, -1], np.int32)
    floor = np.zeros(4)
    assert depth_first(a, order, above, none, everywhere, floor, 1.0, 99, NEVER, device) == FOUND
    assert device[2] < device[0] < device[1]
    # Only the device that comes before may be taken first.
    twin = np.array([1, 2, 3, -1], np.int32)
    assert depth_first(a, order, none[:3], twin, everywhere, floor, 1.0, 99, NEVER, device) == FOUND
    assert device.tolist() == [2, 1, 3]
    assert depth_first(a, order, above, twin, everywhere, floor, 1.0, 99, NEVER, device) == NONE


def least_of(a: MappingArrays, placed: dict[int, int], x: int) -> float:
    """What a placed replica takes at least: partners that are not placed have free devices, each its own."""
    (s, r), d = divmod(x, a.replicas), placed[x]
    devices = a.inverse.shape[0]
    partners = [(float(a.weight[k]), int(a.other[k] * a.replicas + r)) for k in range(a.ptr[s], a.ptr[s + 1])]
    ring = {int(a.after[x]), int(a.before[x])} if a.ring[s] > 0 else set()
    missing = [y for _, y in partners if y not in placed] + [y for y in ring if y not in placed]
    free = [e for e in range(devices) if e not in placed.values()]
    best = np.inf
    for chosen in itertools.permutations(free, len(missing)):
        where = placed | dict(zip(missing, chosen, strict=True))
        total = float(a.time[s, d]) + sum(size * a.inverse[d, where[y]] for size, y in partners)
        best = min(best, total + a.ring[s] * max((a.inverse[d, where[y]] for y in ring), default=0.0))
    return best


@examples(240)
@given(mappings(), st.data())
def test_some_replicas_are_placed_around_a_device(a: MappingArrays, data: st.DataObject) -> None:
    (stages, devices), n = a.time.shape, a.time.shape[0] * a.replicas
    if devices < 2:
        return
    allowed = np.array([[data.draw(st.integers(0, 3)) > 0 for _ in range(devices)] for _ in range(stages)], np.int32)
    order, beside, moved = [data.draw(st.integers(0, n - 1))], [-1], [0.0]
    for place, x in enumerate(order):
        s, r = divmod(x, a.replicas)
        for k in range(a.ptr[s], a.ptr[s + 1]):
            y = int(a.other[k] * a.replicas + r)
            if y not in order and data.draw(st.integers(0, 3)):
                order.append(y)
                beside.append(place)
                moved.append(float(a.weight[k]))
    root, best = data.draw(st.integers(0, devices - 1)), np.inf
    others = [d for d in range(devices) if d != root]
    for rest in itertools.permutations(others, len(order) - 1):
        placed = dict(zip(order, (root, *rest), strict=True))
        if all(allowed[x // a.replicas, placed[x]] for x in order[1:]):
            best = min(best, max(least_of(a, placed, x) for x in order))
    target = data.draw(st.one_of(halves(0, 16), st.sampled_from([best, best - 0.25]))) if best < np.inf else 9.0
    device, taken = np.full(n, -1, np.int32), np.zeros(devices, np.int32)
    rows = np.array(order, np.int32), np.array(beside, np.int32), np.array(moved, np.float64)
    found = place_pattern(a, nearest(a), *rows, allowed, root, target, 10**6, n, NEVER, device, taken)
    assert found == (FOUND if best <= target else NONE)
    assert not taken.any()
    if found == FOUND:
        placed = {x: int(device[x]) for x in order}
        assert all(least_of(a, placed, x) <= target * (1 + 1e-12) for x in order)
        assert placed[order[0]] == root
        device[:] = -1
    assert (device == -1).all()
    if best < np.inf and len(order) > 1:
        few = place_pattern(a, nearest(a), *rows, allowed, root, 1e9, 0, n, NEVER, device, taken)
        stopped = place_pattern(a, nearest(a), *rows, allowed, root, 1e9, 10**6, n, np.ones(1, np.int64), device, taken)
        assert (few, stopped) == (GAVE_UP, GAVE_UP)
        assert (device == -1).all()
        assert not taken.any()


@examples(400)
@given(st.data(), st.integers(1, 4), st.integers(1, 6))
def test_stages_find_devices(data: st.DataObject, stages: int, devices: int) -> None:
    allowed = np.array([[data.draw(st.booleans()) for _ in range(devices)] for _ in range(stages)], np.int32)
    wanted = sorted(data.draw(st.integers(0, stages - 1)) for _ in range(devices - data.draw(st.integers(0, 1))))
    capacity = np.array([wanted.count(s) for s in range(stages)], np.int32)
    possible = any(
        all(allowed[s, d] for s, d in zip(wanted, chosen, strict=True))
        for chosen in itertools.permutations(range(devices), len(wanted))
    )
    assert covers(allowed, capacity, False) == possible
    if len(wanted) == devices:
        assert covers(allowed, capacity, True) == possible


@examples(30)
@given(mappings(), st.integers(0, 3))
def test_annealing_says_what_its_best_mapping_takes(a: MappingArrays, seed: int) -> None:
    n, devices = a.time.shape[0] * a.replicas, a.inverse.shape[0]
    best = min(max(load(a, row, x) for x in range(n)) for row in itertools.permutations(range(devices), n))
    start = np.arange(n, dtype=np.int32)
    before = max(load(a, start.tolist(), x) for x in range(n))
    device, kept = start.copy(), np.full(n, -1, np.int32)
    found = anneal(
        a, nearest(a), device, kept, max(before, 0.5), 12, before, Cooling(1.0, 0.01, 600), generator(seed), NEVER
    )
    assert sorted(set(device.tolist())) == sorted(device.tolist())
    assert best * (1 - 1e-9) <= found <= before
    if found < before:
        assert max(load(a, kept.tolist(), x) for x in range(n)) == pytest.approx(found)
    else:
        assert (kept == -1).all()
