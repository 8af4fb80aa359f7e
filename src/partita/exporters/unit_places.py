"""Which cards of which machines each unit of a deployment gets: card numbers count a machine's accelerators from 0."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from partita.ground.errors import UnsupportedError
from partita.nouns.deployment import DeployedUnits, Deployment


@dataclass(frozen=True)
class PlacedUnit:
    """One unit, with equally many cards on each of its machines; ``number`` counts units through."""

    number: int
    group: DeployedUnits
    cards: tuple[tuple[int, tuple[int, ...]], ...]  #: By machine, ascending: the machine's number, and its cards.


#: By machine the cards that are left, by kind.
Free = list[dict[str, list[int]]]


def placed_units(deployment: Deployment) -> list[PlacedUnit]:
    """Every unit on its cards: largest units first, each on the first machines where it fits, on as few as it can.

    Units of several machines have equally many cards on each, because engines count so (vLLM and SGLang: ``--nnodes``).

    Raises ``UnsupportedError`` if a unit finds no such cards.
    """
    units = [group for group in deployment.units for _ in range(group.count)]
    free = _all_cards(deployment)
    found: dict[int, PlacedUnit] = {}
    for number in sorted(range(len(units)), key=lambda n: (-units[n].devices, n)):
        group = units[number]
        cards = next(_places(group, free), None)
        if cards is None:
            left = sum(len(cards.get(group.kind, ())) for cards in free)
            raise UnsupportedError(
                f"unit {number} ({group.label}) needs {group.devices} cards in equal shares of machines, and the "
                f"{left} that other units leave are not in such shares"
            )
        for machine, own in cards:
            free[machine][group.kind] = [card for card in free[machine][group.kind] if card not in own]
        found[number] = PlacedUnit(number, group, cards)
    return [found[number] for number in range(len(units))]


def _all_cards(deployment: Deployment) -> Free:
    found: Free = []
    for cards in deployment.machines:
        own: dict[str, list[int]] = {}
        first = 0
        for kind, count in cards:
            own.setdefault(kind, []).extend(range(first, first + count))
            first += count
        found.append(own)
    return found


def _places(group: DeployedUnits, free: Free) -> Iterator[tuple[tuple[int, tuple[int, ...]], ...]]:
    """Places of a unit, preferred ones first: few machines, and tensor-parallel groups inside them."""
    for machines in shares(group, len(free)):
        share = group.devices // machines
        fit = [number for number, own in enumerate(free) if len(own.get(group.kind, ())) >= share]
        if len(fit) >= machines:
            yield tuple((number, tuple(free[number][group.kind][:share])) for number in fit[:machines])


def shares(group: DeployedUnits, most: int) -> list[int]:
    """Over how many machines a unit can be shared out, preferred numbers first: stages and tensor groups stay whole."""

    def cut(number: int) -> tuple[bool, bool, int]:
        share = group.devices // number
        return share % (group.tensor * group.attention_data) != 0, share % group.tensor != 0, number

    return sorted((number for number in range(1, most + 1) if group.devices % number == 0), key=cut)
