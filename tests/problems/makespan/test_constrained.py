"""Paths of entries that keep to memory: what they prove is below every schedule, guests included."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest

from partita.engines.search.incumbent import Incumbent
from partita.engines.search.monitor import Monitor
from partita.problems.makespan.bounds.priced import PricedChain
from partita.problems.makespan.evaluate import evaluate
from partita.problems.makespan.improving import try_everything
from partita.problems.makespan.instance import build_instance
from partita.problems.makespan.problem import Device, MakespanFlow, MakespanOperator, MakespanPlan, MakespanProblem
from partita.problems.makespan.solvers import constrained
from partita.problems.makespan.solvers.constrained import ConstrainedPaths
from partita.problems.makespan.solvers.entries import Entry, joined
from partita.problems.makespan.solvers.guests import Guests, after_guest, guests_of, place_of
from partita.problems.makespan.solvers.priced import _look_up
from partita.problems.makespan.symmetry import evened
from partita.problems.makespan.thinning import Thinned

#: Edges of the chain; 1, 3 and 6 separate it. Guests read 1 and are read by 4, 5 and 7.
_CHAIN = [(0, 1), (1, 2), (2, 3), (3, 4), (3, 5), (4, 6), (5, 6), (6, 7), (6, 8)]
_GUESTS = (4, 5, 7)


def visited(seed: int, alike: bool = False) -> Thinned:
    """A short chain with guests that are left out, devices and links unlike, and memory for most of it.

    The first two devices can be ``alike``.
    """
    rng = np.random.default_rng(seed)
    devices, guests = int(rng.integers(2, 4)), int(rng.integers(1, 4))
    readers = rng.permutation(_GUESTS)[:guests].tolist()
    count = 9 + guests
    operators = tuple(
        MakespanOperator(
            id=v, times=tuple(rng.integers(1, 6, devices).astype(float).tolist()), memory=float(rng.integers(0, 4))
        )
        for v in range(count)
    )
    edges = [*_CHAIN, *((1, 9 + k) for k in range(guests)), *((9 + k, w) for k, w in enumerate(readers))]
    flows = tuple(
        MakespanFlow(
            id=f,
            source=u,
            target=v,
            times=tuple(
                tuple(
                    0.0 if a == b else float(rng.integers(1, 8)) * (2 if f >= len(_CHAIN) else 1)
                    for b in range(devices)
                )
                for a in range(devices)
            ),
        )
        for f, (u, v) in enumerate(edges)
    )
    held = sum(op.memory for op in operators)
    limits = np.ceil(held * rng.uniform(0.3, 0.8, devices)).tolist()
    if seed % 5 == 0:
        limits[0] = None
    if alike:
        operators = tuple(
            msgspec.structs.replace(op, times=(op.times[0], op.times[0], *op.times[2:])) for op in operators
        )
        flows = tuple(msgspec.structs.replace(flow, times=as_the_first(flow.times)) for flow in flows)
        limits[1] = limits[0]
    whole = MakespanProblem(
        name="guests",
        devices=tuple(Device(name=str(d), memory=limit) for d, limit in enumerate(limits)),
        operators=operators,
        flows=flows,
        sender_congestion=bool(seed % 3),
    )
    kept = whole.replace(operators=operators[:9], flows=flows[: len(_CHAIN)])
    return Thinned(build_instance(whole), tuple(range(9)), build_instance(kept))


def as_the_first(times: tuple[tuple[float, ...], ...]) -> tuple[tuple[float, ...], ...]:
    """Of a flow, with the second device as the first one."""
    made = np.array(times)
    made[1, 2:], made[2:, 1] = made[0, 2:], made[2:, 0]
    made[1, 0] = made[0, 1]
    return tuple(map(tuple, made.tolist()))


def waited(thinned: Thinned, plan: MakespanPlan | None) -> int:
    """For how many guests of a schedule the end of their block is as soon after what they read as it can be."""
    if plan is None:
        return 0
    tight, problem = 0, thinned.whole.problem
    for guest in guests_of(thinned)[1]:
        read, mine = problem.flows[guest.read], plan.operators[problem.operators[guest.operator].id]
        arrives = plan.flows[read.id].end if read.id in plan.flows else plan.operators[read.source].end
        last = thinned.chain.blocks[guest.block].exit
        t, ends = -1, max(op.end for op in plan.operators.values())
        if last >= 0:
            t, ends = plan.operators[last].device, plan.operators[last].start
        least = float(after_guest(thinned, guest)[mine.device, t])
        assert ends - arrives >= least - 1e-9
        tight += ends - arrives <= least + 1e-9
    return tight


@pytest.mark.parametrize("count", [24, pytest.param(1500, marks=pytest.mark.slow)])
def test_against_trying_everything(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is merged, no schedule ends before what is proven; what is chosen becomes a schedule."""
    stop, compared, above, delayed, planned, tight, swapped, apart = np.zeros(1, dtype=np.int64), 0, 0, 0, 0, 0, 0, 0
    for seed in range(count):
        thinned, best = visited(seed, alike=seed % 4 == 2), Incumbent[MakespanPlan]()
        whole = thinned.whole
        if not try_everything(whole, best, steps=400_000):
            continue
        compared += 1
        tight += waited(thinned, best.answer)
        chain = PricedChain(thinned.chain, whole, thinned.left_out)
        assert chain.fill(Monitor(60.0), stop)
        draws = np.random.default_rng(seed)
        price = draws.exponential(0.5, whole.devices) * chain.limited
        visits = draws.exponential(1.0, whole.devices) * np.isfinite(chain.cap)
        path = chain.path(evened(price, chain.classes), evened(visits, chain.classes))
        if seed % 2 and math.isfinite(best.value):
            path = chain.ascend(path, best.value, 60, Monitor(10.0), stop)
        known: Incumbent[MakespanPlan] = Incumbent()
        if seed % 3 == 0 and best.answer is not None:
            # Only what is shorter is looked for.
            known.offer(best.value, best.answer)
        entries, near = _look_up(chain, path, 10_000, known, 1, Monitor(60.0))
        for table in chain.tables.values():
            for (way, source, target), piece in table.known.items():
                # Also where it is that of other devices, renumbered.
                if piece is not None:
                    ends = [piece.device[v] for v in (table.entry, table.exit) if v >= 0]
                    assert ends == [d for d in (source, target) if d >= 0]
                    group = table.instance.arrays.group
                    heavy = [piece.device[group.members[group.ptr[g]]] for g in table.heavy]
                    assert heavy == table.ways[way].tolist()
        path = chain.path(path.price, path.visits)
        swapped += bool(chain.interchangeable(path))
        if near <= 0:
            # Prices drawn so high that they say nothing of what is far: no goal is left to prove.
            continue
        monkeypatch.setattr(constrained, "_CELLS", int(draws.integers(1, 40)))
        monkeypatch.setattr(constrained, "_EACH", int(draws.integers(1, 6)))
        monkeypatch.setattr(constrained, "_LABELS", 200_000)
        paths, goal = ConstrainedPaths(thinned, chain, path, entries), min(near, 10 * whole.critical)
        least = paths.least(goal, stop)
        assert least is not None, seed
        assert least <= best.value * (1 + 1e-9), seed
        above += least > 1.001 * path.value
        # Without what guests wait for.
        free = paths.stages._replace(sends=0 * paths.stages.sends, after=0 * paths.stages.after)
        with monkeypatch.context() as patch:
            patch.setattr(paths, "stages", free)
            alone = paths.least(goal, stop)
        delayed += alone is not None and least > alone + 1e-9
        paths.refine(6)
        finer = paths.least(goal, stop)
        assert finer is not None
        assert finer <= best.value * (1 + 1e-9), seed
        apart += finer > least
        found = paths.chosen(goal, stop)
        if found is None:
            continue
        plan = joined(chain, found[0])
        assert plan is not None
        assert set(found[1]) <= set(thinned.out_groups)
        state = thinned.put_back(plan, Incumbent(), found[1])
        planned += state is not None
        mine: Incumbent[MakespanPlan] = Incumbent()
        if thinned.put_back(plan, mine, found[1]) is not None:
            assert mine.answer is not None
            assert evaluate(whole.problem, mine.answer).feasible
            assert mine.value >= best.value - 1e-9
    assert min(compared, above, delayed, planned) >= count // 12, (compared, above, delayed, planned, tight)
    assert tight
    assert swapped >= count // 12
    assert apart


