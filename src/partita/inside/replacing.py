"""Putting something of one's own in the place of what other libraries have, for a while."""

from __future__ import annotations

import threading
from collections.abc import Iterator, MutableMapping
from contextlib import ExitStack, contextmanager
from typing import Any

#: Held while anything of the process is not as it was: one thread at a time builds or traces a model. A trace may
#: build, and a build may trace.
alone = threading.RLock()


@contextmanager
def replaced(*changes: tuple[Any, str, Any]) -> Iterator[None]:
    """Within, entries of tables and attributes of anything else have other values: owner, name and value of each."""
    with ExitStack() as after:
        for owner, name, value in changes:
            if isinstance(owner, MutableMapping):
                after.callback(*((owner.__setitem__, name, owner[name]) if name in owner else (owner.pop, name, None)))
                owner[name] = value
            else:
                held = vars(owner)
                after.callback(*((setattr, owner, name, held[name]) if name in held else (delattr, owner, name)))
                setattr(owner, name, value)
        yield
