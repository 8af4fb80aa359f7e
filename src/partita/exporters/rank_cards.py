"""Cards of ranks that a launcher starts: what has to be said where rank n is not simply on card n."""

from __future__ import annotations

import re
from collections.abc import Sequence

from partita.exporters.cards import ORDER, Cards


def rank_lines(cards: Cards, order: Sequence[int]) -> list[str]:
    """Lines that say which card each rank has to be on; none where rank n is on card n and all are alike."""
    if not cards.mixed and tuple(order) == tuple(range(len(order))):
        return []
    return [
        f"Rank by rank, {cards.sentence(order)}.",
        f"On one host: export {ORDER} CUDA_VISIBLE_DEVICES={','.join(map(str, order))}",
    ]


def rank_cards(text: str) -> tuple[int, ...] | None:
    """The cards of such lines; None where there are none."""
    found = re.search(r"CUDA_VISIBLE_DEVICES=([\d,]+)", text)
    return None if found is None else tuple(map(int, found[1].split(",")))
