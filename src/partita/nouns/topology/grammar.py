"""The short form of topologies, and options after a file's name.

::

    TOPOLOGY = NAME ":" SIZE { ":" OPTION "=" VALUE }         mesh:16x16, uniform:256:seed=1
    FILE     = PATH { ":" OPTION "=" VALUE }                  topo.txt:device=A100-80GB:machines=2
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from partita.ground.errors import InputError
from partita.nouns.topology.values import parse_count, parse_device

_OPTION = re.compile(r":([A-Za-z][\w-]*)=([^:]*)$")


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

    Raises
    ------
    InputError
        If an option is unknown or given twice, or has a wrong value.
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
