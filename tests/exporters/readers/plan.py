"""What a runtime would run, as a reader understands its form."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class ReadPlan:
    """Fields that a form says nothing of, because the runtime has nothing such, keep their defaults.

    Attributes
    ----------
    blocks
        Numbers of layers of the list, by stage in pipeline order.
    modules
        Stage of every module that is named, by name.
    cards
        Cards of every stage, as numbers of all that the host has, replica after replica; None if the form leaves them
        to the launcher, which takes them in order.
    rest
        Degrees, batch, memory options and formats by name.
    """

    blocks: list[int] | None = None
    modules: dict[str, int] = field(default_factory=dict)
    cards: list[list[int]] | None = None
    rest: dict[str, Any] = field(default_factory=dict)


def visible_cards(text: str) -> list[int] | None:
    """Numbers behind ``CUDA_VISIBLE_DEVICES=``; the order of the bus is what they count only where that is said."""
    for line in text.splitlines():
        words = line.split()
        for word in words:
            if word.startswith("CUDA_VISIBLE_DEVICES="):
                value = word.partition("=")[2]
                assert not value or "CUDA_DEVICE_ORDER=PCI_BUS_ID" in text
                return [int(part) for part in value.split(",") if part]
    return None
