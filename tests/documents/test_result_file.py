"""Result files: what all of them hold, and reading the plan back."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import msgspec
import pytest

from partita.documents.result_file import (
    decode_split,
    proof_document,
    read_plan_bytes,
    result_document,
    split_document,
    with_problem,
)
from partita.engines.search.result import Bound, Event, Result, Statistics, Status, StopReason
from partita.ground.errors import FormatError, InputError
from partita.nouns.split import Split, StagePart


class Toy(msgspec.Struct, frozen=True):
    """A problem with a dictionary whose keys are numbers."""

    format: ClassVar[str] = "test.toy"
    version: ClassVar[int] = 4
    name: str = "toy"
    unit: str = "ms"
    notes: tuple[str, ...] = ("assumed",)
    times: dict[int, float] = msgspec.field(default_factory=lambda: {7: 0.5})


#: Compact, keys in order, the fields behind format and version.
CANONICAL = b'{"format":"test.toy","name":"toy","notes":["assumed"],"times":{"7":0.5},"unit":"ms","version":4}'


SPLIT = Split(model="toy", stages=(StagePart(rank=0, devices=("gpu:0",), operators=(0, 1)),))
CHANGED = {"model": "other"}


def result(**changes: Any) -> Result[Any, Any, Any]:
    """A plan of value 8 beside a bound of 6."""
    fields: dict[str, Any] = {
        "problem": Toy(),
        "plan": "a plan",
        "evaluation": SimpleNamespace(objective=8.0, feasible=True),
        "bound": Bound(6.0, "relaxation", argument="a half is left out"),
        "status": Status.FEASIBLE,
        "stop_reason": StopReason.TIME_LIMIT,
        "solver": "search",
        "seed": 3,
        "runtime_s": 1.5,
        "statistics": Statistics([Event(0.5, 8.0, None, "first")], {"nodes": 7.0, "cuts": 2.0}),
    }
    return Result(**(fields | changes))


def test_every_field() -> None:
    """The gap is (8 - 6) / 8."""
    assert result_document(result(), {"stages": []}, cluster="two") == {
        "format": "partita.result",
        "version": 1,
        "objective": 8.0,
        "bound": 6.0,
        "gap": 0.25,
        "status": "feasible",
        "stop_reason": "time limit",
        "unit": "ms",
        "runtime_s": 1.5,
        "solver": "search",
        "seed": 3,
        "reason": None,
        "problem": {"name": "toy", "sha256": hashlib.sha256(CANONICAL).hexdigest()},
        "plan": {"stages": []},
        "bound_method": "relaxation",
        "proof": {"method": "relaxation", "scope": "", "argument": "a half is left out", "certificate": None},
        "notes": ["assumed"],
        "statistics": {
            "events": [{"time_s": 0.5, "objective": 8.0, "bound": None, "note": "first"}],
            "counters": {"cuts": 2.0, "nodes": 7.0},
        },
        "cluster": "two",
    }


def test_without_a_plan() -> None:
    found = result_document(
        result(plan=None, evaluation=None, bound=None, status=Status.INFEASIBLE, reason="too small"), None
    )
    assert (found["objective"], found["bound"], found["gap"], found["plan"], found["bound_method"]) == (None,) * 5
    assert (found["status"], found["reason"]) == ("infeasible", "too small")


def test_proofs_that_there_is_no_plan() -> None:
    assert proof_document(result(bound=None)) is None
    assert proof_document(result(bound=None, argument="too large")) == {
        "method": "search",
        "scope": "",
        "argument": "too large",
        "certificate": None,
    }


def test_the_problem_itself() -> None:
    found = with_problem({"seed": 3, "problem": {"name": "toy"}}, Toy())
    assert found["seed"] == 3
    assert found["problem"]["name"] == "toy"
    assert json.loads(msgspec.json.encode(found["problem"]["stated"])) == json.loads(CANONICAL)


def test_splits_there_and_back() -> None:
    """One without a digest is taken as it is."""
    document = split_document(SPLIT)
    assert decode_split(msgspec.json.encode(document), "r.json") == SPLIT
    with pytest.raises(InputError, match=r"^r\.json: split was changed after it was written; "):
        decode_split(msgspec.json.encode(document | CHANGED), "r.json")
    del document["sha256"]
    assert decode_split(msgspec.json.encode(document), "r.json") == SPLIT


def test_statuses_are_plain_text() -> None:
    found = result_document(result(), None)
    assert type(found["status"]) is str
    assert type(found["stop_reason"]) is str


def written(tmp_path: Path, document: Any) -> Path:
    path = tmp_path / "r.json"
    path.write_text(json.dumps(document))
    return path


def test_the_plan_is_read_back(tmp_path: Path) -> None:
    path = written(tmp_path, result_document(result(), {"stages": [1, 2]}))
    assert json.loads(read_plan_bytes(path)) == {"stages": [1, 2]}


@pytest.mark.parametrize(
    ("document", "kind", "message"),
    [
        ({"plan": {}}, FormatError, "{path} is not a partita.result file"),
        ({"format": "partita.problem", "version": 1, "plan": {}}, FormatError, "{path} is not a partita.result file"),
        (
            {"format": "partita.result", "version": 2, "plan": {}},
            FormatError,
            "{path}: version 2 of partita.result is not known here; expected 1",
        ),
        (
            {"format": "partita.result", "plan": {}},
            FormatError,
            "{path}: version None of partita.result is not known here; expected 1",
        ),
        ({"format": "partita.result", "version": 1, "plan": None}, InputError, "{path} holds no plan"),
        ({"format": "partita.result", "version": 1}, InputError, "{path} holds no plan"),
    ],
)
def test_what_holds_no_plan(tmp_path: Path, document: dict[str, Any], kind: type[InputError], message: str) -> None:
    path = written(tmp_path, document)
    with pytest.raises(kind) as caught:
        read_plan_bytes(path)
    assert str(caught.value) == message.format(path=path)
    assert type(caught.value) is kind
