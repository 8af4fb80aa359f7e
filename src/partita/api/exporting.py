"""The plan of a model for a runtime that people use."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from partita.exporters.prepared import prepare
from partita.nouns.deployment import Deployment
from partita.nouns.split import Split


@dataclass(frozen=True)
class Exported:
    """What was written for a runtime.

    Attributes
    ----------
    runtime
        Its name.
    written
        Paths of the files.
    notes
        What a user has to see to that the files cannot say.
    """

    runtime: str
    written: tuple[str, ...]
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n".join([*self.written, *(f"note: {note}" for note in self.notes)])


def export_plan(what: Split | Deployment, runtime: str, path: str | Path, model: str | None = None) -> Exported:
    """Write a split, or a deployment of engines, for a runtime.

    Raises
    ------
    InputError
        If there is no such runtime, it takes no model, the model cannot be built, or the path not be written.
    UnsupportedError
        If the runtime cannot run the plan; nothing is written.
    """
    prepared = prepare(what, runtime, model)
    written = prepared.write(path)
    return Exported(prepared.name, tuple(map(str, written)), tuple(prepared.notes()))
