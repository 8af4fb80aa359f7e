"""Help pages load nothing heavy, and the live line says what is compiled."""

from __future__ import annotations

import os
import subprocess
import sys

import click
import pytest
from rich.console import Console

from partita.cli import COMMANDS, cli
from partita.cli.progress import LiveLine
from partita.engines.search import compiling

PAGES = """
import sys
from partita.cli import COMMANDS, main
for command in ([], *([name] for name in COMMANDS)):
    try:
        main([*command, "--help"])
    except SystemExit as stop:
        assert not stop.code
heavy = {"numba", "torch", "transformers", "scipy", "matplotlib", "onnx", "pandas", "highspy"} & set(sys.modules)
assert not heavy, heavy
"""


def test_no_help_page_loads_what_is_heavy() -> None:
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", PAGES], env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Usage: ") == 1 + len(COMMANDS)


LIST = """
import sys
from partita.cli import main
try:
    main(["--help"])
except SystemExit as stop:
    assert not stop.code
late = [name for name in sys.modules if name == "numpy" or name.startswith("partita.problems")]
assert not late, late
"""


def test_the_list_of_commands_makes_none_of_them() -> None:
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", LIST], env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_says_what_each_command_says_first(name: str) -> None:
    made = cli.get_command(click.Context(cli), name)
    assert made is not None
    assert made.get_short_help_str(1000) == click.Command(name, help=COMMANDS[name][1]).get_short_help_str(1000)


def test_the_live_line_counts_kernels_while_they_are_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    there = [True, False, True]
    monkeypatch.setattr(compiling, "expected", [lambda k=k: there[k] for k in range(3)])
    monkeypatch.setattr(compiling, "_depth", 0)
    line = LiveLine("splitting …")

    def shown() -> str:
        console = Console(width=80)
        with console.capture() as capture:
            console.print(line)
        return capture.get()

    assert "splitting" in shown()
    monkeypatch.setattr(compiling, "_depth", 1)
    assert "compiling 3 kernels, once on this machine" in shown()
    assert "2 of 3" in shown()
    there[1] = True
    assert "3 of 3" in shown()
    monkeypatch.setattr(compiling, "_depth", 0)
    line.update("splitting: best 3 ms")
    assert "best 3 ms" in shown()
