"""Slurm's host lists: ``tux[0-3,12],rack[1-2]n[00-15]``."""

from __future__ import annotations

import re
from itertools import product

#: More names than this are taken for a slip of the keyboard.
MAX_NAMES = 65536

_PART = re.compile(r"\[([^\[\]]*)\]|([^\[\],\s]+)")
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")


def expand(text: str) -> list[str]:
    """The names of a list in order; ``ValueError`` says what is wrong with it."""
    names: list[str] = []
    for entry in _entries(text):
        parts: list[list[str]] = []
        at = 0
        while at < len(entry):
            match = _PART.match(entry, at)
            if match is None:
                raise ValueError(f"{entry!r} is no name or list such as tux[0-3,12]")
            parts.append([match[2]] if match[1] is None else _numbers(match[1], entry))
            at = match.end()
        size = len(names)
        for part in parts:
            size = max(1, size) * len(part)
        if size > MAX_NAMES:
            raise ValueError(f"{entry!r} has more than {MAX_NAMES} names")
        names += ["".join(chosen) for chosen in product(*parts)]
    return names


def _entries(text: str) -> list[str]:
    """Parts between commas outside brackets."""
    entries, depth = [""], 0
    for character in text:
        depth += {"[": 1, "]": -1}.get(character, 0)
        if not 0 <= depth <= 1:
            break
        if character == "," and depth == 0:
            entries.append("")
        else:
            entries[-1] += character
    if depth:
        raise ValueError(f"{text!r} has brackets that do not match")
    if not all(entries):
        raise ValueError(f"{text!r} has an empty name")
    return entries


def _numbers(text: str, entry: str) -> list[str]:
    """Numbers between brackets, padded as the first of each range is."""
    numbers: list[str] = []
    for part in text.split(","):
        match = _RANGE.fullmatch(part.strip())
        if match is None:
            raise ValueError(f"{part!r} in {entry!r} is no number or range such as 0-3")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first or last - first >= MAX_NAMES:
            raise ValueError(f"range {part!r} in {entry!r} runs backwards or is too long")
        numbers += [str(number).zfill(len(match[1])) for number in range(first, last + 1)]
    return numbers
