"""Standard output and standard error as they come: in any encoding, closed, or into a pipe whose reader has gone."""

from __future__ import annotations

import codecs
import os
import sys
from typing import TextIO

#: Characters that an encoding may lack, each with what stands for it; a question mark does for all others.
_PLAIN = "µu ×x ·* …... −- –- —- ≤<= ≥>= →-> ◀< ²2 ³3 ’' öoe äae üue"

#: Name of the handler of encoding errors that writes these.
_HANDLER = "partita.plain"


class ReaderGoneError(Exception):
    """Nobody reads standard output any more; click would make status 1 of the error itself, which has a meaning."""


def prepare_streams() -> None:
    """Let every character be written to stdout and stderr, and what is closed take what is written."""
    codecs.register_error(_HANDLER, _plain)
    if sys.stdout is None:
        # Writing fails as it does on a full disk, rather than into the next file that is opened under its number.
        sys.stdout = _stand_in(1, os.O_RDONLY)
    if sys.stderr is None:
        sys.stderr = _stand_in(2, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors=_HANDLER)


def _plain(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    plain = {pair[0]: pair[1:] for pair in _PLAIN.split()}
    return "".join(plain.get(letter, "?") for letter in error.object[error.start : error.end]), error.end


def _stand_in(number: int, mode: int) -> TextIO:
    """The null device under the number of a stream that is closed."""
    found = os.open(os.devnull, mode)
    if found != number:
        os.dup2(found, number)
        os.close(found)
    return os.fdopen(number, "w", encoding="utf-8")
