"""The widest way, against all ways."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from partita.nouns.topology.importers.machine import widest
from partita.nouns.topology.topology import Link

DEVICES, SWITCHES = 4, 4

LINKS = st.lists(
    st.tuples(st.integers(0, 7), st.integers(0, 7), st.integers(1, 5))
    .filter(lambda link: link[0] != link[1])
    .map(lambda link: Link(link[0], link[1], float(link[2]))),
    max_size=12,
)


def best(source: int, target: int, links: list[Link]) -> float:
    """Over all simple ways whose inner vertices are switches."""
    rate: dict[tuple[int, int], float] = {}
    for a, b, value in links:
        for ends in ((a, b), (b, a)):
            rate[ends] = max(rate.get(ends, 0.0), value)
    found = 0.0
    for size in range(SWITCHES + 1):
        for inner in itertools.permutations(range(DEVICES, DEVICES + SWITCHES), size):
            way = [source, *inner, target]
            found = max(found, min(rate.get(ends, 0.0) for ends in itertools.pairwise(way)))
    return found


@given(LINKS)
def test_the_widest_way_is_found(links: list[Link]) -> None:
    matrix = widest(DEVICES, SWITCHES, links)
    for i in range(DEVICES):
        for j in range(DEVICES):
            assert matrix[i, j] == (np.inf if i == j else best(i, j, links))
