"""Arguments of a command line as an exporter wrote them, read again."""

from __future__ import annotations

import shlex


def read_arguments(text: str) -> dict[str, str]:
    """By name the value of every ``--name value`` in a text whose lines of remarks begin with ``#``."""
    words = [word for line in text.splitlines() if not line.startswith("#") for word in shlex.split(line)]
    found: dict[str, str] = {}
    for word, behind in zip(words, [*words[1:], "--"], strict=True):
        if word.startswith("--"):
            found[word] = "" if behind.startswith("--") else behind
    return found
