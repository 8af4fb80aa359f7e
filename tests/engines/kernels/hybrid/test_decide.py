"""The fewest devices that run a chain of layers within a target, against all ways to cut it."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from instances.hybrid_arrays import arrays_of, scratch_of, work_of
from instances.kernel_arrays import NEVER, row_of, values
from instances.strategies import examples, halves
from partita.engines.kernels.graph_arrays import csr
from partita.engines.kernels.hybrid.arrays import HybridArrays
from partita.engines.kernels.hybrid.decide import STEP, decide, look_ahead, trace
from partita.engines.kernels.hybrid.device_table import NONE, DeviceTable

BATCH = 8.0


@dataclass
class Chain:
    """Layers in a row: by degree their times, weights and memory; what edges move; and the target."""

    degrees: list[int]
    times: np.ndarray
    weights: np.ndarray
    active: np.ndarray
    fixed: np.ndarray
    edges: np.ndarray
    memory: float
    per_batch: bool
    target: float

    @property
    def layers(self) -> int:
        return self.times.shape[1]

    def fits(self, first: int, last: int, r: int, d: int, behind: int) -> bool:
        """Whether layers ``first`` to before ``last`` are a stage of d replicas, with so many in the stages behind."""
        moved = sum(self.edges[e] for e in (first - 1, last - 1) if 0 <= e < self.layers - 1)
        weight = self.weights[first:last].sum()
        sync = 4.0 * (d - 1) / (BATCH if self.per_batch else d) * weight
        flying = -(-(behind + d) // d)
        held = self.active[r, first:last].sum() * flying + self.fixed[r, first:last].sum()
        return bool(self.times[r, first:last].sum() + moved + sync <= d * self.target and held <= self.memory)

    def best(self, devices: int, total: int) -> float:
        """The fewest devices, with at most so many and so many replicas of all stages."""
        found = math.inf
        for ends in itertools.product([False, True], repeat=self.layers - 1):
            cuts = [0, *(place for place, end in enumerate(ends, 1) if end), self.layers]
            parts = list(itertools.pairwise(cuts))[::-1]
            states = {(0, 0)}
            for first, last in parts:
                states = {
                    (behind + d, used + d * t)
                    for behind, used in states
                    for r, t in enumerate(self.degrees)
                    for d in range(1, total - behind + 1)
                    if used + d * t <= devices and self.fits(first, last, r, d, behind)
                }
            found = min([found, *(used for _, used in states)])
        return found

    def arrays(self, total: int) -> HybridArrays:
        n, ranks = self.layers, len(self.degrees)
        suffixes = [set(range(n - size, n)) for size in range(n + 1)]

        def sums(row: np.ndarray) -> list[list[float]]:
            return [[float(sum(row[v] for v in s)), 0.0] for s in suffixes]

        least = (np.array(self.degrees)[:, None] * self.times).min(0)
        edge = self.edges if n > 1 else np.zeros(1)
        cross = [[n - size - 1] if 0 < size < n else [] for size in range(n + 1)]
        into, out = csr([[v - 1] if v else [] for v in range(n)]), csr([[v] if v < n - 1 else [] for v in range(n)])
        tables = {
            name: np.array([sums(row) for row in rows])
            for name, rows in (("time", self.times), ("active", self.active), ("fixed", self.fixed))
        }
        options = ranks * n
        return arrays_of(
            degree=self.degrees, uniform=np.ones(ranks), members=np.stack([row_of(s, n) for s in suffixes]),
            work=np.array(sums(least)), rest=[least.sum() - sums(least)[size][0] for size in range(n + 1)],
            missing=np.zeros((ranks, n + 1)), weight=np.array([sums(self.weights)] * ranks),
            sharded=np.zeros((ranks, n + 1, 2)), cross_ptr=csr(cross)[0], cross=csr(cross)[1],
            source=np.arange(max(1, n - 1)), target=np.arange(max(1, n - 1)) + 1, edge_time=edge,
            edge_enter=np.stack([edge] * ranks), edge_leave=np.stack([edge] * ranks),
            in_ptr=into[0], in_edges=into[1], out_ptr=out[0], out_edges=out[1],
            segment=np.repeat(np.arange(ranks)[:, None], total + 1, 1), small_active=tables["active"],
            small_fixed=tables["fixed"], small_time=tables["time"],
            option_ptr=[[r * n + v for v in range(n + 1)] for r in range(ranks)], option_time=self.times.ravel(),
            option_weight=np.tile(self.weights, ranks), option_active=self.active.ravel(),
            option_fixed=self.fixed.ravel(), option_sharded=np.zeros(options), option_in_ptr=np.zeros(options + 1),
            option_out_ptr=np.zeros(options + 1), kind=np.stack([np.arange(n)] * ranks),
            next_replicas=np.arange(total + 2), limits=[self.memory, BATCH, float(self.per_batch), 1e-12], **tables,
        )  # fmt: skip


@st.composite
def chains(draw: st.DrawFn) -> Chain:
    n, degrees = draw(st.integers(1, 4)), draw(st.sampled_from([[1], [1, 2], [2]]))

    def rows(low: float, high: float) -> np.ndarray:
        return np.stack([draw(values(n, low, high)) for _ in degrees])

    limited = draw(st.booleans())
    return Chain(
        degrees=degrees,
        times=rows(0.5, 6.0),
        weights=draw(values(n, 0.0, 1.0)),
        active=rows(0.0, 2.0) if limited else np.zeros((len(degrees), n)),
        fixed=rows(0.0, 2.0),
        edges=draw(values(n - 1, 0.0, 1.0)),
        memory=draw(halves(2, 12)) if limited else 1e9,
        per_batch=draw(st.booleans()),
        target=draw(halves(0.5, 6)),
    )


@examples(150)
@given(chains(), st.integers(1, 6), st.integers(1, 5))
def test_a_chain_runs_on_the_fewest_devices(chain: Chain, devices: int, total: int) -> None:
    n = chain.layers
    total = min(total, devices)
    h = chain.arrays(total)
    w = work_of(h, scratch_of(n, n))
    limits = np.full(total + 1, devices, np.int32)
    table = DeviceTable(np.zeros((n + 1, total + 1), np.int32), np.zeros((1, 1)), limits, np.zeros(n + 1, np.int32))
    best = chain.best(devices, total)
    found = decide(w, None, table, chain.target)
    assert found == (best if best < math.inf else NONE)
    ahead = np.zeros(n + 1, np.int32)
    look_ahead(h, chain.target * (1 + 1e-12), devices, ahead, NEVER)
    assert ahead[n] == 0
    if found == NONE:
        return
    assert ahead[0] <= found
    steps = np.zeros((n + 1, STEP), np.int32)
    count = trace(w, chain.target, table.fewest, steps)
    assert count >= 1
    # The first stage first: from the whole model down to nothing; the last one has nobody behind it.
    assert steps[0][1] == n
    assert steps[count - 1][0] == 0
    behind = used = 0
    for inner, outer, r, d in reversed(steps[:count].tolist()):
        assert chain.fits(n - outer, n - inner, r, d, behind)
        behind, used = behind + d, used + d * chain.degrees[r]
    assert behind <= total
    assert used == found
    assert [step[0] for step in steps[: count - 1].tolist()] == [step[1] for step in steps[1:count].tolist()]


@pytest.mark.parametrize("target", [1.0, 100.0])
def test_a_stopped_decision_says_so(target: float) -> None:
    one = np.ones((1, 2))
    chain = Chain([1], one, np.zeros(2), 0 * one, 0 * one, np.zeros(1), 9.0, False, target)
    w = work_of(chain.arrays(2), scratch_of(2, 2))._replace(stop=np.ones(1, np.int64))
    table = DeviceTable(np.zeros((3, 3), np.int32), np.zeros((1, 1)), np.full(3, 2, np.int32), np.zeros(3, np.int32))
    assert decide(w, None, table, target) == -1
