"""The parent's side of a child process that answers requests; see ``partita.engines.processes.serving`` for its own."""

from __future__ import annotations

import collections
import contextlib
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import IO, Any

from partita.engines.processes.ending import Watched, how_ended
from partita.engines.processes.replies import Reply, packed, receive
from partita.engines.processes.shipping import shipped
from partita.ground.errors import ProcessError

#: Seconds for what a process has said to arrive after its end.
GRACE_S = 0.7
#: Libraries that start a thread per processor unless told otherwise.
_LIBRARIES = ("OMP", "OPENBLAS", "MKL", "VECLIB_MAXIMUM", "NUMEXPR")
#: Lines kept of what a child writes.
MOST_LINES = 20


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


class Child:
    """A process of its own session that runs a module's ``main``, which is to ``serve``.

    Its pipes have threads of their own: one that does not read, or writes much, holds up nobody. ``lost`` makes the
    error of its end without an answer, from what befell it and the last lines that it wrote; it is raised, too, if it
    cannot be started. Numerical libraries start at most so many ``threads`` in it. What it writes goes where this
    process's errors go if it is ``shown``; else the last lines are kept for its error. It knows the components that
    this process has registered if it is ``informed``.
    """

    def __init__(
        self,
        module: str,
        lost: Callable[[str, str], ProcessError],
        *,
        threads: int = 1,
        shown: bool = False,
        informed: bool = False,
    ) -> None:
        self.lost, self.informed = lost, informed
        self._has = b""
        try:
            self.process = subprocess.Popen(
                main_of(module),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=None if shown else subprocess.PIPE,
                env=environment(threads),
                # Ctrl-C is the parent's to interpret; and it can be ended with everything that comes from it.
                start_new_session=True,
            )
        except OSError as error:
            raise lost("cannot be started", str(error)) from error
        self.asked = 0
        self.answered = True
        self.lines: collections.deque[str] = collections.deque(maxlen=MOST_LINES)
        self._watched = Watched(self.process.pid)
        self._messages: queue.SimpleQueue[tuple[Any, ...] | None] = queue.SimpleQueue()
        self._outbox: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        pipes = (
            (self._read, self.process.stdout),
            (self._write, self.process.stdin),
            (self._listen, self.process.stderr),
        )
        self.threads = [
            threading.Thread(target=work, args=(stream,), daemon=True) for work, stream in pipes if stream is not None
        ]
        for thread in self.threads:
            thread.start()

    def _read(self, stream: IO[bytes]) -> None:
        try:
            with stream:
                while (message := receive(stream)) is not None:
                    self._messages.put(message)
        except Exception as error:
            self.lines.append(f"what it sent cannot be read: {error!r}")
        finally:
            self._messages.put(None)

    def _write(self, stream: IO[bytes]) -> None:
        # If it has ended by itself, what it said last is still among the messages.
        with contextlib.suppress(OSError), stream:
            while (data := self._outbox.get()) is not None:
                stream.write(data)
                stream.flush()

    def _listen(self, stream: IO[bytes]) -> None:
        with stream:
            self.lines.extend(line.decode(errors="replace").rstrip() for line in stream)

    @property
    def free(self) -> bool:
        """Whether it can take a request."""
        return self.answered and self.process.poll() is None and self._messages.empty()

    def ask(self, *request: Any) -> None:
        """Hand in a request; it is answered after those before it, whose answers count no more."""
        self.asked, self.answered = self.asked + 1, False
        if self.informed and self._has != (now := shipped()):
            self._has = now
            self._outbox.put(packed(self.asked, "have", now))
        self._outbox.put(packed(self.asked, "ask", *request))

    def say(self, *words: Any) -> None:
        """Say something about the last request."""
        self._outbox.put(packed(self.asked, "say", *words))

    def hear(self, seconds: float) -> Reply[Any] | tuple[Any, ...] | None:
        """The answer to the last request, or words before it; None if nothing comes within the time.

        Raises ``ProcessError``: what ``lost`` makes, if it ends before it has answered.
        """
        try:
            message = self._messages.get(timeout=seconds)
        except queue.Empty:
            return None
        if message is None:
            raise self.lost(f"{self._end()} before it had answered", "\n".join(self.lines))
        number, what, *content = message
        if number != self.asked:
            return None
        if what == "tell":
            return tuple(content)
        self.answered = True
        reply: Reply[Any] = pickle.loads(content[0])
        return reply

    def _end(self) -> str:
        """How it has ended."""
        try:
            how = how_ended(self.process.wait(GRACE_S))
        except subprocess.TimeoutExpired:
            how = "is not to be understood"
        for thread in self.threads[2:]:
            thread.join(GRACE_S)
        return how

    def check_stopped(self, limit_s: float) -> None:
        """Refuse to wait for it any longer if a signal has stopped it for so many seconds; POSIX only.

        Raises ``ProcessError``: what ``lost`` makes, if it has.
        """
        if self.process.returncode is None:
            self._watched.look()
            # Whoever has seen its end is the only one who can say so.
            self.process.returncode = self._watched.status
        if 0.0 < self._watched.stopped_s >= limit_s:
            raise self.lost(self._watched.hanging(), "")

    def end(self) -> None:
        """End it and what comes from it, whatever they are doing."""
        if hasattr(os, "killpg"):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
        self.process.kill()
        self.process.wait()
        self._outbox.put(None)
        for thread in self.threads:
            thread.join(GRACE_S)
