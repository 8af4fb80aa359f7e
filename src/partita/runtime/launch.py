"""The parent's side of a run: start the process that the others come from, and see that nothing stays behind."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from partita.errors import DisagreementError, InputError, RankError
from partita.runtime.job import Answer, Failure, Job, to_json

#: Seconds between two looks at the process that the others come from.
POLL_S = 0.5

#: Libraries would start threads of their own otherwise, which do not survive a fork.
ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL", "VECLIB_MAXIMUM", "NUMEXPR")}


class _Reply(msgspec.Struct):
    answer: Answer | None = None
    failure: Failure | None = None


class Host:
    """A process that runs jobs, one after the other, in processes of its own; a context manager that ends them all."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Host:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            # Without -P a file of the current folder could stand in for a module.
            [sys.executable, "-P", "-m", "partita.runtime.host"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **ONE_THREAD, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)},
            # One group, so that it can be ended with everything that comes from it.
            start_new_session=True,
        )

    def run(self, job: Job) -> Answer:
        """Run a job.

        Raises
        ------
        InputError
            If the plan, the model and what is asked for do not fit together.
        RankError
            If a process failed, was killed or hung.
        """
        if self.process is None or self.process.poll() is not None:
            self.process = self._start()
        process = self.process
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(to_json(job))
            process.stdin.flush()
            self._wait(job.timeout_s)
            line = process.stdout.readline()
        except BrokenPipeError:
            line = b""
        except BaseException:
            self.end()
            raise
        if not line:
            status = process.wait()
            self.end()
            how = f"was killed by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
            raise RankError(f"the process that all ranks come from {how}, and they ended with it")
        reply = msgspec.json.decode(line, type=_Reply)
        if reply.answer is not None:
            return reply.answer
        assert reply.failure is not None
        raise _error(reply.failure)

    def _wait(self, limit_s: float) -> None:
        """Wait for an answer; a process that is stopped for too long gives none."""
        assert self.process is not None
        assert self.process.stdout is not None
        since: float | None = None
        while not select.select([self.process.stdout], [], [], POLL_S)[0]:
            if not _is_stopped(self.process.pid):
                since = None
                continue
            now = time.monotonic()
            since = now if since is None else since
            if now - since >= limit_s:
                self.end()
                lasts = f"{now - since:.0f} s"
                raise RankError(
                    f"the process that all ranks come from hangs: it is stopped by a signal, for {lasts} now"
                )

    def end(self) -> None:
        """End everything that was started."""
        process, self.process = self.process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()


def _is_stopped(pid: int) -> bool:
    """Whether a signal has stopped a process; False where the system does not say."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0] in "Tt"
    except OSError:
        return False


def _error(failure: Failure) -> Exception:
    kinds: dict[str, Any] = {"input": InputError, "rank": RankError, "defect": DisagreementError}
    error: Exception = kinds[failure.kind](failure.message)
    if failure.details:
        error.add_note(failure.details)
    return error
