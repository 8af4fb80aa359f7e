"""Files of other tools: NCCL, hwloc, Slurm, ASTRA-sim and measured matrices, whole and damaged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partita.ground.errors import FormatError, InputError
from partita.nouns.topology import Topology, topology
from partita.nouns.topology.importers.slurm import expand

FIXTURES = Path(__file__).parent / "fixtures"

Write = Callable[[str, str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a file of a name and text."""

    def write(name: str, text: str) -> Path:
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


def gigabytes(found: Topology) -> list[list[float]]:
    """The matrix in GB/s, infinite on its diagonal."""
    return np.round(found.bandwidth_bytes_per_s / 1e9, 2).tolist()


class TestNccl:
    """Dumps of NCCL, and files that cloud images give to it."""

    def test_a_machine_with_nvswitches(self) -> None:
        """Eighteen NVLinks of 20 GB/s over four switches; cards of 400 Gbit/s, one for each GPU."""
        found = topology(f"{FIXTURES}/nccl/dgx_h100.xml:machines=2:device=H100-80GB")
        assert found.bandwidth_bytes_per_s[0, 7] == pytest.approx(18 * 20e9)
        # The slow card for management is not counted.
        assert found.bandwidth_bytes_per_s[0, 8] == pytest.approx(50e9 * 0.9)
        assert found.device_count == 16
        assert not any("NVLink" in note or "between machines" in note for note in found.notes)

    @pytest.mark.parametrize(("name", "cards"), [("azure_nd_a100_v4", 8), ("azure_nd_h100_v5", 8)])
    def test_a_file_for_nccl_to_fill_in(self, name: str, cards: int) -> None:
        """Only PCIe: without the device there are no NVLinks, with it those of the catalogue."""
        bare = topology(f"{FIXTURES}/nccl/{name}.xml")
        assert bare.device_count == 8
        assert bare.bandwidth_bytes_per_s[0, 7] <= 16e9
        assert any("no NVLinks" in note for note in bare.notes)
        assert any(f"{cards} network cards" in note for note in bare.notes)
        device = "A100-40GB" if "a100" in name else "H100-80GB"
        known = topology(f"{FIXTURES}/nccl/{name}.xml:device={device}")
        assert known.bandwidth_bytes_per_s[0, 7] == (240e9 if "a100" in name else 360e9)
        assert any("no NVLinks" in note for note in known.notes)

    def test_gpus_share_cards(self, write: Write) -> None:
        """Six of eight cards have no cable: each GPU gets a quarter of one."""
        text = (FIXTURES / "nccl" / "dgx_h100.xml").read_text()
        for card in range(2, 8):
            text = text.replace(f'dev="{card}" speed="400000"', f'dev="{card}" speed="0"')
        found = topology(f"{write('x.xml', text)}:machines=2")
        assert found.bandwidth_bytes_per_s[0, 8] == pytest.approx(50e9 * 0.9 / 4)

    def test_pcie_and_sockets(self) -> None:
        """Gen 4 × 16 at one bridge, AMD's sockets at 16 GB/s."""
        matrix = gigabytes(topology(f"{FIXTURES}/nccl/azure_nd_a100_v4.xml"))
        assert matrix[0] == [np.inf, 25.21, 16, 16, 16, 16, 16, 16]

    def test_direct_nvlinks_and_the_order_of_numbers(self, write: Write) -> None:
        """GPUs are numbered by dev, whatever their order in the file; unused ones are left out."""
        gpus = "".join(
            f'<pci busid="{bus}" class="0x030200" link_speed="8.0 GT/s PCIe" link_width="{width}">{inner}</pci>'
            for bus, width, inner in [
                ("b", 16, '<gpu dev="1" sm="70"><nvlink target="A" count="2" tclass="0x030200"/></gpu>'),
                ("a", 0, '<gpu dev="0" sm="70"><nvlink target="B" count="2" tclass="0x030200"/></gpu>'),
                ("c", 16, '<gpu dev="2" sm="70"/>'),
                ("d", 16, ""),
            ]
        )
        path = write("x.xml", f'<system version="1"><cpu numaid="0">{gpus}</cpu></system>')
        found = topology(path)
        assert gigabytes(found) == [[np.inf, 40, 12.6], [40, np.inf, 12.6], [12.6, 12.6, np.inf]]
        # A virtual machine writes no lanes.
        assert any("bandwidth of PCIe" in note for note in found.notes)


