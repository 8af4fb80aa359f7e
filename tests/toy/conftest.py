"""Independent tasks among the problems, for one test at a time."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from partita.cli import main
from partita.documents.stated import write_problem
from toy.registered import registered
from toy.samples import SIX
from toy.tasks import TASKS, TaskProblem


@pytest.fixture
def tasks() -> Iterator[TaskProblem]:
    """Six tasks of 17 s on three machines, and their kind among the problems.

    Best is 6 s: {5}, {3, 3}, {2, 2, 2}, which are consecutive, too. In list order 8 s.
    """
    with registered(TASKS):
        yield SIX


@pytest.fixture
def tasks_file(tasks: TaskProblem, tmp_path: Path) -> Path:
    """The six tasks as a file."""
    path = tmp_path / "tasks.json"
    write_problem(path, tasks)
    return path


@dataclass(frozen=True)
class Run:
    """What one call printed and returned."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """The JSON object on stdout."""
        found: dict[str, Any] = json.loads(self.out)
        return found


@pytest.fixture
def partita(capsys: pytest.CaptureFixture[str]) -> Callable[..., Run]:
    """Call the command line with arguments."""

    def call(*arguments: object) -> Run:
        with pytest.raises(SystemExit) as stop:
            main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Run(int(stop.value.code or 0), captured.out, captured.err)

    return call
