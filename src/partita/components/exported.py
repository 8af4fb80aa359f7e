"""The runtimes that there are."""

from __future__ import annotations

from typing import Literal

from partita.components.entries import ComponentEntry, Listing, package_of, tell_strangers
from partita.exporters import ALL_EXPORTERS, DEPLOYMENT_EXPORTERS
from partita.nouns.catalogue.runtimes import Limits


class RuntimeEntry(ComponentEntry, frozen=True, kw_only=True):
    """A runtime that plans are exported to: what it can express, where that is documented, what else it takes.

    ``takes`` is ``split`` for a model in stages and ``deployment`` for engines that serve, of which there are no
    ``limits``.
    """

    takes: Literal["split", "deployment"] = "split"
    limits: Limits | None
    source: str
    needs_model: bool


def runtimes() -> Listing[RuntimeEntry]:
    """The runtimes that plans are exported to."""
    tell_strangers()
    found = [
        RuntimeEntry(
            name=exporter.name,
            summary=exporter.summary,
            package=package_of(exporter),
            limits=exporter.limits,
            source=exporter.runtime.source,
            needs_model=exporter.needs_model,
        )
        for exporter in ALL_EXPORTERS
    ]
    found += [
        RuntimeEntry(
            name=one.name, summary=one.summary, takes="deployment", limits=None, source=one.source, needs_model=False
        )
        for one in DEPLOYMENT_EXPORTERS
    ]
    return Listing("exporters", found, lambda entry: (entry.name, entry.summary))
