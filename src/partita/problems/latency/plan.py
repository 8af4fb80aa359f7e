"""A latency plan: the pieces of every accelerator in the order in which they run; the rest is on the CPU."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from partita.ground.errors import InputError
from partita.ground.shown import brief
from partita.problems.latency.problem import LatencyProblem


class LatencyPlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every accelerator runs."""

    #: For each accelerator its pieces in the order in which they run, each a tuple of operator ids; an accelerator may
    #: have none, and later ones need not be listed. What is in no piece is on the CPU.
    accelerators: tuple[tuple[tuple[int, ...], ...], ...] = ()
    #: False if the pieces of an accelerator say only what is on it, and are still to be cut: see ``complete``.
    cut: bool = True

    __repr__ = brief


def homes(problem: LatencyProblem, plan: LatencyPlan) -> dict[int, tuple[int, int]]:
    """By operator id, its accelerator and its piece there; operators on the CPU are left out.

    Raises ``InputError`` if a piece is empty, or an operator is unknown or placed twice.
    """
    known = {op.id for op in problem.operators}
    found: dict[int, tuple[int, int]] = {}
    for device, pieces in enumerate(plan.accelerators):
        for number, piece in enumerate(pieces):
            if not piece:
                raise InputError(f"piece {number} of accelerator {device} has no operators; leave it out")
            for identity in piece:
                if identity not in known:
                    raise InputError(f"piece {number} of accelerator {device}: there is no operator with id {identity}")
                if identity in found:
                    other, before = found[identity]
                    raise InputError(
                        f"operator {identity} is placed twice, in piece {before} of accelerator {other} and in piece "
                        f"{number} of accelerator {device}"
                    )
                found[identity] = device, number
    return found


def on_accelerators(sets: Sequence[Iterable[int]]) -> LatencyPlan:
    """The plan with a set of operator ids on each accelerator, still to be cut into pieces."""
    return LatencyPlan(
        accelerators=tuple((tuple(sorted(ids)),) if (ids := set(one)) else () for one in sets), cut=False
    )


def complete(problem: LatencyProblem, plan: LatencyPlan) -> LatencyPlan:
    """A plan with every accelerator's operators cut into contiguous pieces, where they are not yet.

    For a set S and operators in topological order, piece(v) = max(1, max over predecessors u of piece(u) + [u outside
    S]) in S, and max over predecessors of piece(u), 0 at the start, outside S (NeurIPS 2020, §4: a free split). Forward
    and backward operators are cut apart, and forward pieces run first.

    Raises ``InputError`` if the plan is not one of the problem.
    """
    if plan.cut:
        return plan
    device_of = {v: device for v, (device, _) in homes(problem, plan).items()}
    order, before = problem.order(), readers_of(problem)[0]
    accelerators: list[tuple[tuple[int, ...], ...]] = []
    for device in range(len(plan.accelerators)):
        rows: list[tuple[int, ...]] = []
        for backward in (False, True):
            inside = [device_of.get(op.id) == device and op.backward == backward for op in problem.operators]
            piece: dict[int, int] = {}
            cut: dict[int, list[int]] = {}
            for v in order if any(inside) else ():
                if inside[v]:
                    piece[v] = max([1, *(piece[u] + (not inside[u]) for u in before[v])])
                    cut.setdefault(piece[v], []).append(problem.operators[v].id)
                else:
                    piece[v] = max((piece[u] for u in before[v]), default=0)
            rows += [tuple(cut[number]) for number in sorted(cut)]
        accelerators.append(tuple(rows))
    return LatencyPlan(accelerators=tuple(accelerators))


def readers_of(problem: LatencyProblem) -> tuple[list[list[int]], list[list[int]]]:
    """By place, the places of the operators before and after."""
    before: list[list[int]] = [[] for _ in problem.operators]
    after: list[list[int]] = [[] for _ in problem.operators]
    for u, v in problem.links():
        before[v].append(u)
        after[u].append(v)
    return before, after
