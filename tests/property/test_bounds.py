"""Bounds of the hierarchy against all splits of tiny problems."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import brute_force
from partita.result import Monitor
from partita.throughput.bounds import HIERARCHY
from partita.throughput.bounds.charge import ChargeBound, Charges, charged_at
from partita.throughput.bounds.knowledge import Knowledge
from partita.throughput.bounds.node import FreeNodeBound, NodeBound
from partita.throughput.bounds.protocol import HierarchyBound
from partita.throughput.bounds.simple import SimpleBound
from partita.throughput.bounds.uniform import Uniform, uniform
from partita.throughput.problem import DeviceKind, Operator, Tensor, ThroughputProblem
from strategies import examples, random_problem, throughput_problems

#: Rounding; the values of test problems are at least a quarter apart.
SLACK = 1e-6

alike = throughput_problems(unsupported=False, memory=False, kinds=(1, 1), cpus=False, max_count=4, max_operators=7)


@st.composite
def shaped_problems(draw: st.DrawFn) -> ThroughputProblem:
    """More operators and devices than the other strategies: no work in places, parts that do not meet, dear tensors."""
    count = draw(st.integers(1, 8))
    work = draw(st.lists(st.integers(0, 4), min_size=count, max_size=count))
    tensors = []
    for u in range(count - 1):
        readers = draw(st.sets(st.integers(u + 1, count - 1), max_size=3))
        if readers:
            tensors.append(Tensor(producer=u, consumers=tuple(sorted(readers)), size=draw(st.integers(0, 8)) / 2))
    return ThroughputProblem(
        name="shaped",
        kinds=(DeviceKind(name="a", count=draw(st.integers(1, 6))),),
        operators=tuple(Operator(id=i, times=(float(w),)) for i, w in enumerate(work)),
        tensors=tuple(tensors),
    )


def splits(relaxed: Uniform) -> Iterator[tuple[np.ndarray, list[float]]]:
    """Every acyclic split of the items, with the loads of its blocks."""
    n, k = relaxed.items, relaxed.devices
    edges = [(u, int(v)) for u in range(n) for v in relaxed.succ[relaxed.succ_ptr[u] : relaxed.succ_ptr[u + 1]]]
    loads: dict[bytes, float] = {}
    for labels in itertools.product(range(k), repeat=n):
        if any(labels[u] > labels[v] for u, v in edges):
            continue
        label = np.array(labels)
        found = []
        for j in range(k):
            members = label == j
            key = members.tobytes()
            if key not in loads:
                loads[key] = relaxed.load(members)
            found.append(loads[key])
        yield label, found


@examples(60)
@given(alike | shaped_problems(), st.floats(0.5, 2.0))
def test_what_charges_say_holds_in_every_split_up_to_the_target(problem: ThroughputProblem, factor: float) -> None:
    relaxed = uniform(problem)
    if relaxed.items > 6 or relaxed.devices**relaxed.items > 5000:
        return
    known = list(splits(relaxed))
    best = min(max(loads) for _, loads in known)
    target = best * factor
    charged = charged_at(relaxed, target)
    charges = Charges(relaxed)
    state = charges.start(target)
    settled = charges.settle(state)
    assert settled == (charged is not None)
    feasible = [(label, loads) for label, loads in known if max(loads) <= target]
    if charged is None:
        assert not feasible
        return
    assert np.all(charged.work >= relaxed.work)
    apart = np.unpackbits(state.parts.apart.view(np.uint8), axis=1, bitorder="little")
    for label, loads in feasible:
        assert np.all(charged.first <= label)
        assert np.all(label <= charged.last)
        for j, load in enumerate(loads):
            members = np.flatnonzero(label == j)
            assert charged.work[members].sum() <= load + SLACK
            assert state.share[members].sum() <= 1 + SLACK
            assert not apart[np.ix_(members, members)].any(), "a pair that is apart shares a block"
        for e in np.flatnonzero(state.parts.forced):
            assert len(set(label[relaxed.pins(int(e))].tolist())) > 1, "a forced net is not cut"
