"""Python's search for circles of objects: rare while a model is planned, as before afterwards."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from partita.ground.collecting import RARELY, collecting_rarely


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


def test_it_is_rare_inside_and_as_before_behind() -> None:
    gc.set_threshold(700, 10, 10)

    @collecting_rarely()
    def inside() -> tuple[int, int, int]:
        return gc.get_threshold()

    assert inside() == inside() == RARELY
    assert gc.get_threshold() == (700, 10, 10)
    with pytest.raises(ZeroDivisionError), collecting_rarely():
        _ = 1 / 0
    assert gc.get_threshold() == (700, 10, 10)


@pytest.mark.parametrize("stated", [(0, 10, 10), (1_000_000, 5, 5)])
def test_who_looks_more_rarely_is_left_alone(stated: tuple[int, int, int]) -> None:
    gc.set_threshold(*stated)
    with collecting_rarely():
        assert gc.get_threshold() == stated
