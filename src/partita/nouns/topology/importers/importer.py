"""What an importer of topologies is."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from partita.nouns.topology.grammar import DEVICE, Option, read_options
from partita.nouns.topology.importers.text import TextFile
from partita.nouns.topology.topology import Topology


@dataclass(frozen=True)
class TopologyImporter:
    """A format of files that say how devices are joined."""

    name: str  #: Of the format.
    summary: str  #: One line for ``partita topologies``: what the file is and who writes it.
    recognises: Callable[[TextFile], bool]  #: Whether a file looks like one, also if it is damaged.
    #: Called with the file and, by keyword, the options: None where one is not given. Raises ``FormatError`` that names
    #: the line.
    read: Callable[..., Topology]
    example: str  #: A small file of the format.
    options: tuple[Option, ...] = ()  #: Beside ``device``, which every format takes.

    def load(self, source: TextFile, given: tuple[tuple[str, str], ...]) -> Topology:
        """The topology of a file with the options after its name."""
        return self.read(source, **read_options(source.path, given, (*self.options, DEVICE)))


def looks_like(pattern: str, *, within: int | None = None, case: bool = True) -> Callable[[TextFile], bool]:
    """Files in whose lines, or first characters, there is a pattern."""
    known = re.compile(pattern, re.MULTILINE if case else re.MULTILINE | re.IGNORECASE)
    return lambda source: known.search(source.text[:within]) is not None
