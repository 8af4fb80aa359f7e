"""Where in a user's code an error comes from, and whether it comes from having no data."""

from __future__ import annotations

import sysconfig
import traceback
from pathlib import Path

from partita.inside.messages import looks_at_values


def where(error: BaseException, path: Path | None = None) -> str:
    """`` (file.py, line 3)`` of the innermost line of a user's code that an error passed; empty if there is none.

    A user's code is what lies in the folder of ``path``, or outside installed packages if no path is given.
    """
    folder = None if path is None else path.resolve().parent
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        file = Path(frame.filename)
        if _is_users(file, folder):
            return f" ({file.name}, line {frame.lineno})"
    return ""


def _is_users(file: Path, folder: Path | None) -> bool:
    if not file.is_file():
        return False
    file = file.resolve()
    if any(part in ("site-packages", "dist-packages") for part in file.parts):
        return False
    if folder is not None:
        return file.is_relative_to(folder)
    own, standard = Path(__file__).resolve().parents[1], Path(sysconfig.get_paths()["stdlib"]).resolve()
    return not (file.is_relative_to(own) or file.is_relative_to(standard))


def reads_values(error: BaseException) -> bool:
    """Whether something looked at the values of tensors that have none."""
    from partita.inside.torch_inside import DataDependentOutputException, DynamicOutputShapeException

    asked = isinstance(error, (DataDependentOutputException, DynamicOutputShapeException))
    return asked or looks_at_values(str(error))
