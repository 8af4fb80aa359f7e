"""Orders of operators within some memory, against all orders."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from instances.kernel_arrays import dags, values
from instances.strategies import examples, halves
from partita.engines.kernels.graph_arrays import csr, graph_of
from partita.engines.kernels.throughput.working_memory import (
    FITS,
    OPEN,
    OVER,
    PeakArrays,
    fit,
    peak_along,
    peak_scratch,
)


@st.composite
def peaks(draw: st.DrawFn) -> tuple[PeakArrays, list[tuple[int, int]], list[set[int]]]:
    """Operators of which each reads the one tensor of those before it; some tensors are there from the start."""
    n, edges = draw(dags(3, 6))
    pins = [{v, *(w for u, w in edges if u == v)} for v in range(n)]
    pins += draw(st.lists(st.sets(st.integers(0, n - 1), min_size=1), max_size=2))
    of_operator = [[t for t, row in enumerate(pins) if v in row] for v in range(n)]
    arrays = PeakArrays(
        graph_of(edges, n),
        *csr(of_operator),
        draw(values(len(pins))),
        draw(values(n, 0.0)),
        *csr([[v] for v in range(n)]),
    )
    return arrays, edges, pins


def peak_of(k: PeakArrays, pins: list[set[int]], order: Sequence[int]) -> float:
    """Each tensor is held from the first to the last of the operators that touch it."""
    spans = []
    for t, row in enumerate(pins):
        places = [place for place, v in enumerate(order) if v in row]
        if places:
            spans.append((min(places), max(places), k.size[t]))
    return max(
        k.scratch[v] + sum(size for first, last, size in spans if first <= place <= last)
        for place, v in enumerate(order)
    )


@examples(300)
@given(peaks(), st.data())
def test_some_operators_fit_if_an_order_does(
    made: tuple[PeakArrays, list[tuple[int, int]], list[set[int]]], data: st.DataObject
) -> None:
    k, edges, pins = made
    n = k.scratch.shape[0]
    some = st.lists(st.integers(0, n - 1), min_size=1, unique=True)
    members = data.draw(st.one_of(some, st.permutations(range(n)), st.permutations(range(n))))
    inside = [(u, v) for u, v in edges if u in members and v in members]
    orders = [row for row in itertools.permutations(members) if all(row.index(u) < row.index(v) for u, v in inside)]
    found = {order: peak_of(k, pins, order) for order in orders}
    least = min(found.values())
    x = peak_scratch(n, len(pins), 500)
    for order, peak in list(found.items())[:5]:
        x.order[: len(order)] = order
        assert peak_along(k, x, len(order)) == peak
    most = data.draw(st.one_of(st.sampled_from([least, least - 0.5]), halves(0, 20)))
    for _ in range(2):
        x.members[: len(members)] = members
        answer = fit(k, x, len(members), most, 500)
        assert answer == (FITS if least <= most else OVER)
        assert not x.inside.any()
        if answer == FITS:
            order = tuple(x.order[: len(members)].tolist())
            assert found[order] <= most


@given(peaks())
def test_it_says_when_it_has_not_tried_enough(
    made: tuple[PeakArrays, list[tuple[int, int]], list[set[int]]],
) -> None:
    k, _, pins = made
    n = k.scratch.shape[0]
    x = peak_scratch(n, len(pins), 500)
    x.members[:] = np.arange(n)
    assert fit(k, x, n, 1e9, n - 1) == OPEN
    assert fit(k, x, n, 1e9, n) == FITS