class TestHwloc:
    """What lstopo writes."""

    def test_two_sockets(self) -> None:
        """PCIe 3 behind one bridge, 10 GB/s between Intel's sockets, and NVLinks where the matrix has them."""
        found = topology(f"{FIXTURES}/hwloc/two_sockets.xml")
        assert gigabytes(found) == [
            [np.inf, 40, 10, 10],
            [40, np.inf, 20, 10],
            [10, 20, np.inf, 40],
            [10, 10, 40, np.inf],
        ]
        # The display of the board is no accelerator; what the GPUs are is in the file.
        assert found.kinds == ("V100-32GB",) * 4

    def test_links_of_another_vendor(self, write: Write) -> None:
        """AMD's are called otherwise, and a file without any says so."""
        text = (FIXTURES / "hwloc" / "two_sockets.xml").read_text().replace("10de:1db5", "1002:74a1")
        found = topology(write("x.xml", text.replace("NVLinkBandwidth", "XGMIBandwidth")))
        assert gigabytes(found)[0] == [np.inf, 40, 10, 10]
        bare = topology(write("x.xml", text.replace("NVLinkBandwidth", "NUMALatency")))
        assert gigabytes(bare)[0] == [np.inf, 12.6, 10, 10]
        assert any("no links between GPUs" in note for note in bare.notes)

    def test_ports_of_nvswitches_are_one_switch(self, write: Write) -> None:
        """Two GPUs with two ports at each of two switches, 25 GB/s a port."""
        gpus = "".join(
            f'<object type="PCIDev" gp_index="{i}" pci_type="0302 [10de:20b0]" pci_link_speed="0"/>' for i in (3, 4)
        )
        ports = "".join(
            f'<object type="PCIDev" gp_index="{i}" subtype="NVSwitch" pci_type="0680 [10de:1af1]"/>' for i in (5, 6)
        )
        values = "0 0 25000 25000  0 0 25000 25000  25000 25000 0 0  25000 25000 0 0"
        path = write(
            "x.xml",
            f'<topology><object type="Machine" gp_index="1"><object type="Bridge" gp_index="2" bridge_type="0-1">{gpus}'
            f'{ports}</object></object><distances2hetero nbobjs="4" name="NVLinkBandwidth"><indexes>PCIDev:3 PCIDev:4 '
            f"PCIDev:5 PCIDev:6</indexes><u64values>{values}</u64values></distances2hetero></topology>",
        )
        found = topology(path)
        assert gigabytes(found)[0][1] == 40
        assert found.switches[-1] == "NVSwitch"

    def test_entities_are_refused(self, write: Write) -> None:
        """Neither files nor expansions."""
        text = (
            '<!DOCTYPE topology [<!ENTITY x SYSTEM "file:///etc/passwd">]>\n<topology><object type="&x;"/></topology>'
        )
        with pytest.raises(FormatError, match=r"line 1: it defines the entity 'x'"):
            topology(write("x.xml", text))


CONF = """# two leaves
SwitchName=leaf1 Nodes=n[01-02] LinkSpeed=100
switchname=leaf2 \\
    nodes=n[03-04]
SwitchName=top Switches=leaf[1-2]
"""
YAML = """---
- topology: small
  cluster_default: false
  flat: true
- topology: main
  cluster_default: true
  tree:
    switches:
      - switch: top
        children: leaf[1-2]
      - switch: leaf1
        nodes: n[01-02]
      - switch: leaf2
        nodes: n[03-04]
- topology: racks
  block:
    block_sizes:
      - 2
    blocks:
      - block: b1
        nodes: n[01-02]
      - block: b2
        nodes: n[03-04]
"""


