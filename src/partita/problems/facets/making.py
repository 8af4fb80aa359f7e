"""How problems are made up, or made from other problems of the same kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec


@dataclass(frozen=True)
class Generator:
    """A family of random problems, or a simpler form of any problem of the kind.

    Attributes
    ----------
    name, help
        On the command line.
    settings
        A declaration of settings; a family's ``seed`` says which problem.
    make
        From an instance of it to the problem; of a simpler form, called with the other problem before that.
    """

    name: str
    help: str
    settings: type[msgspec.Struct]
    make: Callable[..., Any]
