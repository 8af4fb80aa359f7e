"""Serving from the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import partita as pt
from partita.documents.stated import write_problem
from partita.nouns.workload.workload import RequestWorkload
from partita.problems.serving.samples import LOOP

FIELDS = {
    "hidden_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "intermediate_size": 512,
    "vocab_size": 1000,
}
MODEL = (
    *("hf:llama", *(part for name, value in FIELDS.items() for part in ("--set", f"{name}={value}"))),
    *("--dtype", "bfloat16", "--objective", "serving", "--cluster", "2xL4"),
)
FIXED = ("--prompt-tokens", "100", "--output-tokens", "10")
PERCENTILES = {"mean", "p50", "p90", "p99"}


@pytest.fixture
def loop(tmp_path: Path) -> Path:
    path = tmp_path / "p.json"
    write_problem(path, LOOP)
    return path


def test_a_layout_is_priced(partita: Callable[..., Any], tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    output = tmp_path / "r.json"
    run = partita("plan", *MODEL, *FIXED, "--layout", "tensor=2", "--concurrency", "8", "--output", output, "--json")
    assert run.code == 0, run.err
    found = run.document["serving"]
    assert run.document["objective"] == pytest.approx(1 / found["requests_per_s"])
    assert run.document["bound"] is None
    assert set(found["ttft_s"]) == set(found["tpot_s"]) == PERCENTILES
    assert found["tokens_per_s"] == pytest.approx(2 * found["tokens_per_s_per_device"])
    assert found["in_flight"] <= 8
    assert found["requests"] == 80
    assert found["cache_tokens"] > 0
    assert sum(found["limits"].values()) == pytest.approx(1.0)
    (unit,) = found["units"]
    assert {"count": 1, "role": "both", "kind": "L4", "tensor": 2, "pipeline": 1}.items() <= unit.items()
    again = partita("simulate", output, "--json")
    assert again.code == 0, again.err
    assert again.document["step_time"] > 0
    shown = partita("simulate", output)
    assert "P step with prompts  D decode step" in shown.out
    assert " steps take " in shown.out
    assert not any(word in shown.out for word in ("gradient", "forward", "microbatch"))


def test_traces_are_run(partita: Callable[..., Any], tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    path = tmp_path / "t.csv"
    path.write_text("arrival_s,prompt_tokens,output_tokens\n0,10,5\n1,20,6\n3,30,7\n")
    run = partita("plan", *MODEL, "--requests", path, "--rate", "10", "--layout", "tensor=1", "--json")
    assert run.code == 0, run.err
    assert run.document["serving"]["requests"] == 3
    # Three gaps of a tenth of a second, and then the last request.
    assert run.document["serving"]["duration_s"] == pytest.approx(0.2, abs=0.15)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((), "serving needs a workload"),
        ((*FIXED, "--training"), "objective serving is not for training"),
        ((*FIXED, "--optimizer", "sgd"), "--optimizer is about training"),
        ((*FIXED, "--concurrency", "2", "--rate", "1"), "leave one out"),
        ((*FIXED, "--layout", "data=2"), "'data=2' is not one of tensor=…"),
        ((*FIXED, "--weights", "fp3"), "there is no number format 'fp3'"),
        (("--prompt-tokens", "-1", "--output-tokens", "1"), "--prompt-tokens -1 is out of range"),
        (("--requests", "nowhere.csv"), "nowhere.csv: there is no such file"),
        ((*FIXED, "--price-per-hour", "T4=1"), "names T4, and the cluster has L4; name these"),
        ((*FIXED, "--price-per-hour", "L4"), "'L4' is not of the form KIND=X"),
        ((*FIXED, "--percentile", "90"), "--percentile 90 is out of range; give a number above 0 and at most 1"),
        ((*FIXED, "--roles", "none"), "--roles 'none' is not one of both, split, any"),
        ((*FIXED, "--microbatches", "4"), "--microbatches means nothing for a plan with objective serving"),
    ],
)
def test_bad_input_is_one_message(partita: Callable[..., Any], given: tuple[str, ...], said: str) -> None:
    run = partita("plan", *MODEL, *given)
    assert run.code == 2
    assert said in run.err
    assert "Traceback" not in run.err


def test_files_are_solved_evaluated_and_swept(partita: Callable[..., Any], loop: Path, tmp_path: Path) -> None:
    output = tmp_path / "r.json"
    run = partita("solve", loop, "--output", output, "--json")
    assert run.code == 0, run.err
    assert run.document["status"] == "optimal"
    again = partita("evaluate", loop, output, "--json")
    assert again.document["objective"] == run.document["objective"]
    assert again.document["serving"]["requests"] == 80
    changed = partita("solve", loop, "--concurrency", "2", "--json")
    assert changed.document["objective"] > run.document["objective"]
    swept = partita("sweep", loop, "--concurrency", "1,4", "--json")
    assert [row["concurrency"] for row in swept.document["rows"]] == [1, 4]
    bound = partita("bound", loop, "--method", "work", "--json")
    assert 0 < bound.document["bound"] <= run.document["objective"]


def test_targets_that_nothing_keeps_are_infeasible(partita: Callable[..., Any], loop: Path) -> None:
    run = partita("solve", loop, "--tpot", "0.000001", "--json")
    assert run.code == 1
    assert run.document["objective"] is None
    assert "TPOT at percentile 0.9" in run.document["reason"]


def test_requests_that_nothing_holds_are_infeasible(partita: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    write_problem(path, LOOP.replace(workload=RequestWorkload(prompt_tokens=10**6, output_tokens=1, concurrency=1)))
    run = partita("solve", path, "--json")
    assert run.code == 1
    assert "is longer than the cache" in run.document["reason"]


PROMISED = ("--ttft", "0.5", "--tpot", "0.05")


def test_the_cheapest_fleet_of_a_rate_is_planned(partita: Callable[..., Any], tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    mixed = (*MODEL[:-1], "1xL4+1xT4")
    prices, path = ("--price-per-hour", "L4=0.7,T4=0.35"), tmp_path / "r.json"
    run = partita(
        "plan", *mixed, *FIXED, *PROMISED, "--rate", "1", "--roles", "both", *prices, "--output", path, "--json"
    )
    assert run.code == 0, run.err
    found = run.document["serving"]
    assert run.document["unit"] == "per hour"
    assert run.document["objective"] == pytest.approx(found["cost"])
    assert run.document["objective"] in (0.35, 0.7, 1.05)
    assert sum(found["left_over"].values()) == 2 - found["devices"]
    assert any("would take" in sentence for sentence in run.document["limits"]["sentences"])
    # What it is worth is no time, but its run takes seconds; Python makes the same problem of the same model.
    shown = partita("simulate", path, "--json")
    assert (shown.document["unit"], shown.document["objective_unit"]) == ("s", "per hour")
    assert "per hour" not in partita("simulate", path).out
    loaded = pt.load(path)
    settings = {"rate": 1.0, "ttft": 0.5, "tpot": 0.05, "roles": "both", "price_per_hour": {"L4": 0.7, "T4": 0.35}}
    assert loaded.problem == pt.price(
        "hf:llama",
        "1xL4+1xT4",
        objective="serving",
        set=FIELDS,
        dtype="bfloat16",
        prompt_tokens=100,
        output_tokens=10,
        **settings,
    )
    assert {row["name"] for row in run.document["baselines"]} >= {"one-kind", "greedy-covering"}


def test_promises_are_swept(partita: Callable[..., Any], tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    pytest.importorskip("matplotlib")
    table, picture = tmp_path / "c.csv", tmp_path / "c.png"
    given = (*MODEL, *FIXED, "--rate", "2", "--tpot", "0.02,0.05", "--roles", "both", "--time-limit", "5")
    run = partita("sweep", *given, "--csv", table, "--plot", picture, "--json")
    assert run.code == 0, run.err
    rows = run.document["rows"]
    assert run.document["unit"] == "devices"
    assert [row["tpot"] for row in rows] == [0.02, 0.05]
    for row in rows:
        assert row["tokens_per_s_per_user"] >= 1 / row["tpot"]
        assert row["tokens_per_s"] == pytest.approx(row["used_devices"] * row["tokens_per_s_per_device"])
    assert "tokens_per_s_per_user" in table.read_text().splitlines()[0]
    along = partita("sweep", *MODEL, *FIXED, "--rate", "1", "--tpot", "0.05", "--roles", "both", "--time-limit", "5")
    assert "1 device" in along.out
    assert "1 devices" not in along.out
    beside = partita("compare", *MODEL, *FIXED, "--rate", "1", "--roles", "any", "--time-limit", "5")
    assert "+0.0% devices" in beside.out
    assert picture.stat().st_size > 1000
