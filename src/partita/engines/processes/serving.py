"""The child's side of ``child``: requests are answered one after the other, until nobody asks.

The parent sends ``(number, "ask", *request)`` and, about a request, ``(number, "say", *words)``; before a request
``(number, "have", components)`` if the components that it has registered are others than before. The child answers
``(number, "tell", *words)`` as it goes, and at last ``(number, "answer", reply)``, pickled by itself.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from typing import IO, Any, NoReturn

from partita.engines.processes.ending import die_with_parent
from partita.engines.processes.replies import packed, pickled_reply, receive
from partita.engines.processes.shipping import take
from partita.ground.collecting import collect_rarely


class Request:
    """What is asked, its ``content``, and the line to whoever asks."""

    def __init__(self, number: int, content: tuple[Any, ...], out: IO[bytes]) -> None:
        self.number, self.content = number, content
        self.words: queue.SimpleQueue[tuple[Any, ...]] = queue.SimpleQueue()
        self._out, self._lock = out, threading.Lock()

    def tell(self, *words: Any) -> None:
        """Say something before the answer; from any thread."""
        self.send("tell", *words)

    def send(self, *message: Any) -> None:
        """Send a message about this request."""
        data = packed(self.number, *message)
        with self._lock:
            self._out.write(data)
            self._out.flush()

    def heard(self) -> Iterator[tuple[Any, ...]]:
        """What the parent has said about this request since the last time that somebody asked."""
        while True:
            try:
                yield self.words.get_nowait()
            except queue.Empty:
                return


def serve(work: Callable[[Request], Any], *, forks: bool = False) -> NoReturn:
    """Reply every request with what ``work`` says, until the parent hangs up; ends the process.

    With ``forks`` there is no thread beside, because threads do not survive a fork: words about a request are not
    heard, and the system is asked to end this process with its parent.
    """
    collect_rarely()
    # Code that is called prints where it likes: keep the channel to ourselves.
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    if forks:
        die_with_parent(os.getppid())
    requests = _received(sys.stdin.buffer, out) if forks else _listened(sys.stdin.buffer, out)
    status = 1
    try:
        for request in requests:
            request.send("answer", pickled_reply(work, request)[1])
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        leave(status)


def leave(status: int) -> NoReturn:
    """End this process, without waiting for threads: some hold locks, or wait for others that are gone."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _received(stream: IO[bytes], out: IO[bytes]) -> Iterator[Request]:
    """Requests, and words added to those that they are about."""
    request: Request | None = None
    while (message := receive(stream)) is not None:
        number, what, *content = message
        if what == "ask":
            request = Request(number, tuple(content), out)
            yield request
        elif what == "have":
            take(*content)
        elif request is not None and number == request.number:
            request.words.put(tuple(content))


def _listened(stream: IO[bytes], out: IO[bytes]) -> Iterator[Request]:
    """The same, heard in a thread, which ends the process once the parent is gone."""
    asked: queue.SimpleQueue[Request] = queue.SimpleQueue()

    def listen() -> None:
        status = 1
        try:
            for request in _received(stream, out):
                asked.put(request)
            status = 0
        except BaseException:
            traceback.print_exc()
        # Nobody waits for an answer, or whoever does waits in vain.
        leave(status)

    threading.Thread(target=listen, daemon=True).start()
    while True:
        yield asked.get()
