"""The child process that runs a backend: ``python -m partita.mip.worker``, messages on its standard streams.

Backends run apart from the caller because two of them ship different builds of one shared library, so that only one of
the two can be loaded into a process; a child can also be ended at any moment, whatever it is doing.
"""

from __future__ import annotations

import os
import pickle
import queue
import sys
import threading
from typing import IO, Any

from partita.mip.model import Callbacks, Floats, ProgramResult

__all__ = ["main", "receive", "send"]


def send(stream: IO[bytes], message: tuple[Any, ...]) -> None:
    """Write one message."""
    data = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    stream.write(len(data).to_bytes(8, "little") + data)
    stream.flush()


def receive(stream: IO[bytes]) -> tuple[Any, ...] | None:
    """Read one message; None at the end of the stream."""
    head = stream.read(8)
    if len(head) < 8:
        return None
    size = int.from_bytes(head, "little")
    data = stream.read(size)
    if len(data) < size:
        return None
    message: tuple[Any, ...] = pickle.loads(data)
    return message


class _Inbox:
    """What the parent says; stops and offers count for the job they name only."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.stream = stream
        self.jobs: queue.SimpleQueue[tuple[Any, ...]] = queue.SimpleQueue()
        self.job = 0
        self.stopped = 0
        self.offer: tuple[int, Floats, float] | None = None
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        while True:
            message = receive(self.stream)
            if message is None:
                # The parent is gone; nobody waits for an answer.
                os._exit(0)
            if message[0] == "job":
                self.jobs.put(message[1:])
            elif message[0] == "stop":
                self.stopped = message[1]
            elif message[0] == "offer":
                self.offer = message[1:]

    def stop(self) -> bool:
        return self.stopped == self.job

    def better(self, objective: float) -> Floats | None:
        offer, self.offer = self.offer, None
        return None if offer is None or offer[0] != self.job or offer[2] >= objective else offer[1]


def main() -> None:
    """Run jobs and report on them until the parent hangs up."""
    # Native libraries print where they like: keep the channel to ourselves.
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    inbox = _Inbox(sys.stdin.buffer)
    lock = threading.Lock()

    def tell(*message: Any) -> None:
        with lock:
            send(out, message)

    calls = Callbacks(
        stop=inbox.stop,
        on_incumbent=lambda values, objective: tell("incumbent", values, objective),
        on_bound=lambda bound: tell("bound", bound),
        better=inbox.better,
    )
    while True:
        number, model, backend, settings = inbox.jobs.get()
        inbox.job = number
        tell("result", run(model, backend, settings, calls))


def run(model: Any, backend: str, settings: dict[str, Any], calls: Callbacks) -> ProgramResult:
    """Run a backend in this process."""
    if backend == "highs":
        from partita.mip.highs import run_highs

        return run_highs(model, calls=calls, **settings)
    if backend == "cpsat":
        from partita.mip.cpsat import run_cpsat

        return run_cpsat(model, calls=calls, **settings)
    from partita.mip.scip import run_scip

    return run_scip(model, calls=calls, **settings)


if __name__ == "__main__":
    main()
