"""Models, clusters, settings and sweeps as Python takes them, and the messages of the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import partita as pt
from api.answers import placed, row
from cli.conftest import workload
from instances.profiles import make_profile
from running.command_line import Run


@pytest.fixture
def graph_file(tmp_path: Path) -> Path:
    path = tmp_path / "row.json"
    pt.write_graph(path, row())
    return path


@pytest.fixture
def chain(tmp_path: Path) -> Path:
    path = tmp_path / "chain.json"
    path.write_text(json.dumps(workload()))
    return path


def test_a_graph_as_a_value_or_a_file(graph_file: Path) -> None:
    asked: dict[str, Any] = {"time_limit_s": 5, "baselines": False}
    for model in (row(), graph_file, str(graph_file)):
        for cluster in ("2xL4", pt.read_cluster("2xL4"), pt.Cluster.from_spec("2xL4")):
            answer = pt.plan(model, cluster, **asked)
            assert answer.objective == pt.plan(row(), "2xL4", **asked).objective


def test_a_module_with_inputs() -> None:
    torch = pytest.importorskip("torch")
    module = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Linear(16, 8))
    by_place = pt.plan(module, "2xL4", inputs=(torch.zeros(2, 8),), time_limit_s=5)
    by_name = pt.plan(module, "2xL4", inputs={"input": torch.zeros(2, 8)}, time_limit_s=5)
    assert by_place.graph.flops == by_name.graph.flops == pt.trace(module, (torch.zeros(2, 8),)).flops
    assert pt.plan(module, "2xL4", inputs=(torch.zeros(2, 8),), training=True, time_limit_s=5).graph.training
    assert pt.price(module, "2xL4", inputs=(torch.zeros(2, 8),)).name == "Sequential on 2xL4"
    with pytest.raises(pt.InputError, match=r"Sequential is a module; give example arguments .* as inputs=\(…\)"):
        pt.plan(module, "2xL4")
    with pytest.raises(pt.InputError, match="Sequential is a module, which --batch-size cannot change"):
        pt.plan(module, "2xL4", inputs=(torch.zeros(2, 8),), batch_size=2)


def test_fields_of_a_configuration() -> None:
    pytest.importorskip("transformers")
    small: dict[str, object] = {"n_layer": 2, "n_embd": 32, "n_head": 2, "scale_attn_weights": True}
    answer = pt.plan("hf:gpt2", "2xL4", set=small, sequence_length=16, time_limit_s=5, baselines=False)
    assert {op.module for op in answer.graph.operators if op.module.startswith("transformer.h.2")} == set()
    assert answer.graph.source is not None
    assert answer.graph.source.settings["set"]["n_layer"] == "2"
    assert answer.graph.source.settings["set"]["scale_attn_weights"] == "true"


#: By what is wrong, keywords of ``plan`` and flags of ``partita plan``, for the row.
WRONG: dict[str, tuple[str, dict[str, Any], tuple[str, ...]]] = {
    "cluster": ("2xL5", {}, ()),
    "cluster-text": ("zwei L4", {}, ()),
    "file": ("none.toml", {}, ()),
    "objective": ("2xL4", {"objective": "speed"}, ("--objective", "speed")),
    "training": ("2xL4", {"training": True}, ("--training",)),
    "batch-size": ("2xL4", {"batch_size": 2}, ("--batch-size", "2")),
    "solver": ("2xL4", {"solver": "guess"}, ("--solver", "guess")),
    "optimizer": ("2xL4", {"optimizer": "sgd"}, ("--optimizer", "sgd")),
    "memory": ("2xL4", {"memory": "20XB"}, ("--memory", "20XB")),
    "runtime": ("2xL4", {"runtime": "x"}, ("--runtime", "x")),
    "jobs": ("2xL4", {"jobs": 2}, ("--jobs", "2")),
    "alone": ("2xL4", {"objective": "latency", "runtime": "x"}, ("--objective", "latency", "--runtime", "x")),
}


@pytest.mark.parametrize("name", WRONG)
def test_messages_are_the_command_lines(name: str, partita: Callable[..., Run], graph_file: Path) -> None:
    cluster, keywords, flags = WRONG[name]
    run = partita("plan", graph_file, "--cluster", cluster, *flags, "--time-limit", "2")
    assert run.code == 2
    with pytest.raises(pt.PartitaError) as error:
        pt.plan(graph_file, cluster, time_limit_s=2, **keywords)
    assert run.err == f"partita: {error.value}\n"


def test_what_is_no_model() -> None:
    for wrong in (3, None, object()):
        with pytest.raises(pt.InputError, match="is no model; give 'hf:TYPE_OR_FILE'"):
            pt.plan(wrong, "2xL4")  # type: ignore[call-overload]
    with pytest.raises(pt.InputError, match="is not of a form that can be traced"):
        pt.plan("gpt2", "2xL4")
    with pytest.raises(pt.InputError, match="planning for throughput has no option 'velocity'; known are seed"):
        pt.plan(row(), "2xL4", velocity=3)  # type: ignore[call-overload]
    with pytest.raises(pt.InputError, match=r"no option 'time_limit'; did you mean 'time_limit_s'\? known are seed"):
        pt.plan(row(), "2xL4", time_limit=3)  # type: ignore[call-overload]
    with pytest.raises(pt.InputError, match="inputs of hf:gpt2 are given by name"):
        pt.plan("hf:gpt2", "2xL4", inputs=(1, 2))


def test_a_mistake_does_not_cost_the_trace(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Cluster, settings and solver are looked at first."""
    (tmp_path / "model.py").write_text("raise RuntimeError('it was read')")
    model = f"{tmp_path}/model.py:build"
    settings = ({"solver": "x"}, {"cuts": "x"}, {"x": 1}, {"costs": "nowhere.csv"})
    for cluster, wrong in (("2xL5", {}), *(("2xL4", setting) for setting in settings)):
        with pytest.raises(pt.InputError) as error:
            pt.plan(model, cluster, **wrong)  # type: ignore[arg-type]
        assert "it was read" not in str(error.value)


