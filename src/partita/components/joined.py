"""The topologies that there are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from partita.components.entries import ComponentEntry, Listing, package_of, tell_strangers
from partita.nouns.topology.generators import FAMILIES
from partita.nouns.topology.grammar import Option
from partita.nouns.topology.importers import FORMATS


class OptionEntry(msgspec.Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """What may stand behind a topology's size or file as ``:name=value``."""

    name: str
    default: str | None
    help: str


class TopologyEntry(ComponentEntry, frozen=True, kw_only=True):
    """A family of topologies, or a format of files that say how devices are joined."""

    kind: Literal["family", "format"]
    example: str  #: A short form, or how options stand behind a file's name.
    options: tuple[OptionEntry, ...]


def topologies() -> Listing[TopologyEntry]:
    """Families of topologies, then formats of files that say how devices are joined."""
    tell_strangers()
    families = [_topology("family", each, each.example) for each in FAMILIES]
    formats = [_topology("format", each, "FILE[:option=…]") for each in FORMATS]
    return Listing(
        "topologies", [*families, *formats], lambda entry: (entry.kind, entry.name, entry.example, entry.summary)
    )


def _topology(kind: Literal["family", "format"], found: Any, example: str) -> TopologyEntry:
    own: Sequence[Option] = found.options
    options = tuple(OptionEntry(name=each.name, default=each.default, help=each.help) for each in own)
    return TopologyEntry(
        kind=kind,
        name=found.name,
        example=example,
        summary=found.summary,
        options=options,
        package=package_of(found),
    )
