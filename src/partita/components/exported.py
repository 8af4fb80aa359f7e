"""The runtimes that there are."""

from __future__ import annotations

from partita.components.entries import Entry, Listing, package_of, tell_strangers
from partita.exporters import ALL_EXPORTERS
from partita.nouns.catalogue.runtimes import Limits


class RuntimeEntry(Entry, frozen=True, kw_only=True):
    """A runtime that plans are exported to: what it can express, where that is documented, what else it takes."""

    limits: Limits
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
    return Listing("exporters", found, lambda entry: (entry.name, entry.summary))
