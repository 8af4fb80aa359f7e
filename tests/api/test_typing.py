"""A type checker takes right uses of the public functions, and refuses wrong ones."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import partita

HERE = Path(__file__).parent / "typing"
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def complaints() -> dict[str, dict[int, str]]:
    """What mypy says of both files, strictly and from the repository's cache: the first error of a line, by file."""
    command = [sys.executable, "-m", "mypy", "--no-error-summary", "--hide-error-context", "--no-pretty"]
    files = [str(HERE / name) for name in ("right.py", "wrong.py")]
    environment = {**os.environ, "MYPYPATH": str(ROOT / "src")}
    done = subprocess.run([*command, *files], cwd=ROOT, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode in (0, 1), done.stderr
    found: dict[str, dict[int, str]] = {"right.py": {}, "wrong.py": {}}
    for line in done.stdout.splitlines():
        match = re.match(r"(.*):(\d+): error: (.*)", line)
        if match:
            found.setdefault(Path(match[1]).name, {}).setdefault(int(match[2]), match[3])
    return found


def test_right_uses_are_taken(complaints: dict[str, dict[int, str]]) -> None:
    assert complaints["right.py"] == {}


def test_wrong_uses_are_refused_each(complaints: dict[str, dict[int, str]]) -> None:
    lines = (HERE / "wrong.py").read_text().splitlines()
    wrong = {number for number, line in enumerate(lines, start=1) if line.endswith("# wrong")}
    assert len(wrong) >= 10
    assert complaints["wrong.py"].keys() == wrong


def test_every_public_function_has_a_right_use() -> None:
    used = set(re.findall(r"\bpt\.(\w+)\(", (HERE / "right.py").read_text()))
    functions = {name for name in partita.__all__ if name.islower() and not name.startswith("_")}
    assert used >= functions
