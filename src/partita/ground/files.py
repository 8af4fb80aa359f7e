"""Reading a file, with errors that name it."""

from __future__ import annotations

from pathlib import Path

from partita.ground.errors import FormatError, InputError

#: Windows' shells write a mark before redirected output, and two bytes for a character.
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")


def content_of(path: str | Path) -> bytes:
    """The bytes of a file; ``InputError`` if it cannot be read."""
    try:
        return Path(path).read_bytes()
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such file") from None
    except IsADirectoryError:
        raise InputError(f"{path} is a folder; name a file") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from None


def text_of(path: str | Path) -> str:
    """The text of a file, with line ends as they are; ``FormatError`` if it is none."""
    data = content_of(path)
    try:
        return data.decode("utf-16" if data[:2] in _UTF_16 else "utf-8-sig")
    except UnicodeDecodeError as error:
        raise FormatError(f"{path} is not text in UTF-8: {error.reason} at byte {error.start}") from None
