"""Paths that keep to limits: labels against all paths."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from partita.engines.kernels.arrays import Longs
from partita.engines.kernels.makespan.constrained import (
    BLOCK,
    GUEST,
    SOURCE,
    StageArrays,
    constrained_paths,
    new_labels,
)


def drawn(seed: int) -> StageArrays:
    """A few blocks on two or three devices, perhaps with a source and guests after it; the first two may be alike."""
    rng = np.random.default_rng(seed)
    devices, blocks = int(rng.integers(2, 4)), int(rng.integers(2, 4))
    source = int(rng.integers(0, blocks)) if seed % 4 else -1
    alike = seed % 3 == 0
    first = np.array([0, 0 if alike else 1, *range(2, devices + 1)])
    kind, ptr, rows = list[int](), [0], list[tuple[int, int, float, list[float], list[float], float]]()
    zero = [0.0] * devices
    for k in range(blocks):
        kind.append(SOURCE if k == source else BLOCK)
        begins = [devices] if k == 0 else range(devices)
        for begin, end in itertools.product(begins, range(devices) if k < blocks - 1 or source == k else [devices]):
            for _ in range(int(rng.integers(1, 3))):
                held = rng.integers(0, 4, devices).astype(float).tolist()
                rows.append((begin, end, float(rng.integers(1, 9)), held, zero, 0.0))
        rows += [swapped(row) for row in rows[ptr[-1] :]] if alike else []
        ptr.append(len(rows))
        for _ in range(int(rng.integers(0, 3)) if 0 <= source < k else 0):
            kind.append(GUEST)
            for d, end in itertools.product(range(devices), range(devices + 1)):
                sends = [0.0 if d == e else float(rng.integers(1, 12)) for e in range(devices)]
                held = [float(e == d) * 2.0 for e in range(devices)]
                rows.append((end, end, 0.0, held, sends, float(rng.integers(0, 9))))
            rows += [swapped(row) for row in rows[ptr[-1] :]] if alike else []
            ptr.append(len(rows))
    begin, end = np.array([row[:2] for row in rows], dtype=np.int64).T.copy()
    takes, held = np.array([row[2] for row in rows]), np.array([row[3] for row in rows])
    price, limit = rng.exponential(0.5, devices) * rng.integers(0, 2), rng.integers(2, 9, devices).astype(float)
    time = rng.integers(0, 4, devices).astype(float)
    price, limit, time = price[first[:-1]], limit[first[:-1]], time[first[:-1]]
    paid = takes + held @ price
    rest = np.full((len(kind) + 1, devices + 1), math.inf)
    rest[-1] = -float(price @ limit)
    for k in range(len(kind) - 1, -1, -1):
        for o in range(ptr[k], ptr[k + 1]):
            rest[k, begin[o]] = min(rest[k, begin[o]], paid[o] + rest[k + 1, end[o]])
    return StageArrays(
        kind=np.array(kind),
        ptr=np.array(ptr),
        begin=begin,
        end=end,
        takes=takes,
        paid=paid,
        held=held,
        sends=np.array([row[4] for row in rows]),
        after=np.array([row[5] for row in rows]),
        time=time,
        one_by_one=bool(seed % 5),
        rest=rest,
        limit=limit,
        width=np.where(rng.random(devices) < 0.3, math.inf, limit / rng.integers(1, 5)),
        alike_ptr=np.array([0, 2] if alike else [0]),
        alike=np.array([0, 1] if alike else [], dtype=np.int64),
        place=np.arange(devices),
        first=first,
    )


def swapped(
    row: tuple[int, int, float, list[float], list[float], float],
) -> tuple[int, int, float, list[float], list[float], float]:
    """An option with the first two devices in each other's place."""
    begin, end, takes, held, sends, after = row
    number = [1, 0, *range(2, len(held) + 1)]
    return (
        number[begin],
        number[end],
        takes,
        [held[number[d]] for d in range(len(held))],
        [sends[number[d]] for d in range(len(held))],
        after,
    )


