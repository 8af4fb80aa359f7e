"""What can be varied, and which points of a grid say something about others."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from partita.problems.settings import Setting, setting, settings_of
from partita.run.result import Result
from partita.units import format_bytes

if TYPE_CHECKING:
    from partita.problems.facets.model import Answer

__all__ = ["Axis", "PlainSweep", "Sweep", "common_axes"]

P = TypeVar("P", bound=Any)
L = TypeVar("L", bound=Any)


@dataclass(frozen=True)
class Axis:
    """Something that a sweep varies.

    Attributes
    ----------
    name
        The key of a point.
    setting
        The list of values on the command line.
    title
        Of its column.
    key
        The key of a row; the name unless stated.
    show
        A value in words.
    """

    name: str
    setting: Setting
    title: str
    key: str = ""
    show: Callable[[Any], str] = str

    @property
    def row_key(self) -> str:
        """The key of a row."""
        return self.key or self.name


class Sweep(Protocol[P, L]):
    """What can be swept, and which points relax which."""

    @property
    def axes(self) -> Sequence[Axis]:
        """What can be varied, the outermost first."""
        ...

    def at(self, problem: P, point: Mapping[str, Any]) -> P:
        """The problem at a point; values by axis, an axis without a value stays as it is.

        Raises
        ------
        InputError
            If the problem cannot be changed so.
        """
        ...

    def place(self, problem: P, point: Mapping[str, Any]) -> dict[str, Any]:
        """Where a problem is on every axis, as plain values."""
        ...

    def relaxes(self, easier: P, harder: P) -> bool:
        """Whether every plan of ``harder`` is, by ``transfer``, one of ``easier`` that is no worse."""
        ...

    def transfer(self, plan: L, problem: P) -> L | None:
        """A plan of another point as a plan of this one; None if it does not fit."""
        ...

    def figures(
        self,
        points: Sequence[Mapping[str, Any]],
        results: Sequence[Result[P, L, Any]],
        answers: Sequence[Answer[P] | None],
    ) -> list[dict[str, Any]]:
        """Further keys of every row, as plain values; each answer is that of a model, None for a stated problem."""
        ...

    def columns(self) -> Mapping[str, tuple[str, Callable[[Any, str], str]]]:
        """Which of these the table shows: title, and the words for a value in a time unit, by key."""
        ...


def common_axes() -> tuple[Axis, ...]:
    """Devices, memory of each, and bandwidth: what most problems vary."""

    def listed(item: type, help: str, **details: Any) -> Setting:
        kind = types.GenericAlias(tuple, (item, ...))
        return setting(help, type=kind, group="grid", **details)

    return (
        Axis("devices", listed(int, "Accelerators.", flag="--devices", metavar="N,N,…", least=1), "devices"),
        Axis(
            "memory",
            listed(float, "Bytes per accelerator, or inf.", flag="--memory", metavar="B,B,…", least=0),
            "memory",
            key="memory_bytes",
            show=lambda value: "no limit" if value is None else format_bytes(value),
        ),
        Axis(
            "bandwidth",
            listed(
                float,
                "Factors on every bandwidth, e.g. 0.5,1,2.",
                flag="--bandwidth",
                metavar="X,X,…",
                above=0,
                most=sys.float_info.max,
            ),
            "bandwidth",
            show=lambda value: f"×{value:g}",
        ),
    )


class PlainSweep:
    """Every number that may be changed is an axis, and no point relaxes another."""

    def __init__(self, kind: Any) -> None:
        self.kind = kind

    @property
    def axes(self) -> Sequence[Axis]:
        """One for each number among the changes."""
        found = []
        for entry in settings_of(self.kind.changes).values():
            if entry.type in (int, float):
                listed = {**entry.__dict__, "type": types.GenericAlias(tuple, (entry.type, ...))}
                found.append(Axis(entry.name, Setting(**listed), entry.name.replace("_", " ")))
        return found

    def at(self, problem: Any, point: Mapping[str, Any]) -> Any:
        """Change what the point states."""
        return self.kind.change(problem, self.kind.changes(**point)) if point else problem

    def place(self, problem: Any, point: Mapping[str, Any]) -> dict[str, Any]:
        """The problem's fields of those names, or what was asked for."""
        return {axis.name: getattr(problem, axis.name, point.get(axis.name)) for axis in self.axes}

    def relaxes(self, easier: Any, harder: Any) -> bool:
        """Nothing is known of that."""
        return False

    def transfer(self, plan: Any, problem: Any) -> Any:
        """Plans stay where they are."""
        return None

    def figures(self, points: Sequence[Any], results: Sequence[Any], answers: Sequence[Any]) -> list[dict[str, Any]]:
        """Nothing more."""
        return [{} for _ in results]

    def columns(self) -> Mapping[str, tuple[str, Callable[[Any, str], str]]]:
        """Nothing more."""
        return {}
