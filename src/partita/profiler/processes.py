"""Start the processes of a profile, wait for them, and end them all if one of them fails."""

from __future__ import annotations

import dataclasses
import os
import pickle
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from partita.errors import InputError, ProfileError
from partita.profiler.worker import Job, Report

#: Seconds between two looks at the processes.
_POLL_S = 0.05

#: Lines shown of what a process wrote before it failed.
_LINES = 3

_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def run_processes(job: Job) -> list[Report]:
    """What every process saw, by rank.

    Raises
    ------
    InputError
        If the model cannot be built or run.
    ProfileError
        If a process ends without a report.
    """
    with tempfile.TemporaryDirectory(prefix="partita-profile-") as folder:
        job = dataclasses.replace(job, folder=folder)
        path = Path(folder) / "job"
        path.write_bytes(pickle.dumps(job))
        environment = {
            **os.environ,
            **dict.fromkeys(_THREADS, str(job.threads)),
            "PYTHONPATH": os.pathsep.join(entry or os.getcwd() for entry in sys.path),
        }
        processes: list[subprocess.Popen[bytes]] = []
        try:
            for rank in range(job.processes):
                with (Path(folder) / f"log{rank}").open("wb") as log:
                    processes.append(
                        subprocess.Popen(
                            # Without -P a file of the current folder could stand in for a module.
                            [sys.executable, "-P", "-c", "from partita.profiler.worker import main; main()", str(path)],
                            stdin=subprocess.DEVNULL,
                            stdout=log,
                            stderr=log,
                            env={**environment, "RANK": str(rank)},
                        )
                    )
            return _collect(processes, Path(folder))
        finally:
            for process in processes:
                process.kill()
            for process in processes:
                process.wait()


def _collect(processes: list[subprocess.Popen[bytes]], folder: Path) -> list[Report]:
    reports: dict[int, Report] = {}
    while len(reports) < len(processes):
        time.sleep(_POLL_S)
        for rank, process in enumerate(processes):
            code = process.poll()
            if code is None or rank in reports:
                continue
            path = folder / f"report{rank}"
            if code != 0 or not path.is_file():
                said = (folder / f"log{rank}").read_text(errors="replace").strip().splitlines()[-_LINES:]
                how = f"was ended by signal {-code}" if code < 0 else f"ended with status {code}"
                raise ProfileError(f"process {rank} of the profile {how}{''.join(f': {line}' for line in said)}")
            found = pickle.loads(path.read_bytes())
            if isinstance(found, str):
                raise InputError(found)
            reports[rank] = found
    return [reports[rank] for rank in range(len(processes))]