class TestSlurm:
    """Both files of Slurm, which have neither bandwidths nor devices."""

    @pytest.mark.parametrize(("name", "text"), [("topology.conf", CONF), ("topology.yaml", YAML)])
    def test_a_tree(self, name: str, text: str, write: Write) -> None:
        """Two leaves of two nodes; the upper level is half as wide."""
        path = write(name, text)
        found = topology(f"{path}:devices=2:inside=200GB/s:link=20GB/s:oversubscription=2")
        matrix = gigabytes(found)
        assert matrix[0] == [np.inf, 200, 20, 20, 10, 10, 10, 10]
        assert found.names[2] == "n02/gpu0"
        assert found.machine_count == 4
        assert len(found.notes) == 1
        bare = topology(path)
        assert bare.names == ("n01", "n02", "n03", "n04")
        assert sum("Slurm's file" in note for note in bare.notes) == 3

    def test_blocks(self, write: Write) -> None:
        """Blocks are joined by one switch; several topologies are chosen by name."""
        conf = write("topology.conf", "BlockName=b1 Nodes=n[01-02]\nBlockName=b2 Nodes=n[03-04]\nBlockSizes=2,4\n")
        yaml = write("topology.yaml", YAML)
        for text in (f"{conf}:link=20GB/s:oversubscription=2", f"{yaml}:topology=racks:link=20GB/s:oversubscription=2"):
            assert gigabytes(topology(text))[0] == [np.inf, 20, 10, 10]

    def test_nodes_at_all_levels_come_in_the_order_of_the_tree(self, write: Write) -> None:
        """A node at the upper switch is farther from all others than two at one leaf."""
        path = write("topology.conf", "SwitchName=top Switches=leaf Nodes=login\nSwitchName=leaf Nodes=a,b\n")
        found = topology(f"{path}:link=8GB/s:oversubscription=4")
        assert found.names == ("a", "b", "login")
        assert gigabytes(found) == [[np.inf, 8, 2], [8, np.inf, 2], [2, 2, np.inf]]


@given(st.lists(st.tuples(st.sampled_from(["n", "gpu-", "r1c"]), st.integers(0, 120), st.integers(0, 30)), max_size=4))
def test_host_lists(parts: list[tuple[str, int, int]]) -> None:
    """Ranges are padded as they are written, and joined by commas."""
    if not parts:
        return
    text = ",".join(f"{name}[{first:03d}-{first + more:03d}]" for name, first, more in parts)
    expected = [f"{name}{i:03d}" for name, first, more in parts for i in range(first, first + more + 1)]
    assert expand(text) == expected


def test_host_lists_with_several_brackets() -> None:
    assert expand("r[1-2]n[0,2]x,tux") == ["r1n0x", "r1n2x", "r2n0x", "r2n2x", "tux"]


ASTRA = """topology: [ Ring, FullyConnected, Switch ]
npus_count: [ 4, 2, 2 ]  # sixteen
bandwidth: [ 200.0, 100.0, 50.0 ]
latency: [ 50.0, 500.0, 2000.0 ]
"""


