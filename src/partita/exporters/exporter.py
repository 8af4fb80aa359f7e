"""What an exporter is: it says whether a runtime can run a split, and writes the split for it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from partita.catalogue.runtimes import Limits, Runtime, find_runtime
from partita.errors import UnsupportedError
from partita.exporters.refusals import refusals
from partita.split import Split

if TYPE_CHECKING:
    from pathlib import Path


class Exporter(ABC):
    """One runtime.

    Attributes
    ----------
    name
        Of the runtime, as in ``partita.catalogue.runtimes``.
    needs_model
        Whether the model itself is needed, not only its split.
    """

    name: str
    needs_model: bool = False

    @property
    def runtime(self) -> Runtime:
        """What is known of the runtime."""
        return find_runtime(self.name)

    @property
    def summary(self) -> str:
        """What it takes from a plan, in one line."""
        return self.runtime.summary

    @property
    def limits(self) -> Limits:
        """What it can express."""
        return self.runtime.limits

    def supports(self, split: Split) -> list[str]:
        """Why the runtime cannot run a split, a sentence for each reason; empty if it can."""
        return [*refusals(split, self.name, self.limits), *self.reasons(split)]

    def reasons(self, split: Split) -> Iterable[str]:
        """What the runtime refuses beyond its limits."""
        return ()

    def export(self, split: Split, path: str | Path, model: Any = None) -> list[str]:
        """Write a split for the runtime; the paths that were written.

        Parameters
        ----------
        split
            What to write.
        path
            A file, or for runtimes that take several files a folder that does not exist or is empty.
        model
            Where the model is, if it is needed and the split does not say or says something else.

        Raises
        ------
        UnsupportedError
            If the runtime cannot run the split; nothing is written.
        InputError
            If the model cannot be built, or the path not be written.
        """
        reasons = self.supports(split)
        if reasons:
            raise UnsupportedError(f"{self.name} cannot run this plan: {'; '.join(reasons)}")
        return self.write(split, path, model)

    @abstractmethod
    def write(self, split: Split, path: str | Path, model: Any) -> list[str]:
        """``export`` for a split that the runtime can run."""