def test_a_profile_is_costs_and_cluster(tmp_path: Path) -> None:
    profile = make_profile(row(), [0.001 * (v + 1) for v in range(6)])
    path = tmp_path / "profile.json"
    found = pt.ProfileAnswer(profile, row())
    found.save(path)
    again = pt.load_profile(path)
    assert msgspec.json.encode(again.profile) == msgspec.json.encode(profile)
    assert len(found.to_frame()) == len(profile.measurements)
    assert found.missing == 0
    assert found.cluster == again.cluster
    assert "distinct operators" in str(found)
    assert "Operators of row" in again.summary()
    with pytest.raises(pt.InputError, match="does not hold its model, whose blocks are asked for"):
        again.summary("block")
    answers = [
        pt.plan(row(), costs=costs, time_limit_s=5, baselines=False) for costs in (found, again, path, str(path))
    ]
    assert {answer.objective for answer in answers} == {answers[0].objective}
    assert answers[0].cluster == found.cluster
    assert answers[0].document()["costs"]["measured"] == 6


def test_files_of_problems(chain: Path, partita: Callable[..., Run]) -> None:
    problem = pt.read_problem(chain)
    answer = pt.solve(chain, time_limit_s=5)
    assert answer.objective == 6.0 == pt.solve(problem).objective
    assert pt.solve(chain, devices=1).objective == 9.0 == pt.solve(problem, devices=1).objective
    assert partita("solve", chain, "--devices", "1", "--json").document["objective"] == 9.0
    assert pt.solve(chain, scale_communication=0).objective == 5.0
    assert pt.bound(chain).value == pt.bound(problem).value == pytest.approx(6.0)
    assert pt.evaluate(chain, answer.plan).objective == 6.0
    assert pt.solve(chain, kind="latency").problem.format == "partita.latency"
    with pytest.raises(pt.InputError, match="has no option 'speed'"):
        pt.solve(chain, speed=2)  # type: ignore[call-overload]
    with pytest.raises(
        pt.InputError, match=r"chain\.json is a file, which states its own problem; leave --cluster out"
    ):
        pt.sweep(chain, "4xL4", devices=[1, 2])


def test_a_sweep_is_the_command_lines(chain: Path, tmp_path: Path, partita: Callable[..., Run]) -> None:
    found = pt.sweep(chain, devices=[1, 2, 3], time_limit_s=5)
    document = partita("sweep", chain, "--devices", "1,2,3", "--json", "--time-limit", "5").document
    assert [row["objective"] for row in found.rows] == [row["objective"] for row in document["rows"]] == [9.0, 6.0, 5.0]
    assert len(found) == len(found.to_frame()) == 3
    assert found.document().keys() | {"made"} == document.keys()
    assert [point.result.objective for point in found.points] == [9.0, 6.0, 5.0]
    found.save(tmp_path / "a.csv")
    assert partita("sweep", chain, "--devices", "1,2,3", "--csv", tmp_path / "b.csv").code == 0
    mine, theirs = ((tmp_path / name).read_text().splitlines() for name in ("a.csv", "b.csv"))
    assert [line.split(",")[:4] for line in mine] == [line.split(",")[:4] for line in theirs]
    found.save(tmp_path / "a.json")
    assert json.loads((tmp_path / "a.json").read_text())["rows"] == found.rows
    assert "devices" in found.summary()
    assert len(str(found).splitlines()) <= 25
    with pytest.raises(pt.InputError, match=r"a sweep is written as .csv or .json, not as .png"):
        found.save(tmp_path / "a.png")


