"""The problem of the tests is one of the problems, as long as contracts are tested."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from toy.registered import registered
from toy.tasks import TASKS


@pytest.fixture(scope="module", autouse=True)
def _tasks() -> Iterator[None]:
    with registered(TASKS):
        yield