def test_guests() -> None:
    """Those that read one separator and are read in a block after it, by their blocks."""
    thinned = visited(7)
    source, guests = guests_of(thinned)
    assert thinned.chain.separators[source] == 1
    assert [one.operator for one in guests] == sorted(thinned.left_out, key=lambda v: thinned.whole.after[v][0][0])
    assert all(thinned.whole.problem.flows[one.read].source == 1 for one in guests)


def test_guests_of_pieces() -> None:
    """With the reader of each where its block can end first, as paths have them; what cannot be takes for ever."""
    compared = 0
    for seed in range(12):
        thinned, far = visited(seed), 1e6
        of_pieces, rows = Guests(thinned, far), guests_of(thinned)[1]
        a = of_pieces.arrays
        assert thinned.chain.separators[a.source - 1] == 1
        for g, one in enumerate(rows):
            assert thinned.out_groups[a.item[g]] == thinned.whole.arrays.group.of[one.operator]
            assert of_pieces.places[a.reader[g]] == place_of(thinned, one)
            through = a.time[g][:, None, None] + a.gives[g][:, :, None] + a.after[g][None]
            least, known = through.min(axis=1), after_guest(thinned, one)
            assert np.allclose(least[np.isfinite(known)], known[np.isfinite(known)])
            assert (least[np.isinf(known)] >= far).all()
            compared += 1
    assert compared >= 12


def test_too_many_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is said where there are too many labels, or when told to stop."""
    thinned, stop = visited(3), np.zeros(1, dtype=np.int64)
    chain = PricedChain(thinned.chain, thinned.whole, thinned.left_out)
    assert chain.fill(Monitor(60.0), stop)
    path = chain.path(np.zeros(thinned.whole.devices))
    entries: list[Entry] = _look_up(chain, path, 10_000, Incumbent(), 1, Monitor(60.0))[0]
    paths = ConstrainedPaths(thinned, chain, chain.path(path.price), entries)
    assert paths.least(1e6, stop) is not None
    stop[0] = 1
    assert paths.least(1e6, stop) is None
    stop[0] = 0
    monkeypatch.setattr(constrained, "_LABELS", 1)
    assert paths.least(1e6, stop) is None
    assert paths.chosen(1e6, stop) is None
