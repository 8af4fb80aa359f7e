"""Where in a user's code an error comes from, whether from having no data, or from an argument that was not given."""

from __future__ import annotations

import inspect
import linecache
import re
import sysconfig
import traceback
from pathlib import Path
from typing import Any

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


def unset_arguments(error: BaseException, model: Any) -> list[str]:
    """Names of arguments of a model's ``forward`` that are None, in the line of it that failed; empty if none is."""
    code = getattr(inspect.unwrap(type(model).forward), "__code__", None)
    cause = error.__cause__
    frames = [] if cause is None else list(traceback.walk_tb(cause.__traceback__))
    own = [(frame, line) for frame, line in frames if frame.f_code is code]
    if not own:
        return []
    frame, number = own[-1]
    words = re.findall(r"\w+", linecache.getline(frame.f_code.co_filename, number))
    names = frame.f_code.co_varnames[: frame.f_code.co_argcount + frame.f_code.co_kwonlyargcount]
    return [name for name in dict.fromkeys(words) if name in names and frame.f_locals.get(name, model) is None]
