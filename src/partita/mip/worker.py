"""The child process that runs a backend: ``python -m partita.mip.worker``, messages on its standard streams.

Backends run apart from the caller because two of them ship different builds of one shared library, so that only one of
the two can be loaded into a process; a child can also be ended at any moment, whatever it is doing.

Every message is a tuple. The parent sends ``("job", number, backend, program, settings)``, ``("stop", number)`` and
``("offer", number, values, objective)``. The child answers ``(number, "incumbent", values, objective)``,
``(number, "bound", bound)`` and at last ``(number, "result", result)`` or ``(number, "error", text)``.
"""

from __future__ import annotations

import os
import pickle
import queue
import sys
import threading
import traceback
from functools import partial
from typing import IO, Any

from partita.mip.backend import run_backend
from partita.mip.model import Callbacks, Floats


def packed(*message: Any) -> bytes:
    """One message as it is written."""
    data = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    return len(data).to_bytes(8, "little") + data


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
    """What the parent says; stops and offers count for the job they name only.

    Offers come in one thread and are taken in another: none is put aside between the look and the taking, and one for a
    job that has not begun waits for it.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        self.stream = stream
        self.jobs: queue.SimpleQueue[tuple[Any, ...]] = queue.SimpleQueue()
        self.job = 0
        self.stopped = 0
        self.offer: tuple[int, Floats, float] | None = None
        self._lock = threading.Lock()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        status = 1
        try:
            while (message := receive(self.stream)) is not None:
                if message[0] == "job":
                    self.jobs.put(message[1:])
                elif message[0] == "stop":
                    self.stopped = message[1]
                elif message[0] == "offer":
                    with self._lock:
                        self.offer = message[1:]
            status = 0
        except BaseException:
            traceback.print_exc()
        # The parent is gone, or not to be understood: nobody waits for an answer, or waits in vain.
        sys.stderr.flush()
        os._exit(status)

    def stop(self) -> bool:
        return self.stopped == self.job

    def better(self, objective: float) -> Floats | None:
        with self._lock:
            offer = self.offer
            if offer is None or offer[0] > self.job:
                return None
            self.offer = None
        return offer[1] if offer[0] == self.job and offer[2] < objective else None


def main() -> None:
    """Run jobs and report on them until the parent hangs up."""
    # Native libraries print where they like: keep the channel to ourselves.
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    inbox = _Inbox(sys.stdin.buffer)
    lock = threading.Lock()

    def tell(number: int, *message: Any) -> None:
        data = packed(number, *message)
        with lock:
            out.write(data)
            out.flush()

    while True:
        number, backend, program, settings = inbox.jobs.get()
        inbox.job = number
        calls = Callbacks(
            stop=inbox.stop,
            on_incumbent=partial(tell, number, "incumbent"),
            on_bound=partial(tell, number, "bound"),
            better=inbox.better,
        )
        try:
            tell(number, "result", run_backend(backend, program, settings, calls))
        except Exception:
            tell(number, "error", traceback.format_exc())


if __name__ == "__main__":
    try:
        main()
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    # Without looking back at the thread that reads: it holds a lock that the interpreter would wait for.
    os._exit(1)
