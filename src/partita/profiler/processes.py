"""Start the processes of a profile, wait for them, and end them all if one of them fails."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable
from contextlib import ExitStack

from partita.engines.processes.child import Child
from partita.engines.processes.replies import Reply
from partita.ground.errors import InputError, ProfileError
from partita.profiler.worker import Job, Report

#: Seconds between two looks at the processes.
_POLL_S = 0.05

#: Lines shown of what a process wrote before it failed.
_LINES = 3


def run_processes(job: Job) -> list[Report]:
    """What every process saw, by rank.

    Raises ``InputError`` if the model cannot be built or run; ``ProfileError`` if a process ends without a report.
    """
    with ExitStack() as open_ones:
        job = dataclasses.replace(
            job, folder=open_ones.enter_context(tempfile.TemporaryDirectory(prefix="partita-profile-"))
        )
        children: list[Child] = []
        for rank in range(job.processes):
            children.append(Child("partita.profiler.worker", _lost(rank), threads=job.threads))
            open_ones.callback(children[-1].end)
            children[-1].ask(job, rank)
        reports: dict[int, Report] = {}
        while len(reports) < len(children):
            for rank, child in enumerate(children):
                if rank not in reports and isinstance(found := child.hear(_POLL_S), Reply):
                    reports[rank] = _read(found, rank)
        return [reports[rank] for rank in range(len(children))]


def _lost(rank: int) -> Callable[[str, str], ProfileError]:
    def lost(cause: str, output: str) -> ProfileError:
        said = output.strip().splitlines()[-_LINES:]
        return ProfileError(": ".join([f"process {rank} of the profile {cause}", *said]))

    return lost


def _read(found: Reply[Report], rank: int) -> Report:
    if found.error is not None and not isinstance(found.error, InputError):
        raise ProfileError(f"process {rank} of the profile failed", found.said) from found.error
    return found.get()
