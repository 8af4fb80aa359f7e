"""Names of settings for what looks at a function while it runs: completion in notebooks reads its signature."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

FunctionT = TypeVar("FunctionT", bound=Callable[..., object])


class _Unset:
    """Stands for the default of a setting, which its description says."""

    def __repr__(self) -> str:
        return "…"


def listed(settings: type[Any]) -> Callable[[FunctionT], FunctionT]:
    """A function that takes ``**settings`` lists each of them, a ``TypedDict``'s, in its signature."""

    def wrap(function: FunctionT) -> FunctionT:
        signature = inspect.signature(function)
        *known, rest = signature.parameters.values()
        each = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=_Unset(), annotation=kind.__forward_arg__)
            for name, kind in settings.__annotations__.items()
        ]
        shown = signature.replace(parameters=[*known, *each, rest])
        function.__signature__ = shown  # type: ignore[attr-defined]
        return function

    return wrap