def test_axes_of_a_sweep() -> None:
    found = pt.sweep(row(), "L4", devices=[1, 2], memory=("20GB", 10e9), time_limit_s=5)
    assert [(row["devices"], row["memory_bytes"]) for row in found.rows] == [(1, 20e9), (1, 10e9), (2, 20e9), (2, 10e9)]
    assert len(pt.sweep(row(), "2xL4", bandwidth=0.5, time_limit_s=5)) == 1
    for wrong, message in (
        ({"devices": [0]}, "--devices 0 is out of range"),
        ({"devices": [1.5]}, "devices: Expected `int`, got `float`"),
        ({"devices": []}, "devices has no values"),
        ({"devices": [2], "time_limit_s": "3"}, "the time limit is '3'; it must be a positive number"),
        ({"devices": [2, 2]}, "has a value twice"),
        ({"replicas": [1]}, "cannot be swept along replicas, but along devices, memory, bandwidth"),
    ):
        with pytest.raises(pt.InputError, match=message):
            pt.sweep(row(), "L4", **wrong)  # type: ignore[call-overload]


def test_what_is_no_plan_and_no_rank(chain: Path) -> None:
    for wrong in (3, None):
        with pytest.raises(pt.InputError, match=f"{wrong} is no plan of a throughput problem"):
            pt.evaluate(chain, wrong)
    with pytest.raises(pt.InputError, match="rows are not ranked by 'speed'; take objective or step"):
        pt.compare(chain, rank="speed")  # type: ignore[call-overload]


def test_pictures_of_a_sweep() -> None:
    pytest.importorskip("matplotlib")
    found = pt.sweep(row(), "L4", devices=[1, 2, 3], time_limit_s=5)
    lines = {line.get_label(): line.get_ydata() for line in found.plot().lines}
    assert list(lines["plan"]) == [row["objective"] for row in found.rows]
    ax = found.plot_pareto()
    assert list(ax.lines[0].get_xdata()) == [1, 2, 3]
    front = list(ax.lines[1].get_ydata())
    assert front == sorted(set(front), reverse=True)


def test_a_comparison_is_the_command_lines(chain: Path, tmp_path: Path, partita: Callable[..., Run]) -> None:
    found = pt.compare(chain, rank="objective", time_limit_s=10)
    document = partita("compare", chain, "--json").document
    assert [row.name for row in found] == [row["name"] for row in document["baselines"]]
    assert found.document().keys() | {"made"} == document.keys()
    assert found.answer.objective == document["objective"] == 6.0
    assert found[0].evaluation.objective == min(row.evaluation.objective for row in found if row.feasible)
    assert len(found.to_frame()) == len(found) == len(found[:])
    assert "Compared with" in found.summary()
    assert len(str(found).splitlines()) <= 25
    found.save(tmp_path / "R.json")
    again = pt.load(tmp_path / "R.json")
    assert [row.name for row in again.baselines] == [row.name for row in found]
    with_expert = pt.compare(chain, experts=[tmp_path / "R.json"], time_limit_s=10)
    assert with_expert[-1].name == "expert R"
    assert with_expert[-1].evaluation.objective == 6.0


def test_a_comparison_of_a_model() -> None:
    found = pt.compare(row(), "2xA100-40GB+2xT4", microbatches=4, time_limit_s=10)
    assert found.answer.objective == placed().objective
    assert {row.name for row in found} == {row.name for row in placed().baselines}


def test_replicas_are_searched_for(tmp_path: Path) -> None:
    from models.runtime_models import random_model

    answer = pt.plan(random_model(3, training=True), "2x(2xL4)", training=True, search_replicas=True, time_limit_s=8)
    assert answer.searched is not None
    assert answer.document()["search"]["best"] == answer.searched.best.name
    assert "The search" in answer.summary()
    with pytest.raises(pt.InputError, match="--search-replicas does not know what runtimes run"):
        pt.plan(random_model(3, training=True), "2xL4", search_replicas=True, runtime="torchtitan")
