"""What work in another process comes to: a value, or an error, which is raised here with the traceback from there."""

from __future__ import annotations

import pickle
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from partita.ground.errors import InputError

Out = TypeVar("Out")


class WorkerTraceback(Exception):
    """Where in another process an error was raised, as text: the cause of that error here."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


@dataclass(frozen=True)
class Reply(Generic[Out]):
    """What work came to, as it goes between processes.

    Attributes
    ----------
    value
        What it handed back.
    error
        What it raised instead.
    said
        The error's name and its words, in one line.
    where, at
        The error's traceback, and when it was raised, on the clock of the machine.
    """

    value: Out | None = None
    error: Exception | None = None
    said: str = ""
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
