"""Which arguments a model's code was about to read, without having been given them, when it failed."""

from __future__ import annotations

import inspect
import linecache
import re
import traceback
from typing import Any


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
