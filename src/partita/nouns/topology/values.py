"""What people write after the name of a topology: sizes, numbers, and bandwidths with a unit or by a link's name."""

from __future__ import annotations

import math
import re

from partita.ground.errors import InputError
from partita.nouns.catalogue.loader import load_catalogue

#: Bytes per second of one of each; case tells bytes from bits.
UNITS = {
    "B/s": 1.0,
    **{f"{prefix}B/s": 1e3**power for power, prefix in enumerate(("k", "M", "G", "T"), 1)},
    "KB/s": 1e3,
    **{f"{prefix}iB/s": 1024.0**power for power, prefix in enumerate(("K", "M", "G", "T"), 1)},
    **{
        f"{prefix}{bits}": 1e3**power / 8
        for power, prefix in enumerate(("", "k", "M", "G", "T"))
        for bits in ("bit/s", "b/s", "bps")
    },
    "bytes/s": 1.0,
}

_NUMBER = re.compile(r"([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*(.*)")


def parse_unit(where: str, text: str) -> float:
    """Bytes per second of one of a unit."""
    unit = UNITS.get(text.strip())
    if unit is None:
        raise InputError(f"{where}: {text!r} is no unit of bandwidth; write GB/s, MB/s, B/s, GiB/s or Gbit/s")
    return unit


def parse_bandwidth(where: str, text: str) -> float:
    """Bytes per second: ``11GB/s``, ``100Gbit/s``, a bare number of bytes, or what a link of the catalogue achieves."""
    match = _NUMBER.fullmatch(text.strip())
    if match is None:
        try:
            return load_catalogue().link(text).achievable_bytes_per_s
        except InputError as error:
            raise InputError(f"{where}: {text!r} is neither a number such as 11GB/s nor a link: {error}") from None
    value = float(match[1]) * (parse_unit(where, match[2]) if match[2] else 1.0)
    if not (math.isfinite(value) and value > 0):
        raise InputError(f"{where}: bandwidth {text!r} is out of range; it must be positive")
    return value


def parse_count(where: str, text: str) -> int:
    """A whole number of at least 1."""
    if not re.fullmatch(r"\d{1,9}", text) or int(text) < 1:
        raise InputError(f"{where}: {text!r} must be a whole number of at least 1")
    return int(text)


def parse_seed(where: str, text: str) -> int:
    """A whole number of at least 0."""
    if not re.fullmatch(r"\d{1,18}", text):
        raise InputError(f"{where}: {text!r} must be a whole number of at least 0")
    return int(text)


def parse_factor(where: str, text: str) -> float:
    """A number of at least 1, such as an oversubscription."""
    match = _NUMBER.fullmatch(text)
    value = float(match[1]) if match and not match[2] else math.nan
    if not (1 <= value < math.inf):
        raise InputError(f"{where}: {text!r} must be a number of at least 1")
    return value


def parse_device(where: str, text: str) -> str:
    """A device of the catalogue, by its own name."""
    try:
        return load_catalogue().device(text).name
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def parse_text(where: str, text: str) -> str:
    """Any text, as it is."""
    return text
