"""Whether a card that a driver reports is of a kind in the catalogue: exported scripts get this as it stands here."""

from __future__ import annotations

import itertools
import re


def is_card(kind: str, reported: str) -> bool:
    """Whether a card called so by its driver can be of a kind.

    Every word of the kind is one of the name's; a size of memory only counts where the name has one, too.
    """
    words = re.findall(r"[a-z0-9]+", reported.lower().replace(" gb", "gb"))
    # RTX 4090 is RTX4090.
    words += [first + second for first, second in itertools.pairwise(words)]
    sizes = [word for word in words if re.fullmatch(r"\d+gb", word)]
    for word in re.findall(r"[a-z0-9]+", kind.lower()):
        if word not in words and (sizes or not re.fullmatch(r"\d+gb", word)):
            return False
    return True


def check_cards(wanted: dict[int, str], names: dict[int, str]) -> None:
    """Stop if cards are not those of the plan: by number the kinds wanted, and what the driver calls those there."""
    for number, kind in sorted(wanted.items()):
        if number not in names:
            raise SystemExit(f"the plan uses card {number}, a {kind}, and there are {len(names)} cards")
        if not is_card(kind, names[number]):
            raise SystemExit(
                f"card {number} is {names[number]}, and the plan was made for a {kind} there; put the cards into the "
                "cluster's order with CUDA_DEVICE_ORDER and CUDA_VISIBLE_DEVICES, or plan with the cluster as it is"
            )
