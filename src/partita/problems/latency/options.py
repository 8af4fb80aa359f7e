"""What can be asked of a latency plan: one declaration for keywords, flags and settings."""

from __future__ import annotations

from typing import Annotated

import msgspec

from partita.problems.kind import SearchOptions
from partita.problems.latency.problem import LatencyProblem
from partita.problems.settings import setting


class Options(SearchOptions, frozen=True, kw_only=True):
    """What a search may use: nothing beyond what every search may."""


class Changes(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What may be changed of a stated problem."""

    devices: Annotated[
        int | None, setting("Number of accelerators.", metavar="N", least=0, group="problem", stated=True)
    ] = None
    memory: Annotated[
        float | None,
        setting("Bytes per accelerator, or inf.", metavar="BYTES", in_bytes=True, least=0, group="problem"),
    ] = None
    pieces: Annotated[int | None, setting("Most contiguous pieces of an accelerator.", metavar="Q", least=1)] = None


def change(problem: LatencyProblem, changes: Changes) -> LatencyProblem:
    """The problem with the changes that are stated.

    Raises ``InputError`` if the problem cannot be changed so.
    """
    stated = {"accelerators": changes.devices, "pieces": changes.pieces}
    kept = {name: value for name, value in stated.items() if value is not None}
    if changes.memory is None and not kept:
        return problem
    return problem.replace(memory_bytes=changes.memory, **kept)
