"""The plan of a model for a runtime that people use."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from partita.exporters import find_exporter
from partita.ground.errors import InputError
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


def export_split(split: Split, runtime: str, path: str | Path, model: str | None = None) -> Exported:
    """Write a split for a runtime.

    Raises
    ------
    InputError
        If there is no such runtime, it takes no model, the model cannot be built, or the path not be written.
    UnsupportedError
        If the runtime cannot run the plan; nothing is written.
    """
    exporter = find_exporter(runtime)
    if model is not None and not exporter.needs_model:
        raise InputError(f"{runtime} takes the plan alone; leave --model out")
    written = exporter.export(split, path, model)
    return Exported(runtime, tuple(map(str, written)), tuple(exporter.notes(split)))
