"""Loads that moves keep up to date are those that are computed anew."""

from __future__ import annotations

import math

import numpy as np
import pytest

from partita.engines.kernels.annealing import Cooling
from partita.engines.kernels.mapping.anneal import anneal
from partita.engines.kernels.mapping.arrays import load_of
from partita.engines.kernels.random import generator
from partita.problems.mapping.instance import MappingInstance
from problems.mapping.large_problems import pipeline_on


@pytest.mark.parametrize(
    ("stages", "replicas", "where"),
    [(3, 5, "torus:4x4"), (2, 8, "mesh:4x4"), (4, 4, "dgx1:2"), (1, 12, "uniform:12"), (2, 3, "mesh:2x4")],
)
def test_loads_after_swaps_and_turns(stages: int, replicas: int, where: str) -> None:
    """The largest load that annealing says of its best mapping is that of the mapping; runs turn from four replicas."""
    better = 0
    for seed in range(40):
        instance = MappingInstance(pipeline_on(where, stages, replicas, seed))
        draw = np.random.default_rng(seed)
        device = draw.permutation(instance.devices)[: instance.count].astype(np.int32)
        a = instance.arrays
        first = max(load_of(a, device, x) for x in range(instance.count))
        best = np.empty_like(device)
        # The target is the first mapping's: what is written is better, after many moves.
        cooling, stop = Cooling(0.5, 0.05, 3_000), np.zeros(1, dtype=np.int64)
        value = anneal(a, instance.near, device, best, first, 4, first, cooling, generator(seed), stop)
        assert len(set(device.tolist())) == instance.count
        if value < first:
            better += 1
            assert len(set(best.tolist())) == instance.count
            assert math.isclose(value, max(load_of(a, best, x) for x in range(instance.count)), rel_tol=1e-12)
    assert better > 25
