"""partita check: exit statuses and what it says."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from running.command_line import Run

Call = Callable[..., Run]


@pytest.fixture
def solved(partita: Call, chain: Path, tmp_path: Path) -> Path:
    """The result of the chain, with the devices left that prove nothing but 5: work 9, the best split costs 6."""
    path = tmp_path / "r.json"
    assert partita("solve", chain, "--output", path).code == 0
    return path


def changed(path: Path, change: Callable[[dict[str, Any]], Any]) -> Path:
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))
    return path


def test_nothing_to_verify_the_bound_by(partita: Call, solved: Path) -> None:
    """6 is proven by a search, and says so."""
    changed(solved, lambda document: document["proof"].update(certificate=None))
    run = partita("check", solved, "--json")
    assert run.code == 4
    assert run.document["verified"] is False
    assert run.document["plan"] == {"verified": True, "objective": 6.0, "by": "the checker", "wrong": ""}
    assert (run.document["bound"]["verified"], run.document["bound"]["certificate"]) == (None, None)
    assert run.document["bound"]["argument"]
    run = partita("check", solved)
    assert "without a certificate" in run.out
    assert run.out.splitlines()[-1] == "nothing to verify the bound by"


def test_verified(partita: Call, chain: Path, tmp_path: Path) -> None:
    """On one device all the work is there: 9."""
    path = tmp_path / "one.json"
    assert partita("solve", chain, "--devices", 1, "--output", path).code == 0
    run = partita("check", path, "--json")
    assert run.code == 0
    assert run.document["verified"] is True
    assert run.document["bound"]["certificate"] == "shared-work"
    assert run.document["bound"]["checked"] == pytest.approx(9.0)
    run = partita("check", path)
    assert run.code == 0
    assert run.out.splitlines()[-1] == "verified"


def test_a_bound_says_how_it_is_proven(partita: Call, chain: Path) -> None:
    """With its certificate, where it has one: the mean work is 4.5, and there are no CPUs."""
    document = partita("bound", chain, "--method", "simple", "--json").document
    assert document["bound"] == pytest.approx(4.5)
    assert document["certificate"] == {"kind": "shared-work", "value": 4.5, "weights": [1.0, 0.0]}
    assert "mean" in document["argument"]


def test_not_verified(partita: Call, solved: Path) -> None:
    """An objective that the plan is not worth."""
    changed(solved, lambda document: document.update(objective=5.5, gap=0.0, bound=5.5, status="optimal"))
    run = partita("check", solved)
    assert run.code == 1
    assert "worth 6.0, not 5.5" in run.out
    assert run.out.splitlines()[-1] == "NOT verified"


def test_a_result_without_its_problem(partita: Call, solved: Path, chain: Path) -> None:
    """The problem can be named; without it there is nothing to check."""
    changed(solved, lambda document: document["problem"].pop("stated"))
    run = partita("check", solved)
    assert run.code == 2
    assert "does not hold the problem" in run.err
    assert partita("check", solved, "--problem", chain, "--json").document["plan"]["verified"] is True


def test_another_problem(partita: Call, solved: Path, chain: Path, tmp_path: Path) -> None:
    """A plan is not checked against a problem that it was not made for without a word."""
    other = tmp_path / "other.json"
    other.write_text(chain.read_text().replace('"maxFPGAs": 2', '"maxFPGAs": 3'))
    run = partita("check", solved, "--problem", other)
    assert run.code == 1
    assert "another problem" in run.out


@pytest.mark.parametrize("text", ["{}", "[1]", "", '{"format": "partita.graph", "version": 1}'])
def test_no_result_file(partita: Call, tmp_path: Path, text: str) -> None:
    """One clear message."""
    path = tmp_path / "none.json"
    path.write_text(text)
    run = partita("check", path)
    assert run.code == 2
    assert "Traceback" not in run.err
