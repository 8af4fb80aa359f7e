"""Units: amounts of bytes as people write them."""

from __future__ import annotations

import math

import pytest

from partita.ground.units import parse_bytes


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("40GB", 40e9),
        ("40 GiB", 40 * 2.0**30),
        ("80e9", 80e9),
        ("1.5mib", 1.5 * 2**20),
        (".5kB", 500.0),
        ("7", 7.0),
        ("7B", 7.0),
        ("2TB", 2e12),
        ("inf", math.inf),
        ("-3GB", -3e9),
    ],
)
def test_bytes_with_and_without_a_unit(text: str, value: float) -> None:
    assert parse_bytes(text) == value


@pytest.mark.parametrize("text", ["", "GB", "40XB", "40GB/s", "4,0GB", "40G", "0x10", "1_000"])
def test_what_is_no_number_of_bytes(text: str) -> None:
    with pytest.raises(ValueError, match="no number of bytes"):
        parse_bytes(text)
