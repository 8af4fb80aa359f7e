"""The short form of topologies, options after a file's name, and what stands there: numbers, bandwidths, devices.

::

    TOPOLOGY = NAME ":" SIZE { ":" OPTION "=" VALUE }         mesh:16x16, uniform:256:seed=1
    FILE     = PATH { ":" OPTION "=" VALUE }                  topo.txt:device=A100-80GB:machines=2
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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
_OPTION = re.compile(r":([A-Za-z][\w-]*)=([^:]*)$")


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


@dataclass(frozen=True)
class Option:
    """One option: its name, what reads its text (given what it is part of, for messages), and what it means.

    The default is text, too; None where there is none.
    """

    name: str
    parse: Callable[[str, str], Any]
    help: str
    default: str | None = None


#: Every topology takes it.
DEVICE = Option("device", parse_device, "what the devices are, from the catalogue")


def cut_options(text: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """What stands before the options, and the options as (name, value) texts in order."""
    found: list[tuple[str, str]] = []
    while match := _OPTION.search(text):
        found.append((match[1].lower().replace("-", "_"), match[2]))
        text = text[: match.start()]
    return text, tuple(reversed(found))


def read_options(where: str, given: Iterable[tuple[str, str]], known: Sequence[Option]) -> dict[str, Any]:
    """The values of all known options: those given, and what the others are unless stated.

    Raises ``InputError`` if an option is unknown or given twice, or has a wrong value.
    """
    by_name: Mapping[str, Option] = {option.name: option for option in known}
    texts = {option.name: option.default for option in known}
    seen: set[str] = set()
    for name, text in given:
        if name not in by_name:
            near = difflib.get_close_matches(name, by_name, n=1)
            hint = f"did you mean {near[0]}? " if near else ""
            raise InputError(f"{where}: there is no option {name!r}; {hint}known are {', '.join(by_name)}")
        if name in seen:
            raise InputError(f"{where}: option {name!r} is given twice")
        if not text:
            raise InputError(f"{where}: option {name!r} has no value")
        seen.add(name)
        texts[name] = text
    parsed = {name: by_name[name].parse for name in texts}
    return {name: None if text is None else parsed[name](f"{where}: {name}", text) for name, text in texts.items()}


def parse_size(where: str, text: str, least: int, most: int, form: str) -> tuple[int, ...]:
    """Numbers joined by "x", as many as a topology takes."""
    if not text:
        raise InputError(f"{where} has no size; write {form}")
    parts = re.split(r"[x×*]", text.lower())
    if not least <= len(parts) <= most:
        raise InputError(f"{where}: size {text!r} has {len(parts)} numbers; write {form}")
    try:
        return tuple(parse_count(where, part) for part in parts)
    except InputError:
        raise InputError(f"{where}: size {text!r} is not numbers of at least 1; write {form}") from None
