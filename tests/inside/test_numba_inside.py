"""Every private part of numba means what the package takes it for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numba
import pytest

from partita.inside import numba_inside as inside


def double(x: int) -> int:
    """A function in a file, as numba's caches ask for."""
    return 2 * x


class Alone:
    """The turn of a process that nobody else waits for."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def take(self) -> bool:
        return False

    def drop(self) -> None:
        pass


def kernel(cache: inside.CodeCache | None) -> Any:
    """The function compiled, with a cache."""
    made = numba.njit(double)
    inside.keep_code(made, cache)
    return made


def test_code_is_kept_under_its_mark(tmp_path: Path) -> None:
    stated = numba.config.CACHE_DIR
    first = kernel(inside.cache_in(str(tmp_path), double, "one", Alone))
    assert stated == numba.config.CACHE_DIR
    assert not inside.has_code(first)
    assert first(4) == 8
    assert inside.has_code(first)
    # Another process would find it, under the same mark alone.
    again = kernel(inside.cache_in(str(tmp_path), double, "one", Alone))
    assert inside.has_code(again)
    assert again(4) == 8
    assert sum(again.stats.cache_hits.values()) == 1
    assert not inside.has_code(kernel(inside.cache_in(str(tmp_path), double, "two", Alone)))


def test_code_of_another_processor_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel(inside.cache_in(str(tmp_path), double, "one", Alone))(4)
    monkeypatch.setattr(inside.CodeIndex, "processors", lambda self: {("another", "processor")})
    assert not inside.has_code(kernel(inside.cache_in(str(tmp_path), double, "one", Alone)))


def test_a_function_without_a_cache_counts_as_compiled() -> None:
    assert inside.has_code(double)
    made = kernel(None)
    assert made(4) == 8
    assert inside.has_code(made)


def test_compiling_is_told_and_reading_is_not(tmp_path: Path) -> None:
    seen: list[str] = []
    inside.on_compiling(lambda: seen.append("begin"), lambda: seen.append("end"))
    kernel(inside.cache_in(str(tmp_path), double, "one", Alone))(4)
    assert seen
    assert seen.count("begin") == seen.count("end")
    seen.clear()
    kernel(inside.cache_in(str(tmp_path), double, "one", Alone))(4)
    assert seen == []


def test_options_of_kernels_compile() -> None:
    step = numba.njit(**inside.UNCOUNTED, **inside.PART_OF_CALLER)(double)
    caller = numba.njit(**inside.UNCOUNTED)(lambda x: step(x) + 1)
    assert caller(4) == 9
    # Counting and calling from Python are gone from its code.
    assert all("NRT_incref" not in text for text in caller.inspect_llvm().values())
