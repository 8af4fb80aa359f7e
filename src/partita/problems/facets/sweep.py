"""What can be varied, and which points of a grid say something about others."""

from __future__ import annotations

import dataclasses
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic

from partita.engines.search.result import Result
from partita.ground.units import format_bytes
from partita.problems.facets import Facet, L, P
from partita.problems.settings import Setting, setting, settings_of

if TYPE_CHECKING:
    from partita.problems.facets.model import ModelPlan


@dataclass(frozen=True)
class Axis:
    """Something that a sweep varies: the key of a point, and the setting that takes its list of values.

    ``title`` is that of its column, ``key`` the key of a row (the name unless stated), ``show`` a value in words.
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


def listed(entry: Setting) -> Setting:
    """The setting that takes several values of another one; of counts, ranges as well."""
    mark, counts = entry.metavar or "X", entry.type is int
    several = types.GenericAlias(tuple, (entry.type, ...))
    return dataclasses.replace(
        entry, type=several, group="grid", metavar=f"{mark},{mark},…", default=None, counts=counts
    )


#: Devices, memory of each, and bandwidth: what most problems vary.
DEVICE_AXES = (
    Axis(
        "devices",
        listed(setting("Accelerators.", "--devices", type=int, metavar="N", least=1, unit="devices")),
        "devices",
    ),
    Axis(
        "memory",
        listed(setting("Bytes per accelerator, or inf.", "--memory", type=float, metavar="B", in_bytes=True, least=0)),
        "memory",
        key="memory_bytes",
        show=lambda value: "no limit" if value is None else format_bytes(value),
    ),
    Axis(
        "bandwidth",
        listed(
            setting(
                "Factors on every bandwidth, e.g. 0.5,1,2.",
                "--bandwidth",
                type=float,
                above=0,
                most=sys.float_info.max,
                unit="factor",
                meaning="Factors on every bandwidth, for example (0.5, 1, 2).",
            )
        ),
        "bandwidth",
        show=lambda value: f"×{value:g}",
    ),
)


class Sweep(Facet, Generic[P, L]):
    """What can be swept, and which points relax which; by default every number that may be changed of a problem."""

    @property
    def axes(self) -> Sequence[Axis]:
        """What can be varied, the outermost first."""
        numbers = [entry for entry in settings_of(self.kind.changes).values() if entry.type in (int, float)]
        return [Axis(entry.name, listed(entry), entry.name.replace("_", " ")) for entry in numbers]

    def at(self, problem: P, point: Mapping[str, Any]) -> P:
        """The problem at a point; values by axis, an axis without a value stays. ``InputError`` if it cannot be so."""
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
        answers: Sequence[ModelPlan[P] | None],
    ) -> list[dict[str, Any]]:
        """Further keys of every row, as plain values; each answer is that of a model, None for a stated problem."""
        return [{} for _ in results]

    def columns(self) -> Mapping[str, tuple[str, Callable[[Any, str], str]]]:
        """Which of these the table shows: title, and the words for a value in a time unit, by key."""
        return {}
