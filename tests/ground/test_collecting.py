"""Python's search for circles of objects: rare while a model is planned, as before afterwards."""

from __future__ import annotations

import gc
import subprocess
import sys
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


def test_a_process_of_its_own_ends_without_a_look() -> None:
    """What runs behind it at the end finds the search off and everything put aside."""
    said = subprocess.run(
        [
            sys.executable,
            "-c",
            "import atexit, gc\n"
            "from partita.ground.collecting import RARELY, collect_rarely\n"
            "atexit.register(lambda: print(gc.isenabled(), gc.get_freeze_count() > 1_000))\n"
            "collect_rarely()\n"
            "print(gc.get_threshold() == RARELY, gc.isenabled(), gc.get_freeze_count())\n",
        ],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert said.split() == ["True", "True", "0", "False", "True"]
