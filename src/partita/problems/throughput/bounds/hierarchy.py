"""The bounds of problems with identical devices, which tell each other what they find, and their runs in turn."""

from __future__ import annotations

import time
from collections.abc import Sequence

from partita.ground.errors import SolverCrashError
from partita.problems.throughput.bounds.covering import CoveringBound
from partita.problems.throughput.bounds.forced_transfers import ChargeBound
from partita.problems.throughput.bounds.knowledge import HierarchyBound, Knowledge, SimpleBound
from partita.problems.throughput.bounds.node import NodeBound
from partita.problems.throughput.bounds.programs.exact import ExactBound, MergedBound
from partita.problems.throughput.bounds.programs.superblocks import NodeProgramBound
from partita.problems.throughput.bounds.windows import WindowBound

#: Cheapest first.
HIERARCHY: tuple[HierarchyBound, ...] = (
    SimpleBound(),
    NodeBound(),
    WindowBound(),
    ChargeBound(),
    NodeProgramBound(),
    CoveringBound(),
    MergedBound(),
    ExactBound(),
)


def run_hierarchy(knowledge: Knowledge, methods: Sequence[HierarchyBound], time_limit_s: float | None = None) -> None:
    """Let each method improve the knowledge in turn, until the gap closes, the time ends or ``knowledge.stop`` says so.

    They come cheapest first. What the earlier methods leave of the time is shared by the later ones as their ``share``
    says. For each method that ran, ``knowledge.proven`` gets its name, the bound that was proven when it ended (by whom
    says the incumbent's ``proven_by``) and its seconds.
    """
    began = time.perf_counter()
    if not knowledge.uniform.runs:
        knowledge.prove(float("inf"), methods[0].name)
        return
    shares = [method.share(knowledge.uniform) for method in methods]
    for place, method in enumerate(methods):
        if shares[place] == 0:
            continue
        started = time.perf_counter()
        left = None if time_limit_s is None else time_limit_s - (started - began)
        if knowledge.done or (left is not None and left <= 0 and place > 0):
            return
        try:
            method.improve(knowledge, None if left is None else max(0.0, left) * shares[place] / sum(shares[place:]))
        except SolverCrashError as error:
            knowledge.lose(error, f"{method.name} ends, the other bounds go on")
        knowledge.proven.append((method.name, knowledge.bound, time.perf_counter() - started))
