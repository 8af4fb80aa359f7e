"""How long partita takes before it works: help pages, and the first, the second and later plans of a model.

Every row is a command in a process of its own, run ``--runs`` times; the fastest counts. Kernels and graphs are kept in
folders of this run, so that what is called cold is, and nothing of the user's is touched. Wall time is what a person
waits; on a busy machine the time on the processor (of the command and of what it started) says more.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence

from _common import add_out, write

PLAN = ("plan", "hf:gpt2", "--cluster", "4xL4")
#: The first example of the README.
LARGE = (
    *("plan", "hf:gpt2", "--set", "n_layer=48", "--set", "n_embd=1600", "--set", "n_head=25"),
    *("--set", "vocab_size=50304", "--dtype", "float16", "--cluster", "2xA100-40GB+4xT4", "--training"),
    *("--microbatches", "32", "--objective", "throughput"),
)
HELP = ((), ("plan",), ("solve",), ("compare",), ("sweep",), ("trace",), ("simulate",), ("convert",))


def timed(arguments: Sequence[str], environment: dict[str, str]) -> tuple[float, float]:
    """Seconds on the wall and on processors of one command."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "partita", *arguments], env=environment, check=True, capture_output=True, text=True
    )
    wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def row(what: str, arguments: Sequence[str], environment: dict[str, str], runs: int) -> dict[str, str | float]:
    """Run a command and print its fastest times; a line of the table."""
    found = [timed(arguments, environment) for _ in range(runs)]
    wall, cpu = min(wall for wall, _ in found), min(cpu for _, cpu in found)
    print(f"| {what} | {wall:.2f} | {cpu:.2f} |", flush=True)
    return {"command": what, "wall_s": wall, "processor_s": cpu}


def main() -> None:
    """Print the table and write it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3, help="Runs of each row but the cold ones.")
    parser.add_argument("--no-cold", action="store_true", help="Compile nothing: use the kernels that there are.")
    add_out(parser)
    given = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        environment |= {"PARTITA_CACHE": os.path.join(folder, "kept")}
        print("| | wall, s | processors, s |\n|---|--:|--:|")
        if not given.no_cold:
            cold = environment | {"NUMBA_CACHE_DIR": os.path.join(folder, "kernels")}
            rows.append(row("first example of the README, nothing compiled", LARGE, cold, 1))
            rows.append(row("the same again", LARGE, cold, given.runs))
            environment = cold
        traced = (*PLAN, "--no-cache")
        rows.append(row("`plan hf:gpt2`, first run", traced, environment, 1))
        rows.append(row("`plan hf:gpt2`, traced", traced, environment, given.runs))
        rows.append(row("`plan hf:gpt2`, traced and kept", PLAN, environment, 1))
        rows.append(row("`plan hf:gpt2`, its graph kept before", PLAN, environment, given.runs))
        for command in HELP:
            rows.append(
                row(f"`partita {' '.join((*command, '--help'))}`", (*command, "--help"), environment, given.runs)
            )
    write(given.out / "start_up.csv", rows)


if __name__ == "__main__":
    main()
