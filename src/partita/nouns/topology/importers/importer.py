"""What an importer of topologies is, and the file that it reads: its text, and errors that name its lines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from partita.ground.errors import FormatError, InputError
from partita.nouns.topology.grammar import DEVICE, Option, read_options
from partita.nouns.topology.topology import Topology


@dataclass(frozen=True)
class TextFile:
    """The path of a file, for messages, and its text."""

    path: str
    text: str

    def error(self, message: str, line: int | None = None) -> FormatError:
        """What is wrong, and in which line, from 1."""
        return FormatError(f"{self.path}: {message}" if line is None else f"{self.path}: line {line}: {message}")


def read_text_file(path: str | Path) -> TextFile:
    """Read a text file; ``InputError`` if it cannot be read, ``FormatError`` if it is no text."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from None
    try:
        # Windows' shells write a mark before redirected output, and two bytes for a character.
        encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
        return TextFile(str(path), data.decode(encoding))
    except UnicodeDecodeError as error:
        raise FormatError(f"{path} is not text in UTF-8: {error.reason} at byte {error.start}") from None


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
