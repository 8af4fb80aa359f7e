"""What a unit of a deployment is, one fact a field, so that what an exported file says can be compared with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import NamedTuple

from partita.exporters.unit_places import placed_units
from partita.nouns.deployment import DeployedUnits, Deployment, UnitRole

#: Cards by machine; cards of each of so many machines where a file leaves the choice to others.
Cards = tuple[tuple[int, tuple[int, ...]], ...] | tuple[int, int]


class Numbers(NamedTuple):
    """Formats as arguments of an engine say them; None for what it does by itself."""

    dtype: str | None = None
    quantization: str | None = None
    cache: str | None = None


@dataclass(frozen=True)
class UnitFacts:
    """A unit as a file says it, or as a plan has it."""

    role: UnitRole
    tensor: int
    pipeline: int
    attention_data: int
    expert: int  #: 1 without experts.
    requests: int
    tokens: int
    block_tokens: int
    chunked: bool
    mixed: bool
    interval: int
    longest: int
    memory_share: float | None
    numbers: Numbers
    cards: Cards


def facts_of_unit(group: DeployedUnits, longest: int, numbers: Numbers, cards: Cards) -> UnitFacts:
    """What a plan has of each unit of a group; ``numbers`` are its formats in the words of an engine."""
    own = {field.name: getattr(group, field.name) for field in fields(UnitFacts) if hasattr(group, field.name)}
    return UnitFacts(**own | {"expert": group.expert or 1, "longest": longest, "numbers": numbers, "cards": cards})


def unlike(meant: Iterable[UnitFacts], said: Iterable[UnitFacts]) -> list[str]:
    """What a file says otherwise than the plan, a clause each; units that are alike have no order."""
    plan, file = Counter(meant), Counter(said)
    missing, added = list((plan - file).elements()), list((file - plan).elements())
    if len(missing) != len(added):
        return [f"there are {sum(file.values())} units in the file and {sum(plan.values())} in the plan"]
    return [
        f"{name} of a unit is {getattr(other, name)!r} in the file and {getattr(one, name)!r} in the plan"
        for one, other in zip(missing, added, strict=True)
        for name in (field.name for field in fields(UnitFacts))
        if getattr(one, name) != getattr(other, name)
    ]


def machines_of_units(deployment: Deployment) -> dict[int, tuple[int, int]]:
    """By number of a group, over how many machines each of its units is, and cards on each.

    Raises ``UnsupportedError`` if the units do not fit the machines.
    """
    placed = placed_units(deployment)
    found: dict[int, tuple[int, int]] = {}
    first = 0
    for number, group in enumerate(deployment.units):
        # Units that are alike may be on fewer machines by chance; whoever places them anew has room for the widest.
        own = placed[first : first + group.count]
        machines = max(len(unit.cards) for unit in own)
        found[number] = machines, group.devices // machines
        first += group.count
    return found
