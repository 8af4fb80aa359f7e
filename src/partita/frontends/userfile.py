"""Models built by a user's Python file."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from partita.frontends.fill import fill_module
from partita.frontends.options import Asked, nearest, one_line, parse_value, where
from partita.frontends.torch import BuiltModel
from partita.ground.errors import InputError, NoBatchSizeError, TraceError
from partita.inside.messages import looks_at_values
from partita.inside.replacing import alone, replaced
from partita.inside.torchvision_inside import declare_where_missing


def build_file(spec: str, asked: Asked, *, real: bool = False) -> BuiltModel:
    """What ``path/to/file.py:callable`` builds: without weights wherever possible, or as it is if ``real``."""
    path_text, _, attribute = spec.rpartition(":")
    if not path_text or not attribute.isidentifier():
        raise InputError(f"model {spec!r} names no callable; write path/to/file.py:callable")
    path = Path(path_text)
    entry = str(path.parent.resolve())
    declare_where_missing()
    # The file can import its neighbours, and finds its own name and no arguments, as running it would.
    with alone, replaced((sys, "argv", [str(path)])):
        sys.path.insert(0, entry)
        try:
            build = _find(path, attribute)
            module, args, kwargs = _build(build, spec, _arguments(build, spec, asked), real)
        finally:
            if entry in sys.path:
                sys.path.remove(entry)
    if asked.inputs:
        args, kwargs = fill_module(asked.inputs, module, args, kwargs, spec)
    return BuiltModel(attribute, module, args, kwargs, asked, dtype=asked.dtype, notes=_adapted(module, asked))


def _adapted(module: Any, asked: Asked) -> tuple[str, ...]:
    """Give a module the adapters that were asked for; notes on them."""
    from partita.frontends.adapters import attach

    return attach(module, asked.adapters)


def _find(path: Path, attribute: str) -> Callable[..., Any]:
    if not path.is_file():
        raise InputError(f"there is no file {str(path)!r}; a model is given as path/to/file.py:callable")
    loaded = importlib.util.spec_from_file_location(path.stem, path)
    if loaded is None or loaded.loader is None:
        raise InputError(f"{str(path)!r} is not a Python file; a model is given as path/to/file.py:callable")
    module = importlib.util.module_from_spec(loaded)
    try:
        loaded.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # a user's own code
        raise InputError(f"importing {str(path)!r} fails: {one_line(error)}{where(error, path)}") from error
    found = getattr(module, attribute, None)
    if not callable(found):
        names = [n for n, v in vars(module).items() if inspect.isfunction(v) and not n.startswith("_")]
        what = "is not callable" if hasattr(module, attribute) else "does not exist"
        raise InputError(f"{attribute!r} {what} in {str(path)!r}{nearest(attribute, names)}")
    return found  # type: ignore[no-any-return]


def _arguments(build: Callable[..., Any], spec: str, asked: Asked) -> dict[str, Any]:
    parameters = inspect.signature(build).parameters
    anything = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    given: dict[str, Any] = {}
    # Whatever was asked for needs a parameter, but for training, which a module may take as it comes.
    for name, unasked in (("batch_size", None), ("sequence_length", None), ("training", asked.training)):
        value = getattr(asked, name)
        if name in parameters:
            if value is not None:
                given[name] = value
        elif value != unasked:
            refusal = NoBatchSizeError if name == "batch_size" else InputError
            raise refusal(f"{spec!r} takes no {name}; give the callable a parameter of that name")
    for name, text in asked.fields.items():
        if name not in parameters and not anything:
            raise InputError(f"{spec!r} takes no {name!r}{nearest(name, parameters)}")
        given[name] = parse_value(text)
    missing = [
        name
        for name, p in parameters.items()
        if p.default is p.empty and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) and name not in given
    ]
    if missing:
        hint = " ".join(f"--set {name}=VALUE" for name in missing)
        raise InputError(f"{spec!r} needs {', '.join(missing)}; give {hint}, or a default in the file")
    return given


def _build(
    build: Callable[..., Any], spec: str, given: dict[str, Any], real: bool
) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """What the callable returns, checked."""
    import torch

    from partita.frontends.building import build_without_weights
    from partita.inside.torch_inside import DataDependentOutputException, DynamicOutputShapeException

    try:
        result = build(**given) if real else build_without_weights(lambda: build(**given))
    except (Exception, SystemExit) as error:  # a user's own code
        asked = isinstance(error, (DataDependentOutputException, DynamicOutputShapeException))
        read = not real and (asked or looks_at_values(str(error)))
        unread = "; it is built without data, so values cannot be read" if read else ""
        path = Path(spec.rpartition(":")[0])
        raise TraceError(f"building {spec!r} fails: {one_line(error)}{where(error, path)}{unread}") from error
    form = "(module, args) or (module, args, kwargs)"
    if not isinstance(result, tuple) or len(result) not in (2, 3):
        raise InputError(f"{spec!r} returns {_describe(result)}; it must return {form}")
    module, args = result[:2]
    kwargs = result[2] if len(result) == 3 else {}
    if not isinstance(module, torch.nn.Module):
        raise InputError(f"{spec!r} returns {_describe(module)} first; it must return {form} with a torch.nn.Module")
    if isinstance(args, torch.Tensor):
        args = (args,)
    if not isinstance(args, (tuple, list)) or not isinstance(kwargs, Mapping):
        raise InputError(f"{spec!r} returns args as {_describe(args)}; it must return {form} with a tuple and a dict")
    return module, tuple(args), dict(kwargs)


def _describe(value: Any) -> str:
    return f"a {type(value).__name__} of {len(value)}" if isinstance(value, (tuple, list)) else type(value).__name__
