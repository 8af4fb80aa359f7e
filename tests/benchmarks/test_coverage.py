"""The sweep over model types: work in limited copies, and the page that it writes."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from benchmarks._apart import run_apart
from benchmarks._coverage import Traced, kind_of_reason, page


def _work(name: str) -> str:
    if name == "slow":
        time.sleep(600)
    if name == "large":
        kept = bytearray(2**30)
        time.sleep(600)
        return str(len(kept))
    if name == "killed":
        os.kill(os.getpid(), 9)
    if name == "raises":
        raise RuntimeError
    print("not to be seen")
    return name.upper()


def test_copies_are_limited(capfd: pytest.CaptureFixture[str]) -> None:
    names = ["a", "slow", "large", "killed", "raises", "b"]
    found = {done.name: done for done in run_apart(_work, names, jobs=2, seconds=5, memory_bytes=2**29 + 2**30)}
    small = {done.name: done for done in run_apart(_work, ["large"], jobs=1, seconds=60, memory_bytes=2**29)}
    assert set(found) == set(names)
    assert {name: found[name].result for name in ("a", "b")} == {"a": "A", "b": "B"}
    assert found["slow"].reason == "not done in 5 s"
    assert small["large"].reason == "needs over 0 GiB"
    assert found["killed"].reason == "ended by signal 9"
    assert found["raises"].reason == "ended without a result"
    assert found["a"].memory_bytes > 2**20
    assert "not to be seen" not in capfd.readouterr().out


def _children() -> set[int]:
    """Processes that this one started and that are not gone; other tests may have left some, too."""
    found = set()
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == os.getpid():
            found.add(int(status.parent.name))
    return found


def test_work_that_is_left_off_is_ended() -> None:
    before = _children()
    results = run_apart(_work, ["a", "slow"], jobs=2, seconds=60, memory_bytes=2**40)
    assert next(results).result == "A"
    assert _children() - before
    results.close()
    assert not _children() - before


ROWS = [
    Traced("bert", True, 59, 5 * 10**10, 1.5, 2**29),
    Traced("clip", True, 90, 10**9, 3.0, 2**30, without="pixel_values"),
    Traced("odd", False, reason="cannot trace module 'a.b' (Odd): ValueError: 17 is no size; give another | way"),
    Traced("odd2", False, reason="cannot trace the root module (Odd2): ValueError: 23 is no size"),
]


def test_the_page_names_all_types_and_groups_reasons() -> None:
    text = page(ROWS, {"torch": "2.0"}, "2030-01-01", "at most 4 layers")
    assert "on 2030-01-01, with torch 2.0" in text
    assert "| 4 | 2 (50.0%) | 2 | 1 |" in text
    assert "| `bert` | 59 | 50 | 1.5 | 512 |  |" in text
    assert "without pixel_values" in text
    assert "| cannot trace: ValueError: … is no size | 2 | `odd`, `odd2` |" in text
    assert "another \\| way" in text


def test_reasons_lose_what_is_of_one_model() -> None:
    assert kind_of_reason(ROWS[2].reason) == kind_of_reason(ROWS[3].reason)
    assert kind_of_reason("model type 'a' needs an argument 'x', which") == "model type … needs an argument …, which"
