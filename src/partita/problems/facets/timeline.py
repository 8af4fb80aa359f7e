"""How a plan becomes a time line; ``InputError`` if it cannot run as asked, ``UnsupportedError`` if it has none."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, Literal

import msgspec

from partita.ground.errors import InputError, UnsupportedError
from partita.problems.facets import E, Facet, L, P
from partita.simulator.program import Contention, Order, Place, Program, Step


class RunRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a plan is to be simulated; None for what is usual for the plan."""

    schedule: str | None = None  #: Name of a schedule, or path of a CSV file that holds one.
    chunks: int | None = None  #: Stages that every rank's stage is cut into.
    microbatches: int | None = None  #: Microbatches of a batch, over all replicas.
    #: What transfers do to each other: nothing (``dedicated`` links), ``shared`` links, or one at a time (``serial``).
    contention: Contention = "dedicated"
    #: Whether weights are synchronised ``after`` the backward part of a batch or ``behind`` that of its last
    #: microbatch.
    weight_sync: Literal["after", "behind"] = "after"
    interval: float = 0.0  #: Time between the arrivals of two microbatches, in the problem's unit.


def refuse_schedules(name: str, why: str, request: RunRequest) -> None:
    """Refuse schedules, chunks and several microbatches of plans that one sample passes; ``why`` is for the message."""
    if request.schedule is not None or request.chunks is not None or request.microbatches not in (None, 1):
        raise InputError(f"problem {name!r}: {why}; leave --schedule, --chunks and --microbatches out")


def one_sample(
    name: str, unit: str, places: list[Place], steps: list[Step], edges: list[tuple[int, int]], orders: list[Order]
) -> Program:
    """The program of a plan that one sample passes once."""
    return Program(
        name=name,
        unit=unit,
        places=places,
        steps=steps,
        edges=edges,
        orders=orders,
        microbatches=1,
        schedule="as planned",
        settles=False,
    )


class TimeLine(Facet, Generic[P, L, E]):
    """Programs for the simulator, from plans."""

    def program(self, problem: P, plan: L, evaluation: E, request: RunRequest) -> Program:
        """What happens when a plan runs."""
        raise UnsupportedError(f"plans of {self.kind.title} have no time line")

    def expected(self, problem: P, plan: L, evaluation: E, program: Program) -> Mapping[str, float]:
        """What the problem's formulas say of the same run, by name; empty where they say nothing."""
        return {}

    def holdings(self, problem: P, plan: L, program: Program, place: int) -> Sequence[tuple[str, float, bool]]:
        """What the devices of a place hold: names, bytes, and whether it is held for every microbatch in flight."""
        return ()


class Remembered(Generic[P, L, E]):
    """A function of a problem, a plan and what it is worth, which reports ask for again and again.

    Values are told apart by identity; the last 64 are kept, and answers hold no time lines.
    """

    def __init__(self, function: Callable[[P, L, E], Any]) -> None:
        self.function = function
        self.known: OrderedDict[tuple[int, int], tuple[P, L, Any]] = OrderedDict()

    def __call__(self, problem: P, plan: L, evaluation: E) -> Any:
        """The function's answer."""
        key = id(problem), id(plan)
        if key not in self.known:
            # The values are kept, too, so that nothing else gets their identity.
            self.known[key] = problem, plan, self.function(problem, plan, evaluation)
            if len(self.known) > 64:
                self.known.popitem(last=False)
        return self.known[key][2]