def begun_on_the_first(s: StageArrays) -> StageArrays:
    """Without options that begin on a device that is alike another one before it."""
    kept = s.first[s.begin] == s.begin
    ptr = np.concatenate([[0], np.cumsum(kept)])[s.ptr]
    rows = {name: getattr(s, name)[kept] for name in ("begin", "end", "takes", "paid", "held", "sends", "after")}
    return s._replace(ptr=ptr, **rows)


def taken(s: StageArrays, path: tuple[int, ...]) -> float:
    """What a path takes; infinite if it is none, or does not keep to the limits."""
    at, now, devices = s.rest.shape[1] - 1, 0.0, len(s.time)
    source, ends, sent, met = -1, 0.0, 0.0, list[float]()
    for k, o in enumerate(path):
        if s.begin[o] != at:
            return math.inf
        at, now = int(s.end[o]), now + float(s.takes[o])
        if s.kind[k] == SOURCE:
            source, ends = at, now + float(s.time[at])
        if s.kind[k] == GUEST:
            read = float(s.sends[o, source])
            now = max(now, ends + read + float(s.after[o]))
            if read and s.one_by_one:
                sent += read
                met.append(float(s.after[o]))
            if met:
                now = max(now, ends + sent + min(met))
    fits = (s.held[list(path)].sum(axis=0) <= s.limit).all()
    return now if fits and source < devices else math.inf


def found_in(s: StageArrays, each: int, below: float, path: Longs | None = None, room: int = 3000) -> float:
    """What the kernel says, merged unless a path is asked for."""
    labels, stop = (new_labels(room, len(s.limit)) for _ in range(2)), np.zeros(1, dtype=np.int64)
    parent = np.zeros((0 if path is None else 100_000, 2), dtype=np.int64)
    traced = np.zeros(0, dtype=np.int64) if path is None else path
    return float(constrained_paths(s, below, each, path is None, *labels, parent, traced, stop))


@pytest.mark.parametrize("count", [120, pytest.param(3000, marks=pytest.mark.slow)])
def test_against_all_paths(count: int) -> None:
    """Merged labels take no more than any path, those of many to a cell as much; what is dropped leaves paths."""
    looked = full = coarse = late = 0
    # In the last one a label merged of what takes least and what is paid least for waits for a guest.
    for seed in [*range(count), 2662]:
        s = drawn(seed)
        ranges = [range(s.ptr[k], s.ptr[k + 1]) for k in range(len(s.kind))]
        if math.prod(len(row) for row in ranges) > 20_000:
            continue
        least = min((taken(s, path) for path in itertools.product(*ranges)), default=math.inf)
        looked += 1
        full += math.isinf(least)
        below = 1e9 if math.isinf(least) else least + 1
        path = np.zeros(len(s.kind), dtype=np.int64)

        assert found_in(s, 1000, below) == pytest.approx(min(least, below)), seed
        assert found_in(begun_on_the_first(s), 1000, below) == pytest.approx(min(least, below)), seed
        if math.isfinite(least):
            assert found_in(s, 1000, least) == least, seed
        loose = found_in(s, 1, below)
        assert loose <= min(least, below) + 1e-9, seed
        coarse += loose < least and math.isfinite(least)
        for each in (1, 1000):
            found = found_in(s, each, below, path)
            assert found >= min(least, below) - 1e-9, seed
            if found < below:
                assert taken(s, tuple(path.tolist())) <= found + 1e-9, seed
                late += bool((s.kind == GUEST).any()) and found > s.takes[path].sum()
        assert found_in(s, 1000, below, path) == pytest.approx(min(least, below)), seed
        assert found_in(s, 1, below, room=1) in (-1.0, loose)
    assert min(looked, full, coarse, late) >= 5, (looked, full, coarse, late)
