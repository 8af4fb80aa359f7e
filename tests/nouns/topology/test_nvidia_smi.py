"""Tables of nvidia-smi topo -m from many kinds of machines, whole and damaged."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partita.ground.errors import FormatError
from partita.nouns.catalogue.loader import load_catalogue
from partita.nouns.topology import Topology, topology
from partita.nouns.topology.generators.machines import CUBE_MESH
from partita.nouns.topology.importers.nvidia_smi import NVIDIA_SMI, recognises
from partita.nouns.topology.importers.text import TextFile

FOLDER = Path(__file__).parent / "fixtures" / "nvidia_smi"


def read(name: str, options: str = "") -> Topology:
    return topology(str(FOLDER / f"{name}.txt") + options)


def links_from_first(found: Topology) -> list[float]:
    """GB/s from the first device to all others."""
    return [round(float(rate), 2) for rate in found.bandwidth_bytes_per_s[0, 1:] / 1e9]


@pytest.mark.parametrize(
    ("name", "device", "expected"),
    [
        # 20 GB/s for one NVLink of a V100, 12.6 over its PCIe, at most 10 between sockets.
        ("dgx1_v100", "V100-32GB", [20, 20, 40, 40, 10, 10, 10]),
        ("dgx1_p100_older_driver", None, [20, 20, 20, 20, 10, 10, 10]),
        ("pasted_with_spaces", None, [20, 20, 20, 20, 10, 10, 10]),
        ("dgx2", "V100-32GB", [120] * 15),
        ("dgx_a100", "A100-40GB", [240] * 7),
        ("hgx_h100", "H100-80GB", [360] * 7),
        ("workstation_pcie", "RTX4090", [25.21] * 3),
        # Four NVLinks of 14.06 GB/s in a bridge.
        ("workstation_bridge", None, [45]),
        # Instances of GPUs do not use NVLinks.
        ("a100_mig", None, [25.21] * 3),
        ("k80_older_driver", "V100-16GB", [12.6, 10, 10]),
        ("a100_pcie_bridges", "A100-80GB-PCIE", [240, 25.21, 25.21, 10, 10, 10, 10]),
        ("one_gpu", "L4", []),
    ],
)
def test_machines(name: str, device: str | None, expected: list[float]) -> None:
    found = read(name, "" if device is None else f":device={device}")
    assert links_from_first(found) == expected
    assert found.names == tuple(f"gpu{i}" for i in range(len(expected) + 1))
    assert found.machine_count == 1
    assert (found.bandwidth_bytes_per_s == found.bandwidth_bytes_per_s.T).all()


def test_every_fixture_is_read() -> None:
    assert len(list(FOLDER.glob("*.txt"))) == 12
    assert {path.stem for path in FOLDER.glob("*.txt")} == {
        parameters[0] for mark in test_machines.pytestmark for parameters in mark.args[1]
    }


def test_the_cube_mesh_is_found_again() -> None:
    found = read("dgx1_v100", ":device=V100-32GB")
    links = {(link.source, link.target): link.bandwidth_bytes_per_s / 20e9 for link in found.links}
    pcie = {(gpu, 8): 10 / 20 for gpu in range(8)}
    assert found.switches == ("PCIe",)
    assert links == pytest.approx(CUBE_MESH | pcie)


def test_an_nvswitch_is_one_vertex() -> None:
    found = read("hgx_h100")
    assert found.switches == ("NVSwitch",)
    assert [(link.source, link.target) for link in found.links] == [(i, 8) for i in range(8)]


def test_what_the_file_leaves_out_is_noted_or_stated() -> None:
    unknown = read("dgx1_v100")
    text = " ".join(unknown.notes)
    assert unknown.kinds == ()
    for word in ("one NVLink: 20 GB/s", "PCIe: 25.21 GB/s", "between sockets: 10 GB/s", "4 network cards", "device=…"):
        assert word in text
    stated = read("dgx1_v100", ":device=V100-32GB:nvlink=21.6GB/s:pcie=10.1GB/s:socket=8GB/s")
    assert links_from_first(stated) == [21.6, 21.6, 43.2, 43.2, 8, 8, 8]
    assert stated.notes == ("The machine has 4 network cards; the file does not say how fast they are.",)


def test_instances_of_gpus_are_noted() -> None:
    assert "MIG" in read("a100_mig").notes[0]
    assert set(read("a100_mig").kinds) == {"A100-40GB"}


def test_several_machines() -> None:
    found = read("dgx_a100", ":device=A100-40GB:machines=3")
    assert found.device_count == 24
    assert found.machine_of == tuple(i // 8 for i in range(24))
    assert found.names[8] == "machine1/gpu0"
    ethernet = load_catalogue().link("ethernet-100g").achievable_bytes_per_s
    assert found.bandwidth_bytes_per_s[0, 8] == ethernet
    assert any("between machines" in note for note in found.notes)
    fast = read("dgx_a100", ":device=A100-40GB:machines=2:network=infiniband-hdr")
    assert fast.bandwidth_bytes_per_s[0, 8] == 22.5e9
    assert not any("between machines" in note for note in fast.notes)
    assert np.array_equal(fast.bandwidth_bytes_per_s[8:, 8:], fast.bandwidth_bytes_per_s[:8, :8])


def test_a_file_of_a_windows_shell(tmp_path: Path) -> None:
    path = tmp_path / "topo.txt"
    path.write_bytes((FOLDER / "workstation_bridge.txt").read_text().encode("utf-16"))
    assert links_from_first(topology(str(path))) == [45]


LABELS = st.sampled_from(["NV1", "NV2", "NV4", "PIX", "PXB", "PHB", "NODE", "SYS", "SOC"])


@given(st.integers(1, 6).flatmap(lambda n: st.lists(LABELS, min_size=n * (n - 1) // 2, max_size=n * (n - 1) // 2)))
def test_any_table_is_read_as_it_is_written(labels: list[str]) -> None:
    """With two cards, whose columns stand between the GPUs and the affinities."""
    count = next(n for n in range(1, 7) if n * (n - 1) // 2 == len(labels))
    joins = dict(zip(itertools.combinations(range(count), 2), labels, strict=True))
    names = [*(f"GPU{i}" for i in range(count)), "NIC0", "mlx5_bond_1"]
    rows = ["\t" + "\t".join([*names, "CPU Affinity", "NUMA Affinity"])]
    for i, name in enumerate(names):
        cells = [" X " if i == j else joins.get((min(i, j), max(i, j)), "SYS") for j in range(count + 2)]
        rows.append("\t".join([name, *cells, *(["0-15", "N/A"] if i < count else [])]))
    source = TextFile("topo.txt", "\n".join(rows))
    assert recognises(source)
    found = NVIDIA_SMI.load(source, (("nvlink", "1GB/s"), ("pcie", "16GB/s"), ("socket", "8GB/s")))
    for (i, j), label in joins.items():
        far = 8e9 if label in ("SYS", "SOC") else 16e9
        expected = int(label[2:]) * 1e9 if label.startswith("NV") else far
        assert found.bandwidth_bytes_per_s[i, j] == found.bandwidth_bytes_per_s[j, i] == expected


def line(number: int, change: Callable[[str], str]) -> Callable[[str], str]:
    """Change one line, from 1."""

    def damage(text: str) -> str:
        lines = text.split("\n")
        lines[number - 1] = change(lines[number - 1])
        return "\n".join(lines)

    return damage


def cut(number: int) -> Callable[[str], str]:
    """Keep so many lines."""
    return lambda text: "\n".join(text.split("\n")[:number]) + "\n"


DAMAGED = [
    ("no columns", line(1, lambda _: ""), "line 2: a row comes before the line with the names of the columns"),
    ("cut in a table", cut(4), "there is no row for GPU3; the table is cut off"),
    ("only the columns", cut(1), "there is no row for GPU0"),
    ("cut in a row", line(3, lambda text: text[:12]), "line 3: row GPU1 has 2 cells; there are 12 columns"),
    ("an unknown label", line(2, lambda text: text.replace("NV2", "NVL", 1)), "line 2: GPU0 to GPU3 is 'NVL'"),
    ("no links", line(2, lambda text: text.replace("NV2", "NV0", 1)), "line 2: GPU0 to GPU3 is 'NV0'"),
    ("a failed query", line(4, lambda text: text.replace("SYS", "ERR!", 1)), "line 4: GPU2 to GPU4 is 'ERR!'"),
    ("two to themselves", line(2, lambda text: text.replace("NV1", " X ", 1)), "line 2: GPU0 to GPU1 is 'X'"),
    ("none to itself", line(3, lambda text: text.replace(" X ", "NV1", 1)), "line 3: GPU1 to GPU1 is 'NV1'"),
    ("one-sided", line(5, lambda text: text.replace("NV2", "NV1", 1)), "line 5: GPU3 to GPU0 is NV1, but GPU0 to GPU3"),
    (
        "a row twice",
        line(4, lambda text: text.replace("GPU2", "GPU1")),
        "line 4: row GPU1 is there twice, first in line 3",
    ),
    ("a strange row", line(4, lambda text: text.replace("GPU2", "GPU9")), "line 4: row GPU9 has no column"),
    ("a column twice", line(1, lambda text: text.replace("GPU2", "GPU1")), "line 1: column GPU1 is there twice"),
]


@pytest.mark.parametrize(("damage", "message"), [entry[1:] for entry in DAMAGED], ids=[entry[0] for entry in DAMAGED])
def test_damaged_tables(damage: Callable[[str], str], message: str, tmp_path: Path) -> None:
    path = tmp_path / "topo.txt"
    path.write_text(damage((FOLDER / "dgx1_v100.txt").read_text()))
    with pytest.raises(FormatError) as caught:
        topology(str(path))
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