class TestAstraSim:
    """The network of an analytical backend."""

    def test_dimensions(self, write: Write) -> None:
        """The first is the fastest and nearest; the narrowest on the way counts, and latencies of all add up."""
        found = topology(write("network.yml", ASTRA))
        rates = found.bandwidth_bytes_per_s / 2.0**30
        assert [rates[0, i] for i in (1, 2, 3, 4, 5, 8, 15)] == [200, 200, 200, 100, 100, 50, 50]
        assert found.machine_of == tuple(i // 4 for i in range(16))
        assert found.latency_s is not None
        # One or two hops in the ring, one when all are joined, two over a switch.
        expected = {1: 50, 2: 100, 3: 50, 4: 500, 6: 600, 8: 4000, 15: 4550}
        assert {i: round(found.latency_s[0, i] * 1e9) for i in expected} == expected
        assert len(found.switches) == 8
        assert len(found.links) == 4 * 4 + 8 + 16

    def test_dimensions_of_a_machine(self, write: Write) -> None:
        """As stated."""
        assert topology(f"{write('network.yml', ASTRA)}:inside=2").machine_count == 2


class TestMatrix:
    """A measured matrix."""

    @pytest.mark.parametrize(
        "text",
        [
            "inf,4,3\n4,inf,2\n3,2,inf\n",
            "# unit: B/s\n0;4;3\n4;0;2\n3;2;0\n",
            ",a,b,c\na,-,4,3\nb,4,-,2\nc,3,2,-\n",
            "B/s\ta\tb\tc\na\tx\t4\t3\nb\t4\tx\t2\nc\t3\t2\tx\n",
            "a,b,c\n,4,3\n4,,2\n3,2,\n",
            ",0,1,2\n0,nan,4,3\n1,4,nan,2\n2,3,2,nan\n",
        ],
    )
    def test_forms(self, text: str, write: Write) -> None:
        """With and without names, unit and diagonal."""
        found = topology(write("m.csv", text))
        assert found.bandwidth_bytes_per_s.tolist() == [[np.inf, 4, 3], [4, np.inf, 2], [3, 2, np.inf]]
        assert any("no unit" in note for note in found.notes) == ("B/s" not in text)

    def test_units(self, write: Write) -> None:
        """In the first cell, in a comment, or stated."""
        for text, option in [
            ("GB/s,a,b\na,-,2\nb,3,-\n", ""),
            ("# GB/s\n0,2\n3,0\n", ""),
            ("0,2\n3,0\n", ":unit=GB/s"),
        ]:
            found = topology(f"{write('m.csv', text)}{option}")
            # The row sends.
            assert (found.bandwidth_bytes_per_s[0, 1], found.bandwidth_bytes_per_s[1, 0]) == (2e9, 3e9)

    def test_machines(self, write: Write) -> None:
        """By name, or in blocks."""
        assert topology(write("m.csv", "x,a/0,a/1,b/0\na/0,-,4,3\na/1,4,-,2\nb/0,3,2,-\n")).machine_of == (0, 0, 1)
        alike = write("m.csv", "1,1,1,1\n" * 4)
        assert topology(f"{alike}:machine=2").machine_of == (0, 0, 1, 1)

    def test_what_is_written_is_read(self, write: Write) -> None:
        """A generated matrix comes back."""
        matrix = topology("uniform:12:seed=5").bandwidth_bytes_per_s
        path = write("m.csv", "\n".join(",".join(map(repr, row)) for row in matrix.tolist()))
        assert (topology(path).bandwidth_bytes_per_s == matrix).all()


H100 = (FIXTURES / "nccl" / "dgx_h100.xml").read_text()
NODES = (FIXTURES / "hwloc" / "two_sockets.xml").read_text()

DAMAGED: list[tuple[str, str, str]] = [
    # NCCL.
    ("a.xml", H100[:900], "not valid XML"),
    ("a.xml", H100.replace('sm="90" rank="0"', 'sm="x" rank="0"'), "line 5: sm of <gpu> is 'x'"),
    ("a.xml", H100.replace('dev="0" sm', "sm"), "line 5: <gpu> has no dev"),
    ("a.xml", H100.replace('count="5"', 'count="0"', 1), "line 6: count of <nvlink> is '0'"),
    ("a.xml", H100.replace(' target="0000:05:00.0"', "", 1), "line 6: <nvlink> has no target"),
    ("a.xml", H100.replace("32.0 GT/s", "31 GT/s", 1), "line 3: link_speed '31 GT/s PCIe' is of no PCIe generation"),
    ("a.xml", H100.replace("32.0 GT/s PCIe", "fast", 1), "line 3: link_speed 'fast' is not a number"),
    ("a.xml", H100.replace("0000:21:", "0000:20:"), "GPU 0000:20:00.0 is there twice, first in line 4"),
    ("a.xml", H100.replace(' busid="0000:10:00.0"', ""), "line 3: <pci> has no busid"),
    ("a.xml", H100.replace(' class="0x060400"', "", 1), "line 3: <pci> 0000:10:00.0 has no class"),
    ("a.xml", H100.replace('speed="400000"', 'speed="4e5"', 1), "line 14: speed of <net> is '4e5'"),
    ("a.xml", H100.replace('host_hash="0x1f" numaid="1"', 'host_hash="0x2f" numaid="1"'), "it describes 2 hosts"),
    ("a.xml", H100.replace('numaid="1"', 'numaid="0"'), "numaid 0 is there twice"),
    ("a.xml", '<system version="1">\n</system>', "line 1: <system> has no <cpu>"),
    ("a.xml", '<system><cpu numaid="0"/></system>', "line 1: there is no GPU"),
    (
        "a.xml",
        '<system><cpu><pci busid="a" class="0x0302"><gpu dev="0" sm="70">\n<nvlink target="b" count="1"/></gpu></pci>'
        '<pci busid="b" class="0x0302"><gpu dev="1" sm="70"/></pci></cpu></system>',
        "line 2: a has 1 NVLinks to b, which has none to it",
    ),
    (
        "a.xml",
        '<system><cpu><pci busid="a" class="0x0302"><gpu dev="0" sm="70">\n<nvlink target="b" count="1"/></gpu></pci>'
        '<pci busid="b" class="0x0302"><gpu dev="1" sm="70"><nvlink target="a" count="2"/></gpu></pci></cpu></system>',
        "line 2: a has 1 NVLinks to b, which has 2 to it",
    ),
    # hwloc.
    ("a.xml", NODES.replace("10de:1db5", "1a03:2000"), "there is no GPU among its PCI devices"),
    (
        "a.xml",
        NODES.replace('pci_link_speed="15.753846"', 'pci_link_speed="fast"', 1),
        "line 11: pci_link_speed is 'fast'",
    ),
    ("a.xml", NODES.replace('nbobjs="4"', 'nbobjs="5"'), "NVLinkBandwidth has 4 indexes and 16 values for 5 objects"),
    ("a.xml", NODES.replace("25000", "many"), "NVLinkBandwidth has the value 'many'"),
    ("a.xml", NODES.replace(' type="Package"', ""), "line 6: <object> has no type"),
    ("a.xml", "<topology>" + "<object>" * 300 + "</object>" * 300 + "</topology>", "nested deeper than 200"),
    # Slurm.
    ("t.conf", CONF.replace("n[03-04]", "n[02-04]"), "line 3: node n02 is at leaf1 and at leaf2"),
    ("t.conf", CONF.replace("leaf[1-2]", "leaf[1-3]"), "line 5: top has the switch leaf3, which is nowhere described"),
    (
        "t.conf",
        CONF.replace("SwitchName=top Switches=leaf[1-2]", ""),
        "line 3: no switch is above both leaf1 and leaf2",
    ),
    ("t.conf", CONF.replace("leaf2", "leaf1"), "line 3: leaf1 is there twice"),
    ("t.conf", CONF + "SwitchName=other Switches=leaf1\n", "line 6: leaf1 is below top and below other"),
    ("t.conf", CONF + "SwitchName=a Switches=b\nSwitchName=b Switches=a\n", "line 6: a is above itself"),
    ("t.conf", CONF.replace("n[01-02]", "n[02-01]"), "line 2: range '02-01' in 'n[02-01]' runs backwards"),
    ("t.conf", CONF.replace("n[01-02]", "n[01-02"), "line 2: 'n[01-02' has brackets that do not match"),
    ("t.conf", CONF.replace("n[01-02]", "n[1-x]"), "line 2: '1-x' in 'n[1-x]' is no number or range"),
    ("t.conf", CONF.replace("LinkSpeed", "Speed"), "line 2: there is no key 'Speed'"),
    ("t.conf", CONF.replace("Nodes=n[01-02] ", ""), "line 2: switch leaf1 has neither Nodes nor Switches"),
    ("t.conf", CONF + "Nodes=x\n", "line 6: a line needs SwitchName or BlockName"),
    ("t.conf", CONF + "BlockName=b Nodes=x\n", "line 6: it has switches and blocks"),
    ("t.conf", CONF.replace("n[01-02]", "n[1-60000]r[1-9]"), "more than 65536 names"),
    ("t.yaml", YAML.replace("children: leaf[1-2]", "children: [leaf1"), "not valid YAML"),
    ("t.yaml", YAML.replace("children: leaf[1-2]", "switch: again"), "line 10: key 'switch' is there twice"),
    ("t.yaml", YAML.replace("nodes: n[03-04]", "hosts: n[03-04]", 1), "line 14: a switch has no 'hosts'"),
    ("t.yaml", YAML.replace("- switch: leaf2", "- name: leaf2"), "line 13: a switch has no 'name'"),
    ("t.yaml", YAML.replace("cluster_default: true", "cluster_default: false"), "several topologies and no default"),
    ("t.yaml", "- topology: a\n  flat: true\n", "line 2: a flat topology lists no nodes"),
    ("t.yaml", "- topology: a\n  tree:\n    switches: []\n", "line 3: switches must be a list with at least one entry"),
    ("t.yaml", "- topology: a\n  torus3d: {}\n", "line 1: the topology is torus3d; tree and block are read"),
    # ASTRA-sim.
    ("n.yml", ASTRA.replace("Ring", "Rong"), "line 1: there is no building block 'Rong'"),
    ("n.yml", ASTRA.replace("4, 2, 2", "4, 2"), "line 2: npus_count has 2 entries, topology 3"),
    ("n.yml", ASTRA.replace("4, 2, 2", "4, 0, 2"), "line 2: npus_count has 0"),
    ("n.yml", ASTRA.replace("100.0", "-1"), "line 3: bandwidth has -1"),
    ("n.yml", ASTRA.replace("500.0", "soon"), "line 4: latency has 'soon'"),
    ("n.yml", ASTRA.replace("latency", "delay"), "there is no 'latency'"),
    ("n.yml", ASTRA.replace("4, 2, 2", "4000, 2, 2"), "16000 devices; a topology of this kind has at most 2048"),
    # Matrices.
    ("m.csv", "0,1\n1,0,1\n", "line 2: row 2 has 3 numbers; there are 2 rows"),
    ("m.csv", "x,a,b\na,-,1\nb,0,-\n", "line 3: the bandwidth from b to a is '0'"),
    ("m.csv", "0,1\nfast,0\n", "line 2: the bandwidth from device 1 to 0 is 'fast'"),
    ("m.csv", "x,a,b\na,-,1\nc,1,-\n", "line 3: the row is of 'c', but the column in its place of 'b'"),
    ("m.csv", "x,a/1,b/1,a/2\na/1,-,1,1\nb/1,1,-,1\na/2,1,1,-\n", "the devices of a are not beside each other"),
    ("m.csv", "a,b\n", "line 1: it has names but no numbers"),
    ("m.csv", "", "it has no rows"),
    ("m.csv", '0,"1\n1,0\n', "line 1: it is not valid CSV"),
    # Nothing that is known.
    ("x.txt", "hello\n", "is neither of a known format (nvidia-smi, nccl, hwloc"),
]


@pytest.mark.parametrize(("name", "text", "message"), DAMAGED, ids=[entry[2][:40] for entry in DAMAGED])
def test_damaged_files(name: str, text: str, message: str, write: Write) -> None:
    path = write(name, text)
    with pytest.raises(InputError) as caught:
        topology(str(path))
    assert str(caught.value).startswith(str(path))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
