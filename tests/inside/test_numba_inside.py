"""Every private part of numba means what the package takes it for."""

from __future__ import annotations

import subprocess
import sys
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


def test_linear_algebra_is_loaded_by_what_needs_it_alone(tmp_path: Path) -> None:
    """In a process that has loaded nothing: a kernel loads none, and products of matrices are made all the same."""
    program = tmp_path / "kernels.py"
    program.write_text(
        "import sys, numba, numpy\n"
        "from partita.inside.numba_inside import cache_in, keep_code\n"
        "class Alone:\n"
        "    def __init__(self, path): pass\n"
        "    take = drop = lambda self: False\n"
        "def total(x): return x.sum()\n"
        "def product(x): return (x @ x)[0, 0] + numpy.linalg.det(x)\n"
        "for function in total, product:\n"
        "    kernel = numba.njit(function)\n"
        "    keep_code(kernel, cache_in(sys.argv[1], function, 'one', Alone))\n"
        "    print(kernel(numpy.eye(3)), 'scipy.linalg' in sys.modules)\n"
    )
    said = subprocess.run(
        [sys.executable, str(program), str(tmp_path)], check=True, capture_output=True, text=True
    ).stdout
    assert said.split() == ["3.0", "False", "2.0", "True"]
