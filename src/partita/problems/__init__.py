"""The problems there are: one package each, found by the list in this file."""

from __future__ import annotations

from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from partita.ground.errors import InputError

if TYPE_CHECKING:
    from partita.problems.kind import AnyKind

#: Where the descriptor of each problem is. The order is that of listings; a format's first problem is its default.
PROBLEMS: dict[str, str] = {
    "throughput": "partita.problems.throughput.descriptor:THROUGHPUT",
    "hybrid": "partita.problems.hybrid.descriptor:HYBRID",
    "latency": "partita.problems.latency.descriptor:LATENCY",
    "makespan": "partita.problems.makespan.descriptor:MAKESPAN",
    "mapping": "partita.problems.mapping.descriptor:MAPPING",
    "serving": "partita.problems.serving.descriptor:SERVING",
}

_LOADED: dict[str, AnyKind] = {}


def _names() -> tuple[str, ...]:
    """Of all problems, those of the list first; one that is loaded stands in the list or was registered."""
    return tuple(dict.fromkeys([*PROBLEMS, *_LOADED]))


def find_kind(name: str) -> AnyKind:
    """The problem of a name; one that there is not is refused."""
    if name not in _LOADED:
        if name not in PROBLEMS:
            raise InputError(f"there is no problem {name!r}; known are {', '.join(_names())}")
        _LOADED[name] = resolve_name(PROBLEMS[name])
    return _LOADED[name]


def kinds() -> tuple[AnyKind, ...]:
    """All problems, those of the list first."""
    return tuple(find_kind(name) for name in _names())


def kind_of(problem: Any) -> AnyKind:
    """The descriptor of a problem's value; what is no problem is refused."""
    name = getattr(problem, "kind", None)
    if not isinstance(name, str):
        raise InputError(f"{type(problem).__name__} is not a problem; give what read_problem or price returns")
    return find_kind(name).of(problem)


def register(kind: AnyKind) -> None:
    """Add a problem from elsewhere: it gets all that the listed ones have. One whose name is taken is refused."""
    if kind.name in PROBLEMS or _LOADED.get(kind.name, kind) is not kind:
        raise InputError(f"there already is a problem {kind.name!r}; give this one another name")
    _LOADED[kind.name] = kind


def unregister(name: str) -> None:
    """Take back ``register``; listed problems stay."""
    if name not in PROBLEMS:
        _LOADED.pop(name, None)
