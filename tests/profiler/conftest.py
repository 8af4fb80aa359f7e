"""Whoever measures collects garbage first: not all that the tests before these have left."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="module")
def _what_is_there_stays() -> Iterator[None]:
    gc.freeze()
    yield
    gc.unfreeze()
