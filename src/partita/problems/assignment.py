"""Which stage of a plan every operator or layer is in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from partita.ground.errors import InputError


def stage_of_each(stages: Sequence[Iterable[int]], ids: Iterable[int], noun: str) -> dict[int, int]:
    """Number of the stage of every id, given the ids that each stage lists; ``noun`` says what they are ids of.

    ``InputError`` if there is no stage, or an id is unknown, listed twice or in no stage.
    """
    if not stages:
        raise InputError("the plan has no stages")
    known, found = dict.fromkeys(ids), dict[int, int]()
    for number, listed in enumerate(stages):
        for identity in listed:
            if identity not in known:
                raise InputError(f"plan stage {number}: there is no {noun} with id {identity}")
            if identity in found:
                raise InputError(f"{noun} {identity} is placed twice, in stages {found[identity]} and {number}")
            found[identity] = number
    missing = [identity for identity in known if identity not in found]
    if missing:
        raise InputError(f"{noun} {missing[0]} is in no stage ({len(missing)} are missing)")
    return found
