"""What can be asked of a random makespan problem."""

from __future__ import annotations

from typing import Annotated

import msgspec

from partita.problems.kind import ProblemFamily
from partita.problems.makespan.generators.graphs import random_makespan_problem
from partita.problems.settings import setting


class _Random(msgspec.Struct, frozen=True, kw_only=True):
    seed: Annotated[int, setting("Same seed, same problem.", metavar="N", least=0)] = 0
    family: Annotated[str, setting("Of graphs.")] = "layered"
    nodes: Annotated[int, setting("Operators.", metavar="N", least=1)] = 100
    devices: Annotated[int, setting("Of unlike speeds.", metavar="N", least=1)] = 4
    communication: Annotated[
        float, setting("Mean time of a flow by that of an operator on the fastest device.", metavar="X", least=0)
    ] = 1.0
    room: Annotated[
        float | None,
        setting("Memory of all devices by what operators need; no limits if not given.", metavar="X", above=0),
    ] = None
    skips: Annotated[
        float, setting("Fraction of operators with one more flow, to any later one.", metavar="X", least=0, most=1)
    ] = 0.0


GENERATORS = (
    ProblemFamily(
        "makespan",
        "A random graph over devices of unlike speeds and links of unlike bandwidths (docs/makespan.md).",
        _Random,
        lambda settings: random_makespan_problem(**msgspec.structs.asdict(settings)),
    ),
)
