"""What a child process is started with: a command, and an environment in which it finds what this process finds."""

from __future__ import annotations

import os
import sys

#: Libraries that start a thread per processor unless told otherwise.
_LIBRARIES = ("OMP", "OPENBLAS", "MKL", "VECLIB_MAXIMUM", "NUMEXPR")


def module_paths() -> str:
    """Where this process finds modules, as ``PYTHONPATH`` has it."""
    return os.pathsep.join(path or os.getcwd() for path in sys.path)


def environment(threads: int = 1) -> dict[str, str]:
    """Variables of this process, its paths, and how many threads numerical libraries may start."""
    limits = {f"{library}_NUM_THREADS": str(threads) for library in _LIBRARIES}
    return {**os.environ, **limits, "PYTHONPATH": module_paths()}


def main_of(module: str) -> list[str]:
    """The command that runs a module's ``main``; its classes keep their names, which ``-m`` would change."""
    # Without -P a file of the current folder could stand in for a module.
    return [sys.executable, "-P", "-c", f"from {module} import main; main()"]
