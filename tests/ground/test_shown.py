"""Large values show themselves in one short line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pytest

from partita.ground.shown import brief


class Box(msgspec.Struct):
    name: str
    parts: Any = ()
    inside: Any = None

    __repr__ = brief


@dataclass
class Crate:
    name: str
    parts: Any = ()

    __repr__ = brief


@pytest.mark.parametrize("kind", [Box, Crate])
def test_short_parts_are_written_out(kind: Any) -> None:
    assert repr(kind("a", (1, 2.5, None))).startswith(f"{kind.__name__}(name='a', parts=(1, 2.5, None)")
    assert "parts=(1,)" in repr(kind("a", (1,)))
    assert "parts={'x': [1, 2]}" in repr(kind("a", {"x": [1, 2]}))


@pytest.mark.parametrize("parts", [tuple(range(1000)), {n: n for n in range(1000)}, np.zeros(1000), set(range(1000))])
def test_of_long_parts_there_is_the_number(parts: Any) -> None:
    assert repr(Box("a", parts)) == "Box(name='a', parts=<1000 entries>, inside=None)"


def test_long_texts_are_cut_and_others_inside_named() -> None:
    assert repr(Box("n" * 500)) == f"Box(name={'n' * 79!r}…, parts=(), inside=None)"
    assert repr(Box("a", inside=Box("b"))) == "Box(name='a', parts=(), inside=<Box 'b'>)"
    assert repr(Box("a", (Box("b" * 70), Box("c" * 70)))) == "Box(name='a', parts=<2 entries>, inside=None)"


def test_a_line_has_an_end() -> None:
    many = msgspec.defstruct("Many", [(f"field_{n}", str, "x" * 60) for n in range(100)])
    assert len(brief(many())) == 1000
