"""What stages of a hybrid plan cost and hold, and which configurations they take, against all choices."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from instances.hybrid_arrays import arrays_of, scratch_of, work_of
from instances.kernel_arrays import NEVER, dags, row_of, values
from instances.strategies import examples, halves
from partita.engines.kernels.arrays import Floats
from partita.engines.kernels.compiled import compiled
from partita.engines.kernels.graph_arrays import csr
from partita.engines.kernels.hybrid.arrays import HybridArrays, StageIndex
from partita.engines.kernels.hybrid.decide import known_better, supersets
from partita.engines.kernels.hybrid.device_table import NONE, DeviceTable, Falls, close
from partita.engines.kernels.hybrid.knapsack import bracket, cheapest, fill_items
from partita.engines.kernels.hybrid.passing import (
    ALL_FORWARD,
    IN_TURN,
    SPLIT_BACKWARD,
    delay,
    exposed,
    held_time,
    lost_time,
)
from partita.engines.kernels.hybrid.stages import (
    between,
    capacity,
    crossing,
    first_replicas,
    fits,
    lacking,
    least_time,
    least_work,
    plain_boundary,
    reach,
    second_replicas,
    subset,
    sync_factor,
)

Option = tuple[float, float]


# -- the knapsack ------------------------------------------------------------------------------------------------------


@st.composite
def items(draw: st.DrawFn) -> tuple[list[list[Option]], list[int]]:
    """Layers with options that gain memory and lose time, more of both from one to the next; and which are alike."""
    rows, kinds = [], []
    for number in range(draw(st.integers(1, 4))):
        if rows and draw(st.booleans()):
            copied = draw(st.integers(0, len(rows) - 1))
            rows.append([(gain, loss + draw(halves(0, 1))) for gain, loss in rows[copied]])
            rows[-1] = [
                (gain, loss) for (gain, _), loss in zip(rows[-1], sorted(loss for _, loss in rows[-1]), strict=True)
            ]
            kinds.append(kinds[copied])
            continue
        count = draw(st.integers(1, 3))
        gains = draw(st.lists(halves(0.5, 5), min_size=count, max_size=count, unique=True).map(sorted))
        losses = draw(st.lists(halves(0, 5), min_size=count, max_size=count, unique=True).map(sorted))
        rows.append(list(zip(gains, losses, strict=True)))
        kinds.append(number)
    return rows, kinds


@examples(150)
@given(items(), halves(0, 15), st.one_of(st.just(math.inf), halves(0, 12)), st.booleans())
def test_the_least_loss_that_gains_enough(
    made: tuple[list[list[Option]], list[int]], need: float, limit: float, first: bool
) -> None:
    rows, kinds = made
    count = len(rows)
    s = scratch_of(count, sum(map(len, rows)))
    place = 0
    for i, row in enumerate(rows):
        s.item[i], s.first[i] = i, place
        s.ratio[i] = min(loss / gain for gain, loss in row)
        for gain, loss in row:
            s.gain[place], s.loss[place], s.option[place] = gain, loss, 100 + place
            place += 1
    s.first[count] = place
    s.best[:count] = 7
    choices = itertools.product(*[[(0.0, 0.0), *row] for row in rows])
    totals = [(sum(gain for gain, _ in choice), sum(loss for _, loss in choice)) for choice in choices]
    best = min((loss for gain, loss in totals if gain >= need), default=math.inf)
    low, high = bracket(s, count, need)
    assert low <= best <= high
    assert (high == math.inf) == (best == math.inf)
    found = cheapest(s, np.array(kinds, np.int32), count, need, limit, first, NEVER)
    if best > limit:
        assert found == math.inf
    elif first:
        assert best <= found <= limit
    else:
        assert found == best
        if need > 0 and best < math.inf:
            taken = [int(s.best[i]) - 100 for i in range(count)]
            chosen = [(s.gain[k], s.loss[k]) if k >= 0 else (0.0, 0.0) for k in taken]
            assert all(k < 0 or s.first[i] <= k < s.first[i + 1] for i, k in enumerate(taken))
            assert sum(gain for gain, _ in chosen) >= need
            assert sum(loss for _, loss in chosen) == best


def test_nothing_to_choose_from() -> None:
    s, kinds = scratch_of(0, 0), np.zeros(1, np.int32)
    assert cheapest(s, kinds, 0, 0.0, 0.0, False, NEVER) == 0.0
    assert cheapest(s, kinds, 0, -1.0, -1.0, False, NEVER) == math.inf
    assert cheapest(s, kinds, 0, 1.0, 9.0, False, NEVER) == math.inf
    assert bracket(s, 0, 0.0) == (0.0, 0.0)
    assert bracket(s, 0, 0.5) == (math.inf, math.inf)


# -- the layers of a stage ---------------------------------------------------------------------------------------------


class Layers:
    """Three sets, each within the next, and layers with options of time, active, fixed and sharded memory."""

    def __init__(self, draw: Any, uniform: bool) -> None:
        self.n, self.edges = draw(dags(1, 4))
        cut = draw(st.integers(0, self.n))
        # Closed under successors: the later layers first.
        self.sets = [frozenset[int](), frozenset(range(cut, self.n)), frozenset(range(self.n))]
        number = st.tuples(halves(0.5, 4), halves(0, 2), halves(0, 2), halves(0, 2), halves(0, 1))
        self.options = [draw(st.lists(number, min_size=1, max_size=3)) for _ in range(self.n)]
        self.room, self.uniform = draw(halves(1, 16)), uniform
        ptr, _ = csr([[0] * len(row) for row in self.options])
        columns = [[option[k] for row in self.options for option in row] for k in range(5)]
        into = [[e for e, (_, w) in enumerate(self.edges) if w == v] for v in range(self.n)]
        out = [[e for e, (u, _) in enumerate(self.edges) if u == v] for v in range(self.n)]
        sides = []
        for row, of in ((into, draw), (out, draw)):
            spots, sizes = [0], []
            for v in range(self.n):
                for _ in self.options[v]:
                    sizes += [of(halves(0, 2)) for _ in row[v]]
                    spots.append(len(sizes))
            sides.append((np.array(spots), np.array(sizes)))
        self.sides = sides
        self.into, self.out = into, out
        self.arrays = arrays_of(
            uniform=[uniform],
            members=np.stack([row_of(s, self.n) for s in self.sets]),
            kind=np.arange(self.n)[None, :],
            source=[u for u, _ in self.edges],
            target=[w for _, w in self.edges],
            in_ptr=csr(into)[0],
            in_edges=csr(into)[1],
            out_ptr=csr(out)[0],
            out_edges=csr(out)[1],
            option_ptr=ptr[None, :],
            option_time=columns[0],
            option_weight=columns[4],
            option_active=columns[1],
            option_fixed=columns[2],
            option_sharded=columns[3],
            option_in_ptr=sides[0][0],
            option_in=sides[0][1],
            option_out_ptr=sides[1][0],
            option_out=sides[1][1],
            limits=[self.room, 8.0, 0.0, 0.0],
        )

    def choices(self, inner: int, outer: int, replicas: int, flying: int, sync: float) -> list[list[Option]]:
        """Time and memory of every option of the layers between two sets."""
        rows, number = [], 0
        for v in range(self.n):
            row = []
            for time, active, fixed, sharded, weight in self.options[v]:
                cost = time
                if not self.uniform:
                    cost += sync * weight
                    for k, e in enumerate(self.into[v]):
                        outside = self.edges[e][0] not in self.sets[outer]
                        cost += self.sides[0][1][self.sides[0][0][number] + k] if outside else 0.0
                    for k, e in enumerate(self.out[v]):
                        behind = self.edges[e][1] in self.sets[inner]
                        cost += self.sides[1][1][self.sides[1][0][number] + k] if behind else 0.0
                row.append((cost, active * flying + fixed + sharded / replicas))
                number += 1
            if v in self.sets[outer] - self.sets[inner]:
                rows.append(row)
        return rows


@examples(150)
@given(st.data(), st.booleans(), st.integers(1, 2), st.integers(1, 3), halves(0, 1))
def test_the_least_time_of_the_layers_of_a_stage(
    data: st.DataObject, uniform: bool, replicas: int, flying: int, sync: float
) -> None:
    made = Layers(data.draw, uniform)
    inner, outer = data.draw(st.sampled_from([(0, 1), (0, 2), (1, 2)]))
    rows = made.choices(inner, outer, replicas, flying, sync)
    s = scratch_of(made.n, sum(map(len, made.options)))
    stage = StageIndex(inner, outer, 0)
    count, total, missing, later = fill_items(made.arrays, s, stage, replicas, flying, sync, made.room)
    usable = [[option for option in row if option[1] <= made.room] for row in rows]
    w = work_of(made.arrays, s)
    totals = [tuple(map(sum, zip((0.0, 0.0), *choice, strict=True))) for choice in itertools.product(*usable)]
    best = min((time for time, memory in totals if memory <= made.room), default=math.inf)
    found = least_time(w, stage, replicas, flying, sync, math.inf, False)
    assert found == pytest.approx(best)
    if not all(usable):
        assert (count, total, missing, later) == (0, math.inf, math.inf, math.inf)
        return
    fastest = [min(row) for row in usable]
    assert total == pytest.approx(sum(time for time, _ in fastest))
    assert missing == pytest.approx(sum(memory for _, memory in fastest) - made.room)
    assert later == pytest.approx(total - sum(min(row)[0] for row in rows))
    assert count <= len(rows)
    if best < math.inf:
        assert least_time(w, stage, replicas, flying, sync, best - 0.25, False) == math.inf
        assert best <= least_time(w, stage, replicas, flying, sync, best + 1, True) <= best + 1 + 1e-9
    if replicas == 1 and sync == 0.0:
        # As time lost, against the fastest of all.
        quickest = sum(min(row)[0] for row in rows)
        assert lost_time(w, stage, made.room, flying) == pytest.approx(best - quickest)


# -- sums over sets ----------------------------------------------------------------------------------------------------


@compiled
def looked_up(h: HybridArrays, inner: int, outer: int, numbers: Floats) -> None:
    """What is between two sets, by all that says something of them."""
    numbers[0], numbers[1] = between(h.time, 0, inner, outer), least_work(h, inner, outer)
    numbers[2], numbers[3] = lacking(h, 0, inner, outer), subset(h.members, inner, outer)
    numbers[4] = crossing(h, h.edge_enter[0], h.edge_leave[0], inner, outer)


@given(st.data(), dags(2, 6))
def test_what_is_between_two_sets(data: st.DataObject, dag: tuple[int, list[tuple[int, int]]]) -> None:
    n, edges = dag
    closed = [s for s in range(1 << n) if all(s >> w & 1 for u, w in edges if s >> u & 1)]
    sets = [
        {v for v in range(n) if s >> v & 1}
        for s in data.draw(st.lists(st.sampled_from(closed), min_size=2, max_size=4))
    ]
    time, lacks = data.draw(values(n)), [data.draw(st.booleans()) for _ in range(n)]
    enter, leave, plain = (data.draw(values(max(1, len(edges)))) for _ in range(3))
    cross = [[e for e, (u, w) in enumerate(edges) if u not in s and w in s] for s in sets]
    sums = np.array([[[sum(time[v] for v in s), 0.25 * len(s)] for s in sets]])
    h = arrays_of(
        members=np.stack([row_of(s, n) for s in sets]), time=sums, work=sums[0], edge_time=plain,
        missing=[[sum(lacks[v] for v in s) for s in sets]], source=[u for u, _ in edges], target=[w for _, w in edges],
        cross_ptr=csr(cross)[0], cross=csr(cross)[1], edge_enter=enter[None, :], edge_leave=leave[None, :],
    )  # fmt: skip
    for inner, outer in itertools.product(range(len(sets)), repeat=2):
        numbers = np.zeros(5)
        looked_up(h, inner, outer, numbers)
        assert bool(numbers[3]) == (sets[inner] <= sets[outer])
        if not sets[inner] <= sets[outer]:
            continue
        stage = sets[outer] - sets[inner]
        assert numbers[0] == numbers[1] == sum(time[v] for v in stage) + 0.25 * len(stage)
        assert bool(numbers[2]) == any(lacks[v] for v in stage)
        into = [e for e, (u, w) in enumerate(edges) if u not in sets[outer] and w in stage]
        out = [e for e, (u, w) in enumerate(edges) if u in stage and w in sets[inner]]
        assert numbers[4] == sum(enter[e] for e in into) + sum(leave[e] for e in out)
        assert plain_boundary(h, inner, outer) == sum(plain[e] for e in into + out)


@given(st.data(), st.integers(2, 5), halves(0.5, 8), st.integers(0, 10))
def test_sets_that_devices_are_left_for(data: st.DataObject, count: int, target: float, devices: int) -> None:
    sets = sorted((data.draw(st.integers(0, 15)) for _ in range(count)), key=lambda s: s.bit_count())
    work = np.array([[2.0 * s.bit_count(), 0.0] for s in sets])
    ahead = np.array([data.draw(st.integers(0, 4)) for _ in sets], np.int32)
    h = arrays_of(members=np.array(sets, np.uint64)[:, None], work=work)
    inner, found = data.draw(st.integers(0, count - 1)), np.zeros(count, np.int32)
    wanted = []
    for outer in range(inner + 1, count):
        spare, time = devices - ahead[outer], work[outer, 0] - work[inner, 0]
        if spare >= 1 and time <= spare * target and not sets[inner] & ~sets[outer]:
            wanted.append(outer)
    assert supersets(h, ahead, inner, target, devices, found) == len(wanted)
    assert found[: len(wanted)].tolist() == wanted


@given(
    st.lists(st.integers(0, 9), min_size=6, max_size=6),
    st.integers(0, 2),
    st.integers(0, 6),
    st.integers(0, 3),
    st.integers(1, 2),
)
def test_entries_that_are_no_worse(row: list[int], begin: int, used: int, replicas: int, degree: int) -> None:
    most = max(replicas, 1)
    wanted = any(row[column] <= used + most * degree for column in range(begin + 1, begin + most + 1))
    assert known_better(np.array(row, np.int32), begin, used, replicas, degree) == wanted


# -- memory and replicas -----------------------------------------------------------------------------------------------


@given(st.data(), st.booleans())
def test_microbatches_that_a_stage_can_hold(data: st.DataObject, choosing: bool) -> None:
    """One layer with a fast option and one that is small; what is in flight as far as memory goes."""
    fast, small = (data.draw(st.tuples(halves(0.5, 3), halves(0, 2), halves(0, 3))) for _ in range(2))
    options = [fast] + ([(fast[0] + small[0], small[1], small[2])] if choosing else [])
    room, top = data.draw(halves(0.5, 12)), data.draw(st.integers(1, 6))
    least = [min(options, key=lambda option: option[1] * y + option[2]) for y in range(top + 1)]
    segments = sorted(set(least), key=least.index)

    def of(column: int, rows: Sequence[tuple[float, float, float]]) -> Any:
        return np.array([[[0.0, 0.0], [row[column], 0.0]] for row in rows])

    h = arrays_of(
        degree=[1], uniform=[1], members=np.array([[0], [1]]), missing=[[0, 0]],
        time=of(0, [fast]), active=of(1, [fast]), fixed=of(2, [fast]), sharded=np.zeros((1, 2, 2)),
        segment=[[segments.index(each) for each in least]], kind=[[0]],
        small_active=of(1, segments), small_fixed=of(2, segments), small_time=of(0, segments),
        option_ptr=[[0, len(options)]], option_time=[o[0] for o in options], option_active=[o[1] for o in options],
        option_fixed=[o[2] for o in options], option_sharded=np.zeros(len(options)),
        option_weight=np.zeros(len(options)), limits=[room, 8.0, 0.0, 0.0], in_ptr=[0, 0], out_ptr=[0, 0],
        option_in_ptr=np.zeros(3), option_out_ptr=np.zeros(3),
    )  # fmt: skip

    def held(y: int, budget: float) -> bool:
        return any(time <= budget and active * y + fixed <= room for time, active, fixed in options)

    most_of_fast = max((y for y in range(1, top + 1) if fast[1] * y + fast[2] <= room), default=0)
    assert capacity(h, 0, 1, 0, top, False) == most_of_fast
    assert capacity(h, 0, 1, 0, top, True) == max((y for y in range(1, top + 1) if held(y, 1e9)), default=0)
    w, stage = work_of(h, scratch_of(1, len(options))), StageIndex(0, 1, 0)
    budget = data.draw(st.sampled_from([option[0] for option in options]))
    for y in range(1, top + 1):
        assert fits(w, stage, 0.0, 1, y, budget) == held(y, budget)
    low = data.draw(st.integers(1, top))
    wanted = [y for y in range(low, top + 1) if held(y, budget)]
    found = reach(w, stage, 0.0, 1, low, top, budget)
    # Of what is held in any order: the most where less is held, too.
    assert found == max(wanted) if wanted else found < low


@compiled
def replicas_of(h: HybridArrays, target: float, one: float, weight: float) -> tuple[int, int]:
    return first_replicas(h, target, one, weight), second_replicas(h, target, one, weight)


@compiled
def factor_of(h: HybridArrays, replicas: int) -> float:
    return sync_factor(h, replicas)


@given(halves(0.5, 6), halves(0.5, 20), halves(0, 2), st.booleans(), st.sets(st.integers(2, 8)))
def test_the_fewest_replicas_that_time_allows(
    target: float, one: float, weight: float, per_batch: bool, also: set[int]
) -> None:
    allowed = sorted({1, *also})
    following = [min((d for d in allowed if d >= k), default=9) for k in range(10)]
    h = arrays_of(next_replicas=following, limits=[9.0, 16.0, float(per_batch), 1e-12])

    def spent(d: int) -> float:
        # What weights take is a lower bound where they are moved once a batch.
        return one + (0.0 if per_batch else 4.0 * (d - 1) / d * weight)

    first, second = replicas_of(h, target, one, weight)
    assert first == next((d for d in allowed if spent(d) <= d * target), 9)
    assert second == next((d for d in allowed if d > 1 and spent(d) <= d * target), 9)
    for d in (1, 2, 5):
        assert factor_of(h, d) == pytest.approx(4.0 * (d - 1) / (16.0 if per_batch else d))


# -- times of a step ---------------------------------------------------------------------------------------------------


@given(halves(0.5, 4), halves(1, 6), st.data(), st.integers(1, 5))
def test_what_passes_and_what_is_held(forward: float, backward: float, data: st.DataObject, microbatches: int) -> None:
    gradients = data.draw(halves(0, backward))
    together = forward + backward
    for schedule in (IN_TURN, ALL_FORWARD):
        assert delay(schedule, forward, backward, gradients) == together
    inputs = backward - gradients
    split = max(forward, inputs, forward + inputs - gradients)
    assert delay(SPLIT_BACKWARD, forward, backward, gradients) == split
    assert held_time(IN_TURN, microbatches, forward, backward, gradients) == (microbatches - 1) * together
    assert held_time(SPLIT_BACKWARD, microbatches, forward, backward, gradients) == microbatches * together - split
    assert held_time(ALL_FORWARD, microbatches, forward, backward, gradients) == (microbatches - 1) * backward


def test_an_exchange_behind_work() -> None:
    """Half of it occupies the device: that much is always added; the rest where the work is too short for it."""
    assert exposed(4.0, 100.0, 0.5) == 2.0
    assert exposed(4.0, 2.0, 0.5) == 3.0
    assert exposed(4.0, 0.0, 0.0) == 4.0
    assert exposed(4.0, 9.0, 0.0) == 0.0


@examples(240)
@given(
    st.lists(st.tuples(st.one_of(st.just(NONE), st.integers(0, 9)), halves(0, 4)), min_size=1, max_size=6), st.data()
)
def test_where_a_row_falls(row: list[tuple[int, float]], data: st.DataObject) -> None:
    width, carry, ahead = len(row), data.draw(st.booleans()), data.draw(st.integers(0, 2))
    limits = sorted((data.draw(st.integers(3, 11)) for _ in row), reverse=True)
    best, points, fallen = (NONE, math.inf), [], []
    for k, (count, time) in enumerate(row):
        entry = count, time if carry else 0.0
        if count <= limits[k] - ahead and entry < best:
            best = entry
            points.append((k, *best))
        fallen.append(best)
    fewest = np.array([[5] * width, [count for count, _ in row]], np.int32)
    least = np.array([[1.0] * width, [time for _, time in row]] if carry else [[0.0] * width])
    table = DeviceTable(fewest, least, np.array(limits, np.int32), np.zeros(2, np.int32))
    falls = Falls(np.zeros(width, np.int32), np.zeros(width, np.int32), np.zeros(width))
    assert close(table, 1, ahead, falls) == len(points)
    assert list(zip(*(part[: len(points)].tolist() for part in falls), strict=True)) == points
    assert fewest[1].tolist() == [count for count, _ in fallen]
    assert fewest[0].tolist() == [5] * width
    if carry:
        assert least[1].tolist() == [time for _, time in fallen]
