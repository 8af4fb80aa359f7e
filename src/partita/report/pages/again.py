"""What a reader should know, and how to make the result again."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from partita.ground.version import __version__
from partita.report.pages.markup import Markup, facts, listed, section, tag


def notes(document: Mapping[str, Any]) -> Markup:
    """Assumptions, as the document has them."""
    found = list(dict.fromkeys(document.get("notes") or ()))
    return section("notes", "Assumptions and notes", listed(found))


def again(document: Mapping[str, Any]) -> Markup:
    """The command, the versions and digests."""
    made = document.get("made")
    made = made if isinstance(made, Mapping) else {}
    pairs: list[tuple[Any, Any]] = []
    command = made.get("command")
    if command:
        pairs.append(("Command", tag("code", shlex.join(command), class_="command")))
    for key, title in (("partita", "partita"), ("python", "Python")):
        if made.get(key):
            pairs.append((title, made[key]))
    libraries = made.get("libraries")
    if isinstance(libraries, Mapping) and libraries:
        pairs.append(("Libraries", ", ".join(f"{name} {number}" for name, number in libraries.items())))
    for key, title in (("solver", "Solver"), ("seed", "Seed")):
        if document.get(key) is not None:
            pairs.append((title, document[key]))
    problem = document.get("problem")
    if isinstance(problem, Mapping) and problem.get("sha256"):
        pairs.append(("Problem (SHA-256)", tag("code", problem["sha256"])))
    inputs = made.get("inputs")
    if isinstance(inputs, Mapping):
        pairs += [(f"{path} (SHA-256)", tag("code", digest)) for path, digest in inputs.items()]
    pairs.append(("This page", f"by partita {__version__}"))
    return section("again", "Make it again", facts(pairs))
