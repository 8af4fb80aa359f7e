"""The most memory that tensors take while something runs, read off the allocator after every call."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from partita.inside.torch_inside import DispatchMode

_FIELDS = ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")


class _Info(ctypes.Structure):
    """``struct mallinfo2`` of the GNU C library (mallinfo(3)): in use are ``uordblks`` and, mapped, ``hblkhd``."""

    _fields_ = [(name, ctypes.c_size_t) for name in _FIELDS]


def in_use() -> Callable[[], int]:
    """What says how many bytes are allocated; where the C library does not say, it is 0."""
    try:
        call = ctypes.CDLL(None).mallinfo2
    except (OSError, AttributeError):
        return lambda: 0
    call.restype = _Info

    def used() -> int:
        info = call()
        return int(info.uordblks + info.hblkhd)

    return used


class Peak(DispatchMode):
    """Within, ``most_bytes`` is the most that was allocated beyond what was there before."""

    def __init__(self) -> None:
        super().__init__()
        self.used = in_use()
        self.start = self.used()
        self.most_bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        self.most_bytes = max(self.most_bytes, self.used() - self.start)
        return out
