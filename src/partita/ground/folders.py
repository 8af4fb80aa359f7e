"""The user's folder of what partita keeps because it can be made again.

``PARTITA_CACHE`` names it; empty or ``off`` means that nothing is kept. Otherwise it is ``partita`` in the folder that
the system has for such things: ``XDG_CACHE_HOME``, or ``~/.cache``; ``~/Library/Caches`` on a Mac, ``LOCALAPPDATA`` on
Windows.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

VARIABLE = "PARTITA_CACHE"


def kept_folder() -> Path | None:
    """The folder, which need not exist; None where nothing is to be kept, or nobody says where."""
    stated = os.environ.get(VARIABLE)
    if stated is not None:
        return None if stated.strip().lower() in ("", "off") else Path(stated)
    of_system = os.environ.get("XDG_CACHE_HOME") or (os.environ.get("LOCALAPPDATA") if os.name == "nt" else None)
    # What is no absolute path is to be ignored, as the XDG Base Directory Specification says.
    if of_system and os.path.isabs(of_system):
        return Path(of_system) / "partita"
    try:
        home = Path.home()
    except RuntimeError:
        return None
    return home / ("Library/Caches" if sys.platform == "darwin" else ".cache") / "partita"
