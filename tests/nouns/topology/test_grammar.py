"""Short forms and options: what is written is understood or refused with the remedy."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partita.ground.errors import InputError
from partita.nouns.topology import topology
from partita.nouns.topology.generators import GENERATORS
from partita.nouns.topology.grammar import cut_options, parse_bandwidth

NAMES = st.sampled_from([generator.name for generator in GENERATORS])
PIECES = st.sampled_from(
    ["mesh", "dgx1", "flat", ":", "x", "4", "0", "2x2", "seed=1", "=", "device=L4", "link=", "+", "("]
)


@given(st.lists(PIECES, max_size=8).map("".join) | st.text(max_size=10))
def test_any_text_is_a_topology_or_an_input_error(text: str) -> None:
    with contextlib.suppress(InputError):
        found = topology(text)
        assert found.bandwidth_bytes_per_s.shape == (found.device_count,) * 2


@given(NAMES, st.lists(st.integers(1, 3), min_size=1, max_size=4), st.sampled_from(["", " "]), st.booleans())
def test_spelling_does_not_matter(name: str, size: list[int], space: str, upper: bool) -> None:
    """Spaces, case and underscores: both spellings give the same, or both nothing."""
    plain = f"{name}:{'x'.join(map(str, size))}"
    other = f"{name.replace('-', '_')}{space}:{space}{'X'.join(map(str, size))}"
    other = other.upper() if upper else other
    try:
        expected = topology(plain)
    except InputError:
        with pytest.raises(InputError):
            topology(other)
        return
    assert (topology(other).bandwidth_bytes_per_s == expected.bandwidth_bytes_per_s).all()


@given(st.lists(st.tuples(st.from_regex(r"[a-z]{1,5}", fullmatch=True), st.text("abc123./", max_size=5)), max_size=4))
def test_options_are_cut_off_in_order(options: list[tuple[str, str]]) -> None:
    text = r"C:\topo.txt" + "".join(f":{name}={value}" for name, value in options)
    assert cut_options(text) == (r"C:\topo.txt", tuple(options))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("11GB/s", 11e9),
        ("1.1 GB/s", 1.1e9),
        ("100Gbit/s", 12.5e9),
        ("100Gb/s", 12.5e9),
        ("1GiB/s", 2.0**30),
        ("500MB/s", 5e8),
        ("2e9", 2e9),
        ("pcie3", 15.754e9 * 0.8),
        ("Ethernet_100G", 12.5e9 * 0.9),
    ],
)
def test_bandwidths(text: str, expected: float) -> None:
    assert parse_bandwidth("x", text) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("mesh:", "mesh: has no size; write mesh:ROWSxCOLUMNS"),
        ("mesh", "mesh has no size"),
        ("mesh:4y4", "size '4y4' is not numbers of at least 1"),
        ("mesh:4x0", "size '4x0' is not numbers"),
        ("two-level:4", "size '4' has 1 numbers; write two-level:MACHINESxDEVICES"),
        ("dgx1:4x4", "size '4x4' has 2 numbers; write dgx1:MACHINES"),
        ("torus:99x99x99", "970299 devices; a topology of this kind has at most 2048"),
        ("dgx1:999999999", "7999999992 devices"),
        ("uniform:8:sed=1", "no option 'sed'; did you mean seed?"),
        ("uniform:8:seed=1:seed=2", "option 'seed' is given twice"),
        ("uniform:8:seed=", "option 'seed' has no value"),
        ("uniform:8:seed=-1", "seed: '-1' must be a whole number of at least 0"),
        ("uniform:8:seed", "size '8:seed'"),
        ("flat:4:bandwidth=12XB/s", "'XB/s' is no unit of bandwidth"),
        ("flat:4:bandwidth=0", "bandwidth '0' is out of range"),
        ("flat:4:bandwidth=warp9", "neither a number such as 11GB/s nor a link"),
        ("flat:4:device=A100", "device 'A100' is ambiguous"),
        ("fat-tree:60", "60 devices do not fill leaves of 16"),
        ("fat-tree:64:oversubscription=0.5", "must be a number of at least 1"),
        ("fat-tree:4x4:leaf=4", "leave leaf=… out"),
        ("dragonfly:2x2x3:machine=2", "do not fill the 3 devices of a router"),
        ("random-blk-2:4:nodes=4", "no two devices are in one machine"),
        ("torsu:4x4", "is it the topology torus?"),
        ("nosuch:4:seed=1", "neither a file nor one of flat, two-level"),
        ("nowhere.txt", "nowhere.txt: there is no such file"),
        ("nowhere.xml:device=L4", "nowhere.xml: there is no such file"),
    ],
)
def test_what_is_wrong_is_said(spec: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        topology(spec)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
