"""Reading and writing JSON documents: strict, with messages that name the file and the place, and atomic writes.

What cannot be read or written raises ``InputError``; what is empty, no JSON, or does not have a type's fields raises
``FormatError``.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import msgspec

from partita.ground.errors import FormatError, InputError
from partita.ground.files import content_of

T = TypeVar("T")


def read_bytes(path: str | Path) -> bytes:
    """The content of a file."""
    data = content_of(path)
    if not data.strip():
        raise FormatError(f"{path} is empty; it should hold a JSON object")
    return data


def decode(data: bytes, kind: type[T], path: str | Path) -> T:
    """Decode JSON as a type."""
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.ValidationError as error:
        raise FormatError(f"{path}: {_readable(str(error))}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise FormatError(f"{path} is not valid JSON: {_malformed(data, str(error))}") from None
    except RecursionError:
        raise FormatError(f"{path} is nested too deeply to be a partita document") from None


def _readable(message: str) -> str:
    text, _, place = message.partition(" - at ")
    text = text.replace("Object contains unknown field", "unknown key").replace(
        "Object missing required field", "missing key"
    )
    text = text[:1].lower() + text[1:] if text.startswith("Expected") else text
    return f"{text}, at {place}" if place else text


def _malformed(data: bytes, message: str) -> str:
    """Say more about the two usual causes: a cut-off file, and NaN or Infinity, which JSON does not have."""
    found: list[str] = []

    def constant(name: str) -> float:
        found.append(name)
        return 0.0

    with contextlib.suppress(ValueError, RecursionError):
        json.loads(data, parse_constant=constant)
    if found:
        return f"it contains {found[0]}, which JSON does not have; give a finite number"
    if "truncated" in message:
        return "it ends in the middle; the file was cut off"
    return message.removeprefix("JSON is malformed: ")


def document_keys(data: bytes, path: str | Path) -> dict[str, Any]:
    """The top-level object of a document, its values undecoded (``msgspec.Raw``)."""
    return decode(data, dict[str, msgspec.Raw], path)


def tagged(value: msgspec.Struct, name: str, version: int) -> dict[str, Any]:
    """A value's fields behind its format name and version."""
    fields = {field: getattr(value, field) for field in value.__struct_fields__}
    return {"format": name, "version": version, **fields}


def read_tagged(data: bytes, kind: type[T], name: str, version: int, path: str | Path) -> T:
    """Decode a document that begins with ``format`` and ``version``."""
    keys = document_keys(data, path)
    for key in ("format", "version"):
        if key not in keys:
            raise FormatError(f"{path}: missing key `{key}`; a {name} document starts with format and version")
    found = msgspec.json.decode(keys.pop("format"))
    if found != name:
        raise FormatError(f"{path}: format is {found!r}, expected {name!r}")
    number = msgspec.json.decode(keys.pop("version"))
    if number != version:
        raise FormatError(f"{path}: version {number!r} of {name} is not known here; this program reads {version}")
    return decode(msgspec.json.encode(keys), kind, path)


def sha256(value: Any) -> str:
    """Digest of a value's canonical JSON."""
    try:
        data = msgspec.json.encode(value, order="deterministic")
    except TypeError:
        # Only keys that are text can be put in order.
        data = msgspec.json.encode(msgspec.to_builtins(value, str_keys=True), order="deterministic")
    return hashlib.sha256(data).hexdigest()


def write_atomic(path: str | Path, data: bytes) -> None:
    """Write a file so that a crash leaves the old content or the new.

    The file that a symbolic link points to is replaced, not the link; pipes and device nodes are written straight to.

    Raises
    ------
    InputError
        If the place cannot be written.
    """
    path = Path(path)
    if path.is_dir():
        raise InputError(f"{path} is a folder; name a file to write")
    try:
        place = path.resolve()
        if place.exists() and not place.is_file():
            with path.open("wb") as stream:
                stream.write(data)
            return
        _replace(place, data)
    except (OSError, RuntimeError) as error:
        # A loop of symbolic links is a RuntimeError of older Pythons.
        raise InputError(f"{path} cannot be written: {getattr(error, 'strerror', None) or error}") from None


def _replace(path: Path, data: bytes) -> None:
    temporary = path.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        if not _write_nameless(temporary, data):
            # Opened like this it gets the rights of an ordinary file, and is nobody else's.
            with temporary.open("xb") as stream:
                _write_through(stream, data)
        os.replace(temporary, path)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def _write_nameless(temporary: Path, data: bytes) -> bool:
    """Write a file that gets its name at the end, so that not even a kill leaves a part of it; whether it could."""
    nameless = getattr(os, "O_TMPFILE", None)
    if nameless is None:
        return False
    try:
        number = os.open(temporary.parent, nameless | os.O_WRONLY, 0o666)
    except OSError:
        # Not every file system can.
        return False
    with os.fdopen(number, "wb") as stream:
        _write_through(stream, data)
        try:
            # Only with a folder stated does Python ask to follow the link to the file; the path is absolute anyway.
            os.link(f"/proc/self/fd/{number}", temporary, src_dir_fd=number, follow_symlinks=True)
        except OSError:
            return False
    return True


def _write_through(stream: BinaryIO, data: bytes) -> None:
    stream.write(data)
    stream.flush()
    os.fsync(stream.fileno())


def json_bytes(value: Any) -> bytes:
    """A value as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n"


def write_json(path: str | Path, value: Any) -> None:
    """Write a value as indented JSON, atomically."""
    write_atomic(path, json_bytes(value))
