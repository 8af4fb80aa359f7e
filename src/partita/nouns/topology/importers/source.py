"""A file that is read: its text, and errors that name its lines."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from partita.ground.errors import FormatError, InputError


@dataclass(frozen=True)
class Source:
    """The path of a file, for messages, and its text."""

    path: str
    text: str

    def error(self, message: str, line: int | None = None) -> FormatError:
        """What is wrong, and in which line, from 1."""
        return FormatError(f"{self.path}: {message}" if line is None else f"{self.path}: line {line}: {message}")


def read_source(path: str | Path) -> Source:
    """Read a text file; ``InputError`` if it cannot be read, ``FormatError`` if it is no text."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from None
    try:
        # Windows' shells write a mark before redirected output, and two bytes for a character.
        encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
        return Source(str(path), data.decode(encoding))
    except UnicodeDecodeError as error:
        raise FormatError(f"{path} is not text in UTF-8: {error.reason} at byte {error.start}") from None
