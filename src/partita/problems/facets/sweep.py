"""What can be varied, and which points of a grid say something about others."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from partita.problems.settings import Setting, setting, settings_of
from partita.run.result import Result
from partita.units import format_bytes

if TYPE_CHECKING:
    from partita.problems.facets.model import Answer
    from partita.problems.kind import AnyKind

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


def listed(item: type, help: str, **details: Any) -> Setting:
    """A setting that takes several values."""
    return setting(help, type=types.GenericAlias(tuple, (item, ...)), group="grid", **details)


def _limits(entry: Setting) -> dict[str, Any]:
    """What several values of a setting have in common with one."""
    shared = {name: getattr(entry, name) for name in ("flag", "least", "above", "most")}
    return {**shared, "metavar": f"{entry.metavar or 'X'},{entry.metavar or 'X'},…"}


def common_axes() -> tuple[Axis, ...]:
    """Devices, memory of each, and bandwidth: what most problems vary."""
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


class Sweep(Generic[P, L]):
    """What can be swept, and which points relax which; by default every number that may be changed of a problem.

    Parameters
    ----------
    kind
        The problem's descriptor.
    """

    def __init__(self, kind: AnyKind) -> None:
        self.kind = kind

    @property
    def axes(self) -> Sequence[Axis]:
        """What can be varied, the outermost first."""
        numbers = [entry for entry in settings_of(self.kind.changes).values() if entry.type in (int, float)]
        return [
            Axis(entry.name, listed(entry.type, entry.help, **_limits(entry)), entry.name.replace("_", " "))
            for entry in numbers
        ]

    def at(self, problem: P, point: Mapping[str, Any]) -> P:
        """The problem at a point; values by axis, an axis without a value stays as it is.

        Raises
        ------
        InputError
            If the problem cannot be changed so.
        """
        changed: P = self.kind.change(problem, self.kind.changes(**point))
        return changed

    def place(self, problem: P, point: Mapping[str, Any]) -> dict[str, Any]:
        """Where a problem is on every axis, as plain values."""
        return {axis.name: getattr(problem, axis.name, point.get(axis.name)) for axis in self.axes}

    def relaxes(self, easier: P, harder: P) -> bool:
        """Whether every plan of ``harder`` is, by ``transfer``, one of ``easier`` that is no worse."""
        return False

    def transfer(self, plan: L, problem: P) -> L | None:
        """A plan of another point as a plan of this one; None if it does not fit."""
        return None

    def figures(
        self,
        points: Sequence[Mapping[str, Any]],
        results: Sequence[Result[P, L, Any]],
        answers: Sequence[Answer[P] | None],
    ) -> list[dict[str, Any]]:
        """Further keys of every row, as plain values; each answer is that of a model, None for a stated problem."""
        return [{} for _ in results]

    def columns(self) -> Mapping[str, tuple[str, Callable[[Any, str], str]]]:
        """Which of these the table shows: title, and the words for a value in a time unit, by key."""
        return {}
