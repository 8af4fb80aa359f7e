"""Independent tasks among the problems, for one test at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

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
