"""Messages on a stream: each a tuple, pickled, after its length."""

from __future__ import annotations

import pickle
from typing import IO, Any


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
