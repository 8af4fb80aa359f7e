"""Sweeps on several workers: the rows of one, whatever happens to the workers."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import workload
from partita.conductor.sweep import Point, Swept, SweptPoint, grid, sweep
from partita.engines.processes.pool import Pool
from partita.problems.importers import read_problem
from partita.problems.throughput.variants import scale_bandwidth
from running.command_line import Run

#: One after the other relaxes more; of the points of one bandwidth and memory each relaxes those with fewer devices.
GRID = grid({"devices": [2, 3], "bandwidth": [0.5, 1.0], "memory": [15.0, 1e9]})


@pytest.fixture(name="chain")
def chain_fixture(tmp_path: Path) -> Path:
    path = tmp_path / "chain.json"
    path.write_text(json.dumps(workload()))
    return path


def rows(found: Swept) -> list[dict[str, Any]]:
    """Rows without what the clock says, and without the last digits of proofs: several run at once."""
    kept = [{key: value for key, value in row.items() if key != "runtime_s"} for row in found.rows()]
    digits = {"bound", "gap"}
    return [{k: round(v, 9) if k in digits and v is not None else v for k, v in row.items()} for row in kept]


def run(path: Path, pool: Pool | None, solved: Callable[[SweptPoint], None] | None = None) -> Swept:
    base = read_problem(path)

    def at(point: Point) -> Any:
        changed = base.replace(accelerators=point["devices"], memory_bytes=point["memory"])
        return scale_bandwidth(changed, point["bandwidth"])

    return sweep(GRID, at, pool=pool, solved=solved)


def process(value: int) -> int:
    """Where it runs."""
    return os.getpid()


def test_rows_do_not_depend_on_the_workers(chain: Path, two_workers: Pool) -> None:
    here, there = run(chain, None), run(chain, two_workers)
    assert rows(there) == rows(here)
    assert {row["status"] for row in rows(here)} == {"optimal", "infeasible"}
    assert two_workers.lost == 0


def test_a_killed_worker_changes_no_row(chain: Path, two_workers: Pool) -> None:
    """It dies after the first points; the others are solved as if nothing had happened."""
    killed: list[int] = []

    def kill(point: SweptPoint) -> None:
        if not killed:
            killed.append(two_workers.map(process, [0])[0])
            assert killed[0] != os.getpid()
            os.kill(killed[0], signal.SIGKILL)

    there = run(chain, two_workers, kill)
    assert killed
    assert rows(there) == rows(run(chain, None))


def test_jobs_on_the_command_line(partita: Callable[..., Run], chain: Path) -> None:
    pytest.importorskip("joblib")
    arguments = ("sweep", chain, "--devices", "1,2", "--bandwidth", "0.5,1", "--json")
    one, two = (partita(*arguments, *more).document["rows"] for more in ((), ("--jobs", "2")))
    kept = ("devices", "bandwidth", "objective", "status", "baseline", "baseline_objective")
    assert [[row[key] for key in kept] for row in two] == [[row[key] for key in kept] for row in one]
    assert len(one) == 4
