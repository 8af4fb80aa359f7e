"""What goes between processes: messages, and what work comes to, a value or an error with the traceback from there.

A message on a stream is a tuple, pickled, after its length.
"""

from __future__ import annotations

import pickle
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, Any, Generic, TypeVar

from partita.ground.errors import InputError

Out = TypeVar("Out")


class WorkerTraceback(Exception):
    """Where in another process an error was raised, as text: the cause of that error here."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


@dataclass(frozen=True)
class Reply(Generic[Out]):
    """What work came to, as it goes between processes."""

    value: Out | None = None  #: What it handed back.
    error: Exception | None = None  #: What it raised instead.
    said: str = ""  #: The error's name and its words, in one line.
    #: The error's traceback, and when it was raised, on the clock of the machine.
    where: str = ""
    at: float = 0.0

    def get(self) -> Out:
        """The value; raises the error."""
        if self.error is not None:
            raise self.error from WorkerTraceback(self.where)
        return self.value  # type: ignore[return-value]


def reply_of(work: Callable[..., Out], *given: Any) -> Reply[Out]:
    """What work comes to, its own errors included; what is no ``Exception`` leaves."""
    try:
        return Reply(work(*given))
    except Exception as error:
        return _failed(error)


def pickled_reply(work: Callable[..., Any], *given: Any) -> tuple[bool, bytes]:
    """Whether work comes to a value, and its reply as it is sent; to leave, or not to be sendable, is an error here."""
    try:
        return True, pickle.dumps(Reply(work(*given)), protocol=pickle.HIGHEST_PROTOCOL)
    except BaseException as error:
        return False, pickle.dumps(_failed(error))


def _failed(error: BaseException) -> Reply[Any]:
    said = f"{type(error).__name__}: {' '.join(str(error).split())}".removesuffix(": ")
    where = "".join(traceback.format_exception(error))
    # Some errors cannot be sent, and some would end whoever gets them; what they say can be.
    sent: Exception = InputError(str(error)) if isinstance(error, InputError) else RuntimeError(said)
    if isinstance(error, Exception):
        try:
            pickle.loads(pickle.dumps(error))
            sent = error
        except Exception:  # an error's own code: what it said is sent in its place
            pass
    return Reply(error=sent, said=said, where=where, at=time.monotonic())


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
