"""Solvers end to end: neither Ctrl-C nor what a progress callback raises leaves a thread or a process behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import partita as pt
from instances.strategies import random_problem
from partita.engines.processes import kept
from partita.engines.search.result import Event
from partita.problems.hybrid.layer import Configuration, Edge, Layer
from partita.problems.hybrid.problem import HybridProblem
from running.soon import SOON_S

LIMIT_S = 4 * SOON_S


def throughput() -> pt.ThroughputProblem:
    """No solver proves it optimal in a minute."""
    return random_problem(3, 160, devices=8)


def hybrid(count: int = 26) -> HybridProblem:
    """With as many layers the search for training plans takes long."""
    random = np.random.default_rng(4)

    def space() -> dict[int, tuple[Configuration, ...]]:
        time_s, weights = random.uniform(1, 9, 2)
        return {
            degree: tuple(
                Configuration(
                    id=f"{way}",
                    time=time_s * (1 + 0.3 * way) / degree**0.9,
                    weight_bytes=weights / degree,
                    memory_per_microbatch_bytes=random.uniform(1, 4) / (degree * (1 + way)),
                )
                for way in range(3)
            )
            for degree in (1, 2, 4, 8)
        }

    edges = {(u, v) for u in range(count) for v in (u + 1, u + int(random.integers(2, 6))) if v < count and v % 3}
    return HybridProblem(
        name="slow",
        devices=32,
        microbatches=64,
        bandwidth_bytes_per_unit=3.0,
        memory_bytes=60.0,
        layers=tuple(Layer(id=i, configurations=space()) for i in range(count)),
        edges=tuple(Edge(source=u, target=v, bytes=float(random.uniform(1, 5))) for u, v in sorted(edges)),
    )


def slow(problem: Any, **options: Any) -> Callable[..., Any]:
    return lambda **more: pt.solve(problem, time_limit_s=LIMIT_S, explain=False, **options, **more)


RUNS = {
    "throughput": slow(throughput()),
    "one thread": slow(throughput(), threads=1),
    "slicing": slow(throughput(), solver="slicing"),
    "free": slow(throughput(), contiguity="free"),
    "hybrid": slow(hybrid()),
}


@pytest.fixture(scope="module", autouse=True)
def _compiled() -> None:
    """Kernels are on disk, so that their compilation takes none of the runs' time."""
    pt.solve(random_problem(3, 20, devices=3))
    pt.solve(random_problem(3, 20, devices=3), contiguity="free", time_limit_s=5.0)
    pt.solve(hybrid(count=4))


@pytest.mark.parametrize("name", list(RUNS))
def test_what_a_progress_callback_raises_ends_the_run(name: str) -> None:
    def progress(event: Event) -> None:
        if event.objective is not None:
            raised.append(time.monotonic())
            raise KeyError("in the callback")

    raised: list[float] = []
    before, others = set(threading.enumerate()), set(own_children())
    with pytest.raises(KeyError, match="in the callback"):
        RUNS[name](progress=progress)
    assert time.monotonic() - raised[0] < SOON_S, "what goes on would have gone on to the end"
    idle = [child for row in kept.IDLE.values() for child in row]
    waiting = {thread for child in idle for thread in child.threads}
    assert set(threading.enumerate()) - before - waiting == set()
    processes = {child.process.pid for child in idle}
    assert set(own_children()) - processes - others == set()


def own_children() -> list[int]:
    """Processes that this one has started and that have not ended."""
    listed = Path(f"/proc/{os.getpid()}/task")
    if not listed.exists():
        return []
    while True:
        try:
            return [int(word) for task in listed.iterdir() for word in (task / "children").read_text().split()]
        except (FileNotFoundError, ProcessLookupError):
            continue  # A thread has ended since it was listed, and another one has its children now.


SCRIPT = """
import signal
import time

# A test run in the background may have been told to ignore it.
signal.signal(signal.SIGINT, signal.default_int_handler)
import partita as pt
from partita.engines.processes import kept
from tests.engines.search.test_solvers import RUNS

class Noted(kept.Child):
    def __init__(self, *given):
        super().__init__(*given)
        print("process", self.process.pid, flush=True)

kept.Child = Noted

def progress(event):
    if event.objective is not None:
        print("found", flush=True)

try:
    result = RUNS[{name!r}](progress=progress)
    print("answered", result.plan is not None, result.stop_reason, flush=True)
    time.sleep({wait_s})
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.skipif(os.name != "posix", reason="sends signals as POSIX has them")
@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("name", [name for name in RUNS if name != "slicing"])
def test_ctrl_c(name: str, times: int) -> None:
    """One is answered with the best plan, two are an error; no process is left."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, os.getcwd()])}
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT.format(name=name, wait_s=3 * (times - 1))],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    assert process.stdout is not None
    lines = []
    while "found" not in lines:
        lines.append(process.stdout.readline().strip())
        assert process.poll() is None, lines
    time.sleep(2.0)
    process.send_signal(signal.SIGINT)
    if times == 2:
        # Long enough that the second one is not taken for the first, and short enough for the script's own sleep.
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=SOON_S)
    lines += rest.split("\n")[:-1]
    assert process.returncode == 0
    said = [line for line in lines if line != "found" and not line.startswith("process")]
    if times == 1:
        assert said == ["answered True interrupted"]
    else:
        assert said[-1] == "interrupted"
    time.sleep(0.5)
    for line in lines:
        if line.startswith("process"):
            assert not alive(int(line.split()[1]))


def alive(process: int) -> bool:
    """Whether a process runs; one that has ended and that nobody waited for does not."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except FileNotFoundError:
        return False
