"""Generated topologies have the bandwidths that their sources say."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partita.ground.errors import InputError
from partita.nouns.catalogue.loader import load_catalogue
from partita.nouns.topology import topology
from partita.nouns.topology.generators.machines import CUBE_MESH
from partita.nouns.topology.importers.machine import widest

GB = 1e9


def off_diagonal(matrix: np.ndarray) -> np.ndarray:
    return matrix[~np.eye(len(matrix), dtype=bool)]


def test_a_flat_topology_has_one_bandwidth() -> None:
    found = topology("flat:5:bandwidth=100Gbit/s")
    assert set(off_diagonal(found.bandwidth_bytes_per_s)) == {12.5 * GB}
    assert found.machine_count == 1


def test_the_published_two_level_hierarchy() -> None:
    """Four machines with four devices, 11 and 1.1 GB/s."""
    found = topology("two-level:4x4")
    machine = np.array(found.machine_of)
    assert machine.tolist() == [0] * 4 + [1] * 4 + [2] * 4 + [3] * 4
    for i in range(16):
        for j in range(16):
            if i != j:
                assert found.bandwidth_bytes_per_s[i, j] == pytest.approx((11 if i // 4 == j // 4 else 1.1) * GB)


def test_the_cube_mesh_uses_six_links_of_every_gpu() -> None:
    links: Counter[int] = Counter()
    for (a, b), count in CUBE_MESH.items():
        links[a] += count
        links[b] += count
    assert links == dict.fromkeys(range(8), 6)
    # Two quads, each completely joined, and each GPU with its image in the other one.
    for first in (0, 4):
        assert sum(1 for a, b in CUBE_MESH if first <= a < first + 4 and first <= b < first + 4) == 6
    assert {(a, b) for a, b in CUBE_MESH if a < 4 <= b} == {(i, i + 4) for i in range(4)}


def test_four_dgx1_have_the_published_bandwidths() -> None:
    matrix = topology("dgx1:4").bandwidth_bytes_per_s / GB
    assert matrix.shape == (32, 32)
    for machine in range(4):
        first = 8 * machine
        assert matrix[first, first + 1] == pytest.approx(21.4)
        assert matrix[first, first + 3] == pytest.approx(43.2)
        assert matrix[first, first + 5] == pytest.approx(10.1)
    assert matrix[0, 8] == matrix[31, 0] == pytest.approx(1.4)
    assert topology("dgx1:2:network=20GB/s").bandwidth_bytes_per_s[0, 8] == pytest.approx(10.1 * GB)
    inside = off_diagonal(matrix[:8, :8])
    assert Counter(np.round(inside, 6).tolist()) == {21.4: 16, 43.2: 16, 10.1: 24}


def test_nvswitch_machines_take_the_catalogue() -> None:
    links = load_catalogue().links
    matrix = topology("dgx-h100:2").bandwidth_bytes_per_s
    assert matrix[0, 7] == links["nvlink4"].achievable_bytes_per_s
    assert matrix[0, 8] == links["infiniband-ndr"].achievable_bytes_per_s
    shared = topology("dgx-a100:2:cards=4").bandwidth_bytes_per_s
    assert shared[0, 8] == pytest.approx(links["infiniband-hdr"].achievable_bytes_per_s / 2)


#: The published table, and how many hops it is for.
PUBLISHED = {1: 78.1, 2: 39.0, 3: 24.4, 8: 4.4, 16: 0.39, 20: 0.098, 21: 0.088, 31: 0.088, 32: 0.078, 51: 0.078}
PUBLISHED |= {52: 0.068, 60: 0.068}


def test_a_mesh_has_the_published_bandwidth_by_hops() -> None:
    matrix = topology("mesh:61").bandwidth_bytes_per_s / GB
    for hops, rate in PUBLISHED.items():
        assert matrix[0, hops] == pytest.approx(rate), hops
        assert matrix[hops, 0] == pytest.approx(rate), hops


@given(st.lists(st.integers(1, 5), min_size=1, max_size=3), st.booleans())
def test_grids_count_hops_as_a_search_does(size: list[int], torus: bool) -> None:
    """Hops by breadth-first search over the physical links, bandwidth by the table of hops."""
    found = topology(("torus:" if torus else "mesh:") + "x".join(map(str, size)))
    row = topology("mesh:61").bandwidth_bytes_per_s[0]
    neighbours: dict[int, set[int]] = {i: set() for i in range(found.device_count)}
    for link in found.links:
        neighbours[link.source].add(link.target)
        neighbours[link.target].add(link.source)
    for start in range(found.device_count):
        hops, front = {start: 0}, [start]
        for vertex in front:
            for other in neighbours[vertex] - hops.keys():
                hops[other] = hops[vertex] + 1
                front.append(other)
        assert len(hops) == found.device_count
        for other, far in hops.items():
            assert found.bandwidth_bytes_per_s[start, other] == row[far]


def test_a_faster_hop_scales_the_table() -> None:
    plain, fast = (topology(f"mesh:3x3{option}").bandwidth_bytes_per_s for option in ("", ":link=156.2GB/s"))
    assert off_diagonal(fast) == pytest.approx(2 * off_diagonal(plain))


def test_a_fat_tree_is_thinner_above() -> None:
    found = topology("fat-tree:2x2x2:oversubscription=4:link=16GB/s")
    matrix = found.bandwidth_bytes_per_s / GB
    assert matrix[0, 1] == 16
    assert matrix[0, 2] == matrix[1, 3] == 4
    assert matrix[0, 4] == matrix[3, 7] == 1
    # What leaves a leaf of two devices is a quarter of what they send, and what leaves a pod a quarter of that.
    carried = Counter(link.bandwidth_bytes_per_s / GB for link in found.links)
    assert carried == {16.0: 8, 8.0: 4, 4.0: 2}


def test_a_tree_without_oversubscription_is_flat() -> None:
    assert set(off_diagonal(topology("fat-tree:4x4").bandwidth_bytes_per_s)) == {22.5 * GB}


def test_machines_hang_at_one_leaf() -> None:
    found = topology("fat-tree:32:machine=8:inside=100GB/s")
    assert found.machine_count == 4
    assert found.bandwidth_bytes_per_s[0, 7] == 100 * GB
    assert found.bandwidth_bytes_per_s[7, 8] < 100 * GB
    with pytest.raises(InputError, match="do not fill"):
        topology("fat-tree:4x6:machine=4")


def test_a_dragonfly_has_a_cable_between_every_two_groups() -> None:
    found = topology("dragonfly:5x4x2:taper=2:link=10GB/s:local=8GB/s")
    matrix = found.bandwidth_bytes_per_s / GB
    assert (matrix[0, 1], matrix[0, 2], matrix[0, 8]) == (10, 8, 4)
    routers = found.device_count
    cables = [link for link in found.links if (link.source - routers) // 4 != (link.target - routers) // 4]
    cables = [link for link in cables if link.source >= routers]
    assert len(cables) == 10
    # All cables of a group carry half of what its eight devices have.
    of_first = sum(link.bandwidth_bytes_per_s for link in cables if (link.source - routers) // 4 == 0)
    assert of_first == pytest.approx(8 * 10 * GB / 2)


@pytest.mark.parametrize(
    "spec",
    ["flat:4", "two-level:3x2", "dgx1:2", "dgx-a100:2", "mesh:2x3", "torus:3x3", "fat-tree:2x3x2", "dragonfly:4x2x2"],
)
def test_physical_links_reach_every_device(spec: str) -> None:
    """Over devices and switches, as in a mesh."""
    found = topology(spec)
    part = list(range(found.device_count + len(found.switches)))
    for link in found.links:
        here, there = part[link.source], part[link.target]
        part = [here if p == there else p for p in part]
    assert len(set(part)) == 1


@pytest.mark.parametrize("spec", ["flat:4", "two-level:3x2", "dgx1:2", "dgx-h100:2", "gb200-nvl72:2"])
def test_one_pair_gets_what_the_narrowest_link_of_its_way_carries(spec: str) -> None:
    found = topology(spec)
    reached = widest(found.device_count, len(found.switches), found.links)
    assert found.bandwidth_bytes_per_s == pytest.approx(reached)


@pytest.mark.parametrize(
    "spec", ["fat-tree:2x3x2:oversubscription=3", "dragonfly:4x2x2:machine=2", "fat-tree:2x4:machine=2"]
)
def test_a_share_is_no_more_than_a_pair_alone_gets(spec: str) -> None:
    found = topology(spec)
    reached = widest(found.device_count, len(found.switches), found.links)
    assert (found.bandwidth_bytes_per_s <= reached * (1 + 1e-9)).all()


class TestRandomFamilies:
    """The three random families of Parmesan."""

    @pytest.mark.parametrize("family", ["random_blk_1", "random_blk_2", "uniform_dist"])
    def test_seeds(self, family: str) -> None:
        """The same seed gives the same, another one another topology."""
        one, same, other = (topology(f"{family}:20:seed={seed}") for seed in (1, 1, 2))
        assert (one.bandwidth_bytes_per_s == same.bandwidth_bytes_per_s).all()
        assert one.machine_of == same.machine_of
        assert not (one.bandwidth_bytes_per_s == other.bandwidth_bytes_per_s).all()

    @given(st.integers(1, 30), st.integers(0, 50))
    def test_blocks_of_the_first_kind(self, count: int, seed: int) -> None:
        """One bandwidth from U[1e-4, 1e-2] MB/µs in each machine, 1e-4 between."""
        found = topology(f"random-blk-1:{count}:seed={seed}")
        machine = np.array(found.machine_of)
        for i in range(count):
            for j in range(count):
                rate = found.bandwidth_bytes_per_s[i, j] / 1e12
                if i != j and machine[i] != machine[j]:
                    assert rate == pytest.approx(1e-4)
                elif i != j:
                    assert 1e-4 <= rate <= 1e-2
                    first = int(np.flatnonzero(machine == machine[i])[0])
                    assert rate == found.bandwidth_bytes_per_s[first, first + 1] / 1e12

    @given(st.integers(6, 30), st.integers(0, 50))
    def test_blocks_of_the_second_kind(self, count: int, seed: int) -> None:
        """A tenth of the mean inside, over the distance of the machines, between them."""
        found = topology(f"random-blk-2:{count}:nodes=3:seed={seed}")
        machine, matrix = np.array(found.machine_of), found.bandwidth_bytes_per_s / 1e12
        together = (machine[:, None] == machine[None, :]) & ~np.eye(count, dtype=bool)
        inside = matrix[together]
        assert ((inside >= 1e-5) & (inside <= 1e-2)).all()
        apart = np.abs(np.subtract.outer(machine, machine))
        for far in (1, 2):
            assert matrix[apart == far] == pytest.approx(inside.mean() / 10 / far)
        assert (matrix == matrix.T).all()

    def test_every_machine_has_a_device(self) -> None:
        """Sizes are drawn, none is empty, and they differ."""
        sizes = [Counter(topology(f"random-blk-1:12:nodes=4:seed={s}").machine_of) for s in range(20)]
        assert all(len(found) == 4 and sum(found.values()) == 12 for found in sizes)
        assert len({tuple(found.values()) for found in sizes}) > 5
        with pytest.raises(InputError, match="cannot share"):
            topology("random-blk-1:3:nodes=4")

    def test_uniform_bandwidths_fill_their_range(self) -> None:
        """U[1e-5, 1e-2] MB/µs: near both ends and with its mean."""
        rates = off_diagonal(topology("uniform:64:seed=3").bandwidth_bytes_per_s) / 1e12
        assert 1e-5 <= rates.min() < 1e-4
        assert 9.9e-3 < rates.max() <= 1e-2
        assert rates.mean() == pytest.approx(5e-3, rel=0.03)


def test_a_topology_is_a_cluster() -> None:
    found = topology("dgx1:2:network=infiniband-hdr").cluster()
    assert found.device_count == 16
    assert set(found.device_names()) == {"V100-32GB"}
    assert found.machine_of() == [0] * 8 + [1] * 8
    assert found.bandwidth_bytes_per_s()[0, 3] == pytest.approx(43.2 * GB)
    assert found.notes
    again = topology("mesh:2x2:device=a100-40gb").cluster()
    assert again.device_names() == ["A100-40GB"] * 4


def test_a_cluster_is_a_topology() -> None:
    found = topology("2x(2xL4):ethernet-25g")
    assert found.names == ("machine0/gpu0", "machine0/gpu1", "machine1/gpu0", "machine1/gpu1")
    assert found.bandwidth_bytes_per_s[0, 2] == pytest.approx(3.125e9 * 0.9)
    assert found.kinds == ("L4",) * 4


def test_unknown_devices_are_asked_for() -> None:
    with pytest.raises(InputError, match=r"mesh:2x2 does not say what its devices are; add .*:device="):
        topology("mesh:2x2").cluster()


def test_a_rack_is_one_domain_of_72() -> None:
    found = topology("gb200-nvl72:2")
    matrix = found.bandwidth_bytes_per_s
    assert len(found.names) == 144
    # 900 GB/s at four fifths inside, a 400 Gbit/s card at nine tenths between racks.
    assert matrix[0, 71] == pytest.approx(720 * GB)
    assert matrix[0, 72] == pytest.approx(45 * GB)
    assert found.cluster().device_count == 144
