"""partita topologies, and clusters of all forms in other commands."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from partita.nouns.topology.generators import GENERATORS
from partita.nouns.topology.importers import IMPORTERS
from running.command_line import Run

Call = Callable[..., Run]

FIXTURES = Path(__file__).parent.parent / "nouns" / "topology" / "fixtures"

MODEL = """
import torch

def model():
    net = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(6)])
    return net, (torch.zeros(8, 64),)
"""


def test_the_list_has_every_family_and_format(partita: Call) -> None:
    run = partita("topologies", "--json")
    assert [row["name"] for row in run.document["topologies"]] == [entry.name for entry in (*GENERATORS, *IMPORTERS)]
    plain = partita("topologies")
    assert len(plain.out.splitlines()) == len(GENERATORS) + len(IMPORTERS)


@pytest.mark.parametrize("name", ["fat-tree", "nvidia-smi", "uniform_dist"])
def test_a_name_alone_is_described(name: str, partita: Call) -> None:
    run = partita("topologies", name)
    assert run.code == 0
    assert "device" in run.out
    assert "For example:" in run.out
    assert partita("topologies", name, "--json").document["options"][-1]["name"] == "device"


def test_a_topology_is_shown(partita: Call) -> None:
    run = partita("topologies", "dgx1:1")
    assert "8 devices in 1 machine (8 × V100-32GB)" in run.out
    assert "43.2" in run.out
    assert "Notes" in run.out
    large = partita("topologies", "uniform:20")
    assert "20 devices in 1 machine (20 × not stated)" in large.out
    assert "GB/s" in large.out


def test_a_topology_as_json(partita: Call) -> None:
    found = partita("topologies", "two-level:2x2", "--json").document
    matrix = found["bandwidth_bytes_per_s"]
    assert matrix[0] == pytest.approx([0, 11e9, 1.1e9, 1.1e9])
    assert [entry["machine"] for entry in found["devices"]] == [0, 0, 1, 1]
    assert len(found["links"]) == 6


@pytest.mark.parametrize("spec", ["dgx1:2", "torus:3x3x3", "mesh:7", "uniform:12", "fat-tree:4x4", "flat:1"])
def test_a_topology_is_drawn(spec: str, partita: Call, tmp_path: Path) -> None:
    picture = tmp_path / "out.png"
    assert partita("topologies", spec, "--plot", picture).code == 0
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nosuch:4x4"], "no device"),
        (["mesh"], ""),
        (["mesh:4x4", "--plot", "out.nosuch"], "the plot cannot be written"),
        (["mesh:4x4", "--plot", "nowhere/out.png"], "does not exist"),
        (["mesh", "--plot", "out.png"], "mesh has no size; write for example: partita topologies dgx1:4"),
        (["--plot", "out.png"], "there is no topology to draw"),
        (["missing.csv"], "missing.csv: there is no such file"),
    ],
)
def test_what_is_wrong_is_said(
    arguments: list[str], message: str, partita: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = partita("topologies", *arguments)
    assert run.code == (2 if message else 0)
    assert message in run.err


@pytest.mark.parametrize(
    ("cluster", "link", "note"),
    [
        ("dgx1:1", 10.1, "measured ones"),
        ("mesh:2x2:device=L4", 39.0, "Bandwidth by hops"),
        (f"{FIXTURES}/nvidia_smi/workstation_bridge.txt", 45.0, "one NVLink"),
        (f"{FIXTURES}/nccl/azure_nd_a100_v4.xml:device=A100-40GB", 240.0, "no NVLinks"),
    ],
)
def test_a_model_is_planned_on_any_cluster(cluster: str, link: float, note: str, partita: Call, tmp_path: Path) -> None:
    """Transfers at the slowest way, with what the source left open in the notes."""
    model = tmp_path / "model.py"
    model.write_text(MODEL)
    run = partita("plan", f"{model}:model", "--cluster", cluster, "--time-limit", 20, "--json")
    assert run.code == 0, run.err
    text = " ".join(run.document["notes"])
    assert f"{link:.4g} GB/s over bandwidth matrix" in text
    assert note in text
    assert run.document["objective"] > 0


def test_a_cluster_without_devices_is_refused_before_tracing(partita: Call, tmp_path: Path) -> None:
    run = partita("plan", tmp_path / "no.py:model", "--cluster", "mesh:2x2")
    assert run.code == 2
    assert "mesh:2x2 does not say what its devices are" in run.err
