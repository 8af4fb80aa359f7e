"""partita profile, and plans with what it measured."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from instances.cost_graphs import make_graph
from instances.profiles import make_profile
from partita.costs.profile import read_profile
from partita.documents.document import write_json
from partita.documents.stated import write_graph
from running.command_line import Run

pytest.importorskip("torch")

MODELS = Path(__file__).parent.parent / "profiler" / "tiny_models.py"
TIMES = [1.0, 2.0, None, 4.0, 5.0, 6.0]


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    """A hand-made profile, and beside it its graph."""
    write_graph(tmp_path / "g.json", make_graph())
    write_json(tmp_path / "p.json", make_profile(make_graph(), TIMES).to_dict())
    return tmp_path / "p.json"


def test_from_measurements_to_a_plan(partita: Callable[..., Run], tmp_path: Path) -> None:
    """Two processes measure; the plan is for their machine, and its one-stage time is that of a run."""
    path = tmp_path / "p.json"
    model = f"{MODELS}:attending"
    measured = partita("profile", model, "--training", "--processes", 2, "--repeats", 3, "--output", path)
    assert measured.code == 0, measured.err
    assert "Operators of attending" in measured.out
    found = read_profile(path)
    assert found.settings.processes == 2
    assert [t.bytes for t in found.transfers] == sorted({t.bytes for t in found.transfers})
    assert len(found.measurements) < sum(place is not None for place in found.operators)
    assert all(m.samples >= 6 for m in found.measurements)
    assert found.backward is not None
    # Operators and what passes between them are the whole run.
    total = sum(found.time_s(found.measurements[place]) for place in found.operators if place is not None)
    assert total >= 0.5 * (found.forward.time_s + found.backward.time_s)

    planned = partita(
        "plan", model, "--training", "--objective", "throughput", "--costs", path, "--json", "--time-limit", 5
    )
    assert planned.code == 0, planned.err
    document = planned.document
    assert document["costs"]["source"] == str(path)
    assert document["costs"]["measured"] >= 0.9 * document["costs"]["operators"]
    assert document["cluster"]["name"].startswith("2x")
    assert any("are from" in note for note in document["notes"])


def test_plan_counts_what_was_measured(partita: Callable[..., Run], profile: Path) -> None:
    done = partita(
        "plan",
        profile.with_name("g.json"),
        "--costs",
        profile,
        "--objective",
        "throughput",
        "--json",
        "--time-limit",
        5,
    )
    assert done.code == 0, done.err
    assert done.document["costs"] == {"source": str(profile), "measured": 5, "operators": 6}
    assert done.document["objective"] > 0


def test_a_profile_is_a_cluster(partita: Callable[..., Run], profile: Path) -> None:
    done = partita("plan", profile.with_name("g.json"), "--cluster", profile, "--objective", "throughput", "--json")
    assert done.code == 0, done.err
    assert done.document["cluster"]["name"] == "hand"


def test_a_stale_profile_is_refused(partita: Callable[..., Run], profile: Path) -> None:
    done = partita("plan", f"{MODELS}:attending", "--training", "--objective", "throughput", "--costs", profile)
    assert done.code == 2
    assert "is a profile of hand" in done.err
    assert "profile this model" in done.err


def test_calibration(partita: Callable[..., Run], profile: Path) -> None:
    done = partita("profile", "--calibrate", profile)
    assert done.code == 0, done.err
    assert "compute_efficiency = " in done.out
    document = partita("profile", "--calibrate", profile, "--against", "L4", "--json").document
    assert document["device"] == "L4"
    assert {row["name"] for row in document["classes"]} == {"gathers", "products", "others"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "there is no model; name one to profile"),
        (("hf:gpt2", "--calibrate", "p.json"), "runs no model; leave hf:gpt2 out"),
        (("hf:gpt2", "--against", "L4"), "--against goes with --calibrate"),
        (("hf:gpt2", "--decode", 3), "leave --decode out"),
        (("--calibrate", "none.json"), "none.json: there is no such file"),
        (("graph.json",), "cannot be run|not of a form"),
    ],
)
def test_bad_input(partita: Callable[..., Run], arguments: tuple[object, ...], message: str) -> None:
    import re

    done = partita("profile", *arguments)
    assert done.code == 2
    assert re.search(message, done.err)
    assert "Traceback" not in done.err


def test_a_process_that_is_killed_ends_the_profile(partita: Callable[..., Run]) -> None:
    done = partita("profile", f"{MODELS}:dying")
    assert done.code == 2
    assert "process 0 of the profile was ended by SIGKILL before it had answered" in done.err


def test_files_hold_what_was_printed(partita: Callable[..., Run], profile: Path, tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    partita("profile", "--calibrate", profile, "--output", path)
    assert json.loads(path.read_text())["device"] == "here"
