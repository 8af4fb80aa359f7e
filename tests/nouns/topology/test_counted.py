"""Counted machines say of every pair what a matrix says, and cost no more the more there are."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from partita.nouns.cluster import Cluster
from partita.nouns.topology import topology
from partita.nouns.topology.counted import CountedLinks
from partita.nouns.topology.topology import MAX_TOPOLOGY, counted_links, of_cluster

CLUSTERS = [
    "2x(4xA100-80GB)",
    "3x(8xH100-80GB):infiniband-ndr",
    "8xH100-80GB",
    "2x(4xA100-80GB)+3x(2xL4)+T4:ethernet-25g",
    "2x(2xA100-80GB)@pcie4+2x(2xA100-80GB)",
    "3xCPU+2x(4xL4)",
]


@pytest.mark.parametrize("text", CLUSTERS)
def test_every_pair_has_what_the_matrix_says(text: str) -> None:
    cluster = Cluster.from_spec(text)
    found = counted_links(cluster)
    assert found is not None
    matrix = cluster.bandwidth_bytes_per_s()
    assert np.array_equal(found.matrix(), matrix)
    every = range(cluster.device_count)
    assert [[found.link(i, j) for j in every] for i in every] == matrix.tolist()
    assert found.machine_of.tolist() == cluster.machine_of()
    pairs = [matrix[i, j] for i, j in itertools.permutations(every, 2)]
    assert found.pairs() == {rate: pairs.count(rate) for rate in set(pairs)}
    machine = np.array(cluster.machine_of())
    together = machine[:, None] == machine[None, :]
    apart = ~np.eye(cluster.device_count, dtype=bool)
    assert found.fastest() == (matrix[together & apart].max(initial=0.0), matrix[~together].max(initial=0.0))


def test_a_machine_whose_devices_differ_in_their_links_is_not_counted() -> None:
    assert counted_links(Cluster.from_spec("2x(2xA100-80GB+1xCPU)")) is None
    assert counted_links(topology("dgx1:2").cluster()) is None


def test_machines_that_are_alike_are_one_entry() -> None:
    found = of_cluster(Cluster.from_spec("16384x(8xH100-80GB):infiniband-ndr"))
    links = found.bandwidth_bytes_per_s
    assert isinstance(links, CountedLinks)
    assert len(links.machines) == 1
    assert (found.device_count, found.machine_count) == (131_072, 16_384)
    assert found.names[-1] == "machine16383/gpu7"
    assert links[0, 7] > links[0, 8] == links[0, 131_071]


@pytest.mark.parametrize(
    ("large", "small"),
    [
        ("dgx-h100:16384", "dgx-h100:4"),
        ("dgx-h100:16384:cards=4", "dgx-h100:4:cards=4"),
        ("gb300-nvl72:1820", "gb300-nvl72:4"),
        ("two-level:8192x16:device=L4", "two-level:4x16:device=L4"),
        ("flat:131072:device=L4", "flat:4:device=L4"),
    ],
)
def test_short_forms_of_many_machines_have_the_links_of_few(large: str, small: str) -> None:
    many, few = topology(large), topology(small)
    assert many.device_count > MAX_TOPOLOGY
    count = few.device_count
    here = np.arange(count)
    assert np.array_equal(many.bandwidth_bytes_per_s[here[:, None], here[None, :]], few.matrix())
    cluster, other = many.cluster(), few.cluster()
    assert cluster.device_count == many.device_count
    per = cluster.machines[0].devices[0][1]
    for pair in [(0, 1)] + [(0, per)] * (count > per):
        one, two = cluster.path(*pair), other.path(*pair)
        assert (one.bandwidth_bytes_per_s, one.latency_s) == (two.bandwidth_bytes_per_s, two.latency_s)
