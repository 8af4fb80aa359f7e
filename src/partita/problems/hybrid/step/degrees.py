"""Which context-, expert- and expert-tensor degrees a model's plans may have, and what its layers then cost."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from partita.costs.strategies.context_expert import ContextExpertPricer
from partita.costs.strategies.modes import Modes
from partita.costs.strategies.strategy import StrategySpace
from partita.ground.checks import check_positive
from partita.ground.errors import InputError
from partita.nouns.pipeline import UNSHARED, SharedDegrees
from partita.problems.hybrid.training import Training

#: Fewest tokens of a sequence on each device where degrees are not stated: with less, more replicas do as well.
FEWEST_TOKENS = 4096

Spaces = tuple[StrategySpace, ...]


@dataclass(frozen=True)
class DegreeChoices:
    """What devices may share out beside features."""

    #: Degrees that plans may have; those that suit unless stated.
    context: Sequence[int] | None = None
    expert: Sequence[int] | None = None
    capacity: float = 1.0  #: Rows of the busiest device that shares out experts, relative to the mean.
    once: bool = False  #: Whether a token is sent once to each device with experts of it, rather than once for each.
    reach: float = 1.0  #: Part of the devices that the experts of one token may be on, where routers limit it.
    #: Devices that share out the features of each expert, 0 for a tensor-parallel group; those that suit unless stated.
    expert_tensor: Sequence[int] | None = None

    @classmethod
    def of(cls, shared: SharedDegrees, capacity: float = 1.0, once: bool = False, reach: float = 1.0) -> Self:
        """Just these degrees."""
        return cls((shared.context,), (shared.expert,), capacity, once, reach, (shared.expert_tensor,))

    def check(self) -> None:
        """Refuse settings that mean nothing: no degree, one below 1, or a capacity below 1."""
        for name, asked in (("context", self.context), ("expert", self.expert)):
            if asked is not None and (not asked or min(asked) < 1):
                raise InputError(f"{name}-parallel degrees are {tuple(asked)}; give at least one, each at least 1")
        check_positive("a step", "expert capacity", self.capacity)
        if not 0.0 < self.reach <= 1.0:
            raise InputError(f"reach of a token's experts is {self.reach}; it must be above 0 and at most 1")
        if self.capacity < 1:
            raise InputError(f"expert capacity is {self.capacity}; the busiest device has the mean of rows or more")

    @property
    def asks(self) -> bool:
        """Whether a degree other than 1 is asked for."""
        apart = any(degree != 1 for asked in (self.context, self.expert) for degree in asked or ())
        return apart or any(self.expert_tensor or ())


def choose_degrees(
    pricer_of: ContextExpertPricer, sharing: DegreeChoices, modes: Mapping[int, Modes], devices: int
) -> dict[str, tuple[int, ...]]:
    """Context-, expert- and expert-tensor degrees, by their names in ``Training``.

    Those asked for, or powers of two that suit and whole experts. ``modes`` are those of each tensor-parallel degree.
    """
    powers = [1 << k for k in range(devices.bit_length())]
    found = []
    for name, asked, refusal in (
        ("context", sharing.context, pricer_of.context_refusal),
        ("expert", sharing.expert, pricer_of.expert_refusal),
    ):
        for degree in asked or ():
            wrong = refusal(degree)
            if wrong is None and degree > devices:
                wrong = f"{name}-parallel degree {degree} is more than the {devices} devices"
            if wrong is not None:
                raise InputError(f"{wrong}; take another degree")
        if asked is None:
            asked = [degree for degree in powers if refusal(degree) is None and _usual(pricer_of, name, degree)]
        found.append(tuple(sorted(set(asked))))
    return {"context": found[0], "expert": found[1], "expert_tensor": _widths(pricer_of, sharing, modes, max(found[1]))}


def _widths(
    pricer_of: ContextExpertPricer, sharing: DegreeChoices, modes: Mapping[int, Modes], expert: int
) -> tuple[int, ...]:
    """Expert-tensor degrees: those asked for, or that of the tensor-parallel group and 1 where that is another one."""
    wide = [way for degree, way in modes.items() if degree > 1]
    refused = next(filter(None, map(pricer_of.folding_refusal, wide)), None)
    if sharing.expert_tensor is None:
        return (0,) if expert == 1 or not wide or refused is not None else (0, 1)
    for degree in sharing.expert_tensor:
        wrong = refused if degree == 1 else None
        if degree > 1 and set(modes) != {degree}:
            known = ", ".join(map(str, modes))
            wrong = f"expert-tensor degree {degree} is for tensor-parallel degree {degree}, and the degrees are {known}"
        if wrong is not None:
            raise InputError(f"{wrong}; take 1 for whole experts, or 0 for experts split as all else")
    return tuple(sorted(set(sharing.expert_tensor)))


def _usual(pricer_of: ContextExpertPricer, name: str, degree: int) -> bool:
    """Whether a degree is looked at without being asked for."""
    if degree == 1 or name == "expert":
        return True
    return not isinstance(pricer_of.sequence, str) and pricer_of.sequence.tokens // degree >= FEWEST_TOKENS


def spaces_at_degrees(
    pricer_of: ContextExpertPricer,
    spaces: Sequence[StrategySpace],
    modes: dict[int, Modes],
    options: Sequence[str],
    training: Training,
) -> dict[SharedDegrees, Spaces]:
    """Spaces at all degrees that plans may have together; ``spaces`` are those where devices share out neither."""
    found: dict[SharedDegrees, Spaces] = {UNSHARED: tuple(spaces)}
    for shared in training.shared:
        without = SharedDegrees(shared.context)
        for degrees in (without, shared):
            if degrees not in found:
                whole = spaces if degrees == without else found[without]
                found[degrees] = _priced(pricer_of, whole, modes, options, degrees)
    return {shared: found[shared] for shared in training.shared if shared != UNSHARED}


def _priced(
    pricer_of: ContextExpertPricer,
    spaces: Sequence[StrategySpace],
    modes: dict[int, Modes],
    options: Sequence[str],
    degrees: SharedDegrees,
) -> Spaces:
    """Other entries for the layers that degrees change; layers that were alike still are."""
    pricer = pricer_of.at(degrees)
    ways = pricer_of.modes(pricer, modes)
    changed = set(pricer_of.experts) if degrees.shares_experts else {space.id for space in spaces}
    found: list[StrategySpace] = []
    for space in spaces:
        if space.id not in changed:
            entries = space.entries
        elif space.like != space.id:
            entries = {
                degree: tuple(dataclasses.replace(entry, layer=space.name) for entry in row)
                for degree, row in found[space.like].entries.items()
            }
        else:
            entries = {degree: pricer.entries(space.id, way, options) for degree, way in ways.items()}
        found.append(dataclasses.replace(space, entries=entries))
    return tuple(found)


def degree_notes(pricer_of: ContextExpertPricer, training: Training, sharing: DegreeChoices) -> list[str]:
    """What a reader should know of the degrees, one sentence each."""
    notes = []
    if max(training.context) > 1 and not isinstance(pricer_of.sequence, str):
        notes.append(
            f"Groups of {_counts(training.context)} devices may share out the {pricer_of.sequence.tokens} tokens of a "
            "sequence: keys and values go round a ring behind attention, which is balanced between its devices."
        )
    if max(training.expert) > 1:
        rows = "as many rows as the others" if sharing.capacity == 1 else f"{sharing.capacity:g} times the mean of rows"
        notes.append(
            f"Groups of {_counts(training.expert)} devices may share out the experts of a layer: rows travel to their "
            f"experts and back while all wait, and the busiest device has {rows}."
        )
    if max(training.expert_tensor) > 0:
        notes.append(
            "Experts may have groups of their own: each device of a tensor-parallel group sends its own tokens to "
            "whole experts, which all devices of a stage share out."
        )
    return notes


def _counts(degrees: Sequence[int]) -> str:
    return ", ".join(str(degree) for degree in degrees if degree > 1)
