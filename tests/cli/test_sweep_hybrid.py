"""Sweeping and comparing hybrid plans from the command line."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import partita as pt
from partita.ground.errors import InputError
from partita.nouns.cluster import Cluster
from partita.nouns.cluster_sizes import with_devices
from partita.problems.hybrid.layer import Configuration, Edge, Layer
from partita.problems.hybrid.problem import HybridProblem


@pytest.fixture
def row(tmp_path: Path) -> Path:
    """Six layers in a row, each 4 long, which recomputation or two devices make smaller."""
    ways = {
        1: (
            Configuration(id="plain", time=4.0, weight_bytes=1.0, memory_per_microbatch_bytes=4.0),
            Configuration(id="full", time=5.0, weight_bytes=1.0, memory_per_microbatch_bytes=1.0),
        ),
        2: (Configuration(id="plain", time=2.5, weight_bytes=0.5, memory_per_microbatch_bytes=2.0),),
    }
    problem = HybridProblem(
        name="row",
        unit="ms",
        devices=4,
        microbatches=8,
        memory_bytes=30.0,
        bandwidth_bytes_per_unit=4.0,
        layers=tuple(Layer(id=i, name=f"block.{i}", configurations=ways) for i in range(6)),
        edges=tuple(Edge(source=i, target=i + 1, bytes=1.0) for i in range(5)),
    )
    path = tmp_path / "row.json"
    pt.write_problem(path, problem)
    return path


def test_rows_of_a_file(partita: Callable[..., Any], row: Path, tmp_path: Path) -> None:
    table, output = tmp_path / "rows.csv", tmp_path / "rows.json"
    options = ("--devices", "1,2,4", "--memory", "8,inf", "--csv", table, "--output", output, "--json")
    run = partita("sweep", row, *options)
    assert run.code == 0, run.err
    rows = run.document["rows"]
    assert [(entry["devices"], entry["memory_bytes"]) for entry in rows] == [
        (devices, memory) for devices in (1, 2, 4) for memory in (8.0, None)
    ]
    # One device without a limit: 24. Two: (24 + 4·1/2·6/4)/2 as replicas, but 12 + 2·1/4 as stages.
    times = {(entry["devices"], entry["memory_bytes"]): entry["objective"] for entry in rows}
    assert times[1, None] == 24.0
    assert times[2, None] == pytest.approx(12.5)
    # Six layers that recompute fit into 8 bytes with room for no plain one.
    assert times[1, 8.0] == 30.0
    base = {memory: times[1, memory] for memory in (8.0, None)}
    for entry in rows:
        fits = entry["objective"] is not None
        assert entry["status"] == ("optimal" if fits else "infeasible")
        if fits:
            assert entry["efficiency"] == pytest.approx(
                base[entry["memory_bytes"]] / (entry["objective"] * entry["devices"])
            )
            assert entry["baseline_objective"] >= entry["objective"] * (1 - 1e-6)
            assert entry["step_per_sample"] >= entry["objective"] * (1 - 1e-9)
            assert sum(s["data_parallel"] * s["tensor_parallel"] for s in entry["stages"]) == entry["used_devices"]
    assert json.loads(output.read_text()) == run.document
    with table.open() as handle:
        read = list(csv.DictReader(handle))
    assert [float(entry["objective"] or "nan") for entry in read] == pytest.approx(
        [entry["objective"] or float("nan") for entry in rows], nan_ok=True
    )
    assert read[0]["degrees"] == rows[0]["degrees"]


def test_bandwidth_is_scaled(partita: Callable[..., Any], row: Path) -> None:
    options = ("--devices", "2", "--memory", "inf", "--bandwidth", "0.5,1", "--json")
    rows = partita("sweep", row, *options).document["rows"]
    assert [entry["objective"] for entry in rows] == pytest.approx([13.0, 12.5])


def test_a_plot(partita: Callable[..., Any], row: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "plot.png"
    run = partita("sweep", row, "--devices", "1,2,4", "--plot", path)
    assert run.code == 0, run.err
    assert path.read_bytes().startswith(b"\x89PNG")
    assert "efficiency" in run.out


def test_recipes_beside_the_plan_of_a_file(partita: Callable[..., Any], row: Path, tmp_path: Path) -> None:
    result = tmp_path / "r.json"
    assert partita("solve", row, "--devices", "2", "--output", result).code == 0
    run = partita("compare", row, "--expert", result, "--json")
    assert run.code == 0, run.err
    document = run.document
    assert document["status"] == "optimal"
    rows = {entry["name"]: entry for entry in document["baselines"]}
    assert rows["expert r"]["feasible"]
    assert rows["expert r"]["objective"] > document["objective"]
    assert rows["expert r"]["why"].startswith("devices without work")
    # Rows as good as the plan spend more on nothing, which is null, not what they do.
    assert all(row["why"] != row["summary"] for row in rows.values())
    for entry in rows.values():
        assert entry["feasible"] or entry["reason"]
        if entry["feasible"]:
            assert entry["objective"] >= document["objective"] * (1 - 1e-6)
            assert sum(entry["device_time"].values()) == pytest.approx(4 * entry["objective"], rel=1e-9)
    shown = partita("compare", row)
    assert "pure pipeline" in shown.out
    assert "optimal" in shown.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("sweep", "--minimise", "steady"), "--minimise means nothing for .*row.json, which states a hybrid"),
        (("sweep", "--contiguity", "free"), "--contiguity means nothing for .*row.json, which states a hybrid"),
        (("sweep", "--objective", "hybrid"), "leave --objective out"),
        (("sweep", "--solver", "free"), "no solver 'free' for hybrid problems"),
        (("compare", "--max-replicas", "2"), "--max-replicas means nothing for .*row.json, which states a hybrid"),
    ],
)
def test_options_that_mean_nothing(
    partita: Callable[..., Any], row: Path, arguments: tuple[str, ...], message: str
) -> None:
    command, *options = arguments
    run = partita(command, row, *options)
    assert run.code == 2
    assert re.search(message, run.err)
    assert "Traceback" not in run.err


def test_clusters_grow_in_machines() -> None:
    machine = Cluster.from_spec("8xA100-80GB")
    assert [len(with_devices(machine, count).machines) for count in (4, 8, 16, 64)] == [1, 1, 2, 8]
    assert [with_devices(machine, count).device_count for count in (4, 8, 16, 64)] == [4, 8, 16, 64]
    assert with_devices(Cluster.from_spec("2x(8xA100-80GB)"), 32).machines[0].devices == (("A100-80GB", 8),)
    assert with_devices(Cluster.from_spec("A100-80GB"), 12).machines[0].devices == (("A100-80GB", 12),)
    with pytest.raises(InputError, match="8 or 16"):
        with_devices(machine, 12)
    with pytest.raises(InputError, match="alike"):
        with_devices(Cluster.from_spec("8xA100-80GB+4xA100-80GB"), 24)


def test_rows_of_a_model(partita: Callable[..., Any], tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    fields = {"n_layer": "8", "n_embd": "256", "n_head": "8", "vocab_size": "2000"}
    path = tmp_path / "g.json"
    pt.write_graph(path, pt.load_model("hf:gpt2", sequence_length=128, set_fields=fields, training=True))
    run = partita("sweep", path, "--cluster", "4xL4", "--devices", "2,4,8", "--microbatches", "32", "--json")
    assert run.code == 0, run.err
    rows = run.document["rows"]
    assert [entry["devices"] for entry in rows] == [2, 4, 8]
    assert rows[0]["efficiency"] == 1.0
    for entry in rows:
        assert entry["status"] == "optimal"
        assert entry["microbatches"] == 32
        assert 0 < entry["model_flops_utilisation"] < 1
        assert entry["degrees"]
    assert rows[2]["objective"] < rows[1]["objective"] < rows[0]["objective"]
    run = partita("sweep", path, "--cluster", "4xL4", "--devices", "2,6", "--json")
    assert run.code == 2
    assert "4 or 8" in run.err
    old = partita("sweep", path, "--cluster", "L4", "--devices", "2", "--objective", "throughput", "--json")
    assert old.document["rows"][0]["depth"] >= 1
