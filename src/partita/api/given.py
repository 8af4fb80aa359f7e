"""Settings as they were given, before it is known whose they are; what does not fit raises ``InputError``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from partita.conductor.plan import sort_settings
from partita.costs.profile import Measured, Profile
from partita.problems.kind import AnyKind
from partita.problems.settings import flags_of


class Given(Protocol):
    """Settings, as keywords of a function or as flags: two problems may mean different things by one of them."""

    def value(self, name: str) -> Any:
        """One setting as it was given; None if it was not."""

    def of_model(self, kind: AnyKind) -> Sequence[dict[str, Any]]:
        """For a model that is planned as a problem: of its search, of its pricing, and changes of the priced one."""

    def of_stated(self, kind: AnyKind, what: str) -> Sequence[dict[str, Any]]:
        """For a stated problem: of its search, and changes of it. ``what`` it is stands in messages."""

    def training(self, kind: AnyKind) -> str | None:
        """The flag of the first of them that says nothing of inference; None if there is none."""


@dataclass(frozen=True)
class Keywords:
    """Settings as keywords."""

    settings: Mapping[str, Any]

    def __post_init__(self) -> None:
        costs = self.settings.get("costs")
        if isinstance(costs, Profile):
            costs = Measured(costs)
        elif isinstance(costs, Path):
            costs = str(costs)
        # What ``profile`` answers knows its times.
        costs = getattr(costs, "costs", costs)
        if costs is not None:
            object.__setattr__(self, "settings", {**self.settings, "costs": costs})

    def value(self, name: str) -> Any:
        """Itself."""
        return self.settings.get(name)

    def of_model(self, kind: AnyKind) -> Sequence[dict[str, Any]]:
        """By declaration."""
        return sort_settings(kind, self.settings)

    def of_stated(self, kind: AnyKind, what: str) -> Sequence[dict[str, Any]]:
        """By declaration; the rest is for the search to refuse."""
        options, changes = kind.options.__struct_fields__, kind.changes.__struct_fields__
        changed = {name: value for name, value in self.settings.items() if name in changes and name not in options}
        return {name: value for name, value in self.settings.items() if name not in changed}, changed

    def training(self, kind: AnyKind) -> str | None:
        """By declaration."""
        known = flags_of(kind.declarations)
        return next((flag for flag, entry in known.items() if entry.training and entry.name in self.settings), None)
