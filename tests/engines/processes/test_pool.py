"""Pools of workers: the same answers wherever, lost workers that change nothing, and errors that are raised once."""

from __future__ import annotations

import os
import random
import signal
import time
import traceback
from pathlib import Path
from typing import Any

import pytest

import partita as pt
from conductor.test_search import links, model
from partita.conductor import search as search_module
from partita.conductor.search import search_stages
from partita.engines.processes.pool import Pool
from partita.engines.processes.replies import WorkerTraceback


def square(value: int) -> int:
    return value * value


def die_once(value: tuple[int, str]) -> int:
    """End the worker's process the first time that 3 comes up, when others have done some."""
    number, mark = value
    if number == 3 and not Path(mark).exists():
        time.sleep(0.2)
        Path(mark).write_text("gone")
        os.kill(os.getpid(), signal.SIGKILL)
    return number * number


def die_elsewhere(value: tuple[int, int]) -> int:
    """End every process but the one that asks."""
    number, home = value
    if os.getpid() != home:
        os.kill(os.getpid(), signal.SIGKILL)
    return number * number


def refuse(value: int) -> int:
    raise pt.InputError(f"{value} is refused")


def noted(value: tuple[int, str, str]) -> int:
    """Leave a mark of every call, and fail at 1 in some way."""
    number, folder, how = value
    Path(folder, f"{number}-{time.monotonic_ns()}").touch()
    if number == 1:
        deep(how)
    return number


def deep(how: str) -> None:
    if how == "type":
        raise TypeError("it is no number")
    if how == "connection":
        raise ConnectionError("the function's own")
    raise Unsendable("a", "b")


class Unsendable(Exception):
    """It cannot be made again from its arguments."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} and {second}")


class Unpicklable:
    def __reduce__(self) -> Any:
        raise TypeError("cannot be sent")


def take(value: Any) -> int:
    return 0


def give(value: int) -> Any:
    return Unpicklable()


def test_one_worker_is_this_process() -> None:
    with Pool() as pool:
        assert pool.map(square, [1, 2, 3]) == [1, 4, 9]
        with pytest.raises(pt.InputError, match="2 is refused"):
            pool.map(refuse, [2])


@pytest.mark.slow
def test_ray_is_a_pool_like_the_others() -> None:
    """Slow: Ray takes half a minute to start."""
    pytest.importorskip("joblib")
    pytest.importorskip("ray")
    with Pool(2, "ray") as pool:
        assert pool.map(square, [1, 2, 3]) == [1, 4, 9]
        with pytest.raises(pt.InputError, match="2 is refused"):
            pool.map(refuse, [2])


def test_answers_do_not_depend_on_the_workers(two_workers: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    # On a busy machine the clock would decide.
    for limit in ("SPLIT_S", "MAP_S", "PLACE_S"):
        monkeypatch.setattr(search_module, limit, 300.0)
    draw = random.Random(8)
    problem, where = model(draw, 3), links(draw, 3)
    here = search_stages(problem, where, time_limit_s=None)
    there = search_stages(problem, where, time_limit_s=None, pool=two_workers)
    assert there.best.name == here.best.name
    assert there.best.step == here.best.step
    assert there.best.plan == here.best.plan
    with pytest.raises(pt.InputError, match="2 is refused"):
        two_workers.map(refuse, [2])
    assert two_workers.lost == 0


def test_a_worker_killed_half_way_changes_nothing(two_workers: Pool, tmp_path: Path) -> None:
    mark = str(tmp_path / "mark")
    assert two_workers.map(die_once, [(n, mark) for n in range(8)]) == [n * n for n in range(8)]
    assert Path(mark).exists()
    # The pool goes on.
    assert two_workers.map(square, [5, 6]) == [25, 36]


def test_what_no_worker_survives_is_done_here() -> None:
    pytest.importorskip("joblib")
    with Pool(2) as pool:
        assert pool.map(die_elsewhere, [(n, os.getpid()) for n in range(3)]) == [0, 1, 4]
        assert pool.lost == 2


@pytest.mark.parametrize(
    ("how", "kind", "message"),
    [
        ("type", TypeError, "it is no number"),
        # It looks like a lost worker, and is not.
        ("connection", ConnectionError, "the function's own"),
        # Some backends send it all the same.
        ("unsendable", Exception, "a and b"),
    ],
)
def test_an_error_of_the_function_is_raised_once_and_says_where(
    two_workers: Pool, tmp_path: Path, how: str, kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message) as caught:
        two_workers.map(noted, [(n, str(tmp_path), how) for n in range(2)])
    calls = sorted(int(path.name.partition("-")[0]) for path in tmp_path.iterdir())
    assert calls == [0, 1]
    assert two_workers.lost == 0
    assert isinstance(caught.value.__cause__, WorkerTraceback)
    shown = "".join(traceback.format_exception(caught.value))
    assert "in deep" in shown
    assert "test_pool.py" in shown


def test_an_error_here_is_raised_as_it_is(tmp_path: Path) -> None:
    with Pool() as pool, pytest.raises(TypeError, match="it is no number") as caught:
        pool.map(noted, [(n, str(tmp_path), "type") for n in range(3)])
    assert len(list(tmp_path.iterdir())) == 2, "what comes after it is not asked for"
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("function", [take, give])
def test_what_cannot_be_sent_is_no_lost_worker(function: Any) -> None:
    pytest.importorskip("joblib")
    values = [Unpicklable(), Unpicklable()] if function is take else [1, 2]
    with Pool(2) as pool:
        with pytest.raises(Exception, match=r"sent|pickle|serializ"):
            pool.map(function, values)
        assert pool.lost == 0
