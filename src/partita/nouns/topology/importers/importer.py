"""What an importer of topologies is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from partita.nouns.topology.grammar import DEVICE, Option, read_options
from partita.nouns.topology.importers.source import Source
from partita.nouns.topology.topology import Topology


@dataclass(frozen=True)
class Importer:
    """A format of files that say how devices are joined.

    Attributes
    ----------
    name
        Of the format.
    summary
        One line for ``partita topologies``: what the file is and who writes it.
    recognises
        Whether a file looks like one, also if it is damaged.
    read
        Called with the file and, by keyword, the options: None where one is not given. Raises ``FormatError`` that
        names the line.
    example
        A small file of the format.
    options
        Beside ``device``, which every format takes.
    """

    name: str
    summary: str
    recognises: Callable[[Source], bool]
    read: Callable[..., Topology]
    example: str
    options: tuple[Option, ...] = ()

    def load(self, source: Source, given: tuple[tuple[str, str], ...]) -> Topology:
        """The topology of a file with the options after its name."""
        return self.read(source, **read_options(source.path, given, (*self.options, DEVICE)))
