"""The latency problem: one sample as fast as possible over accelerators that exchange tensors through host memory.

Source: Tarnawski et al., "Efficient Algorithms for Device Placement of DNN Graph Operators" (NeurIPS 2020), §4 and
Appendix A. The paper's letters are in the docstrings, the code uses words.
"""

from __future__ import annotations

import math
from typing import Annotated, ClassVar

import msgspec

from partita.ground.checks import check_at_least, check_fields, check_scale
from partita.ground.dags import check_acyclic, check_ends, topological_order
from partita.ground.errors import InputError
from partita.problems.kind import Stated
from partita.problems.settings import setting


class LatencyOperator(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One operator; times are in the problem's unit."""

    id: int  #: Unique number; plans refer to it.
    cpu_time: float  #: Time on a CPU core (p_cpu).
    accelerator_time: float | None = None  #: Time on an accelerator (p_acc); None if it cannot run there.
    transfer_time: float = 0.0  #: To move its output between host memory and an accelerator, either way (c).
    memory_bytes: float = 0.0  #: What it takes of the accelerator it is on (m).
    #: Operators of one class are on one accelerator, in whatever pieces, or all on the CPU; None for its own class.
    colocation: int | None = None
    backward: bool = False  #: Whether it is of the backward part of a training step.
    name: str = ""  #: For people.

    @property
    def label(self) -> str:
        """The operator in a message."""
        return f"operator {self.id}" + (f" ({self.name})" if self.name else "")


class LatencyProblem(Stated, frozen=True, kw_only=True):
    """Minimise the time until the last operator of one sample is done.

    Every accelerator runs a few pieces: sets of operators that are invoked as a unit. What no accelerator runs is on
    the CPU, which has cores enough. ``partita.problems.latency.evaluate`` defines what a plan costs.

    Raises
    ------
    InputError
        If a value is not finite or negative, an id repeats or is unknown, there is no operator, or the graph has a
        cycle.
    """

    kind: ClassVar[str] = "latency"
    format: ClassVar[str] = "partita.latency"

    accelerators: int  #: How many there are, all alike (k).
    memory_bytes: float | None = None  #: Memory of each (M); None for no limit.
    #: Most pieces of an accelerator (q); for training, most of its forward and most of its backward pieces.
    pieces: Annotated[int, setting("Most contiguous pieces of an accelerator.", metavar="Q", least=1)] = 1
    operators: tuple[LatencyOperator, ...]
    #: Pairs of operator ids, producer and reader; a directed acyclic graph. Each operator has one output.
    edges: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        where = f"problem {self.name!r}"
        if not self.operators:
            raise InputError(f"{where} has no operators; a plan needs at least one")
        check_at_least(f"{where}: accelerators", self.accelerators, 0)
        check_at_least(f"{where}: pieces", self.pieces)
        check_fields(where, self, "memory_bytes")
        known: set[int] = set()
        for op in self.operators:
            if op.id in known:
                raise InputError(f"{where}: operator id {op.id} appears twice; ids must be unique")
            known.add(op.id)
            check_fields(f"{where}: {op.label}", op, "cpu_time", "accelerator_time", "transfer_time", "memory_bytes")
        seen: set[tuple[int, int]] = set()
        for source, target in self.edges:
            owner = f"{where}: edge {source} → {target}"
            check_ends(owner, "operator", (source, target), known)
            if (source, target) in seen:
                raise InputError(f"{owner} appears twice; give it once")
            seen.add((source, target))
        check_acyclic(where, "operators", [op.id for op in self.operators], self.links())

    def replace(self, *, memory_bytes: float | None = None, **changes: object) -> LatencyProblem:  # type: ignore[override]
        """A copy with changes, validated again; infinite ``memory_bytes`` removes the limit.

        Raises
        ------
        InputError
            If a changed value is invalid.
        """
        if memory_bytes is not None:
            changes["memory_bytes"] = None if memory_bytes == math.inf else memory_bytes
        return msgspec.structs.replace(self, **changes)

    def scale_communication(self, factor: float) -> LatencyProblem:
        """A copy in which every transfer takes ``factor`` times as long.

        Raises
        ------
        InputError
            If the factor is not finite, or negative.
        """
        check_scale(factor)
        if factor == 1.0:
            return self
        return self.replace(
            operators=tuple(
                msgspec.structs.replace(op, transfer_time=op.transfer_time * factor) for op in self.operators
            )
        )

    @property
    def limit_bytes(self) -> float:
        """Memory of an accelerator, infinite for no limit."""
        return math.inf if self.memory_bytes is None else self.memory_bytes

    @property
    def training(self) -> bool:
        """Whether it has forward and backward operators."""
        return len({op.backward for op in self.operators}) == 2

    def links(self) -> list[tuple[int, int]]:
        """The ends of every edge, as places among the operators."""
        place = {op.id: number for number, op in enumerate(self.operators)}
        return [(place[source], place[target]) for source, target in self.edges]

    def order(self) -> list[int]:
        """Places of the operators in topological order, in the problem's own where that is free."""
        return topological_order(len(self.operators), self.links())

    def classes(self) -> list[int]:
        """By place, the number of an operator's colocation class, in the order in which they appear."""
        known: dict[tuple[bool, int], int] = {}
        return [
            known.setdefault((True, op.id) if op.colocation is None else (False, op.colocation), len(known))
            for op in self.operators
        ]
