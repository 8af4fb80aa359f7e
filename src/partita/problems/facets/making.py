"""How problems are made up, or made from other problems of the same kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec


@dataclass(frozen=True)
class Generator:
    """A family of random problems.

    Attributes
    ----------
    name, help
        On the command line.
    settings
        A declaration of settings; its ``seed`` says which problem.
    make
        From an instance of it to the problem.
    """

    name: str
    help: str
    settings: type[msgspec.Struct]
    make: Callable[[Any], Any]


@dataclass(frozen=True)
class Converter:
    """Any problem of the kind in a simpler form.

    Attributes
    ----------
    help
        What the form is.
    settings
        A declaration of settings.
    convert
        From a problem and an instance of it to the other problem.
    """

    help: str
    settings: type[msgspec.Struct]
    convert: Callable[[Any, Any], Any]
