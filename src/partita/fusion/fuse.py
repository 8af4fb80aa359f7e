"""Fuse: a graph becomes one in which every group of operators that a runtime runs as one kernel is one operator."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from partita.fusion.coarsening import coarsen
from partita.fusion.rules import FusionRules, fusion_rules
from partita.fusion.types import FUSED
from partita.nouns.graph import Graph, Operator, Tensor


@dataclass(frozen=True)
class FusedGraph:
    """A graph with fused operators."""

    graph: Graph  #: The model with one operator for each group.
    #: For every operator of it the places of those of the original graph, in their order.
    groups: tuple[tuple[int, ...], ...]
    notes: tuple[str, ...]  #: What was fused, one sentence each; ``graph`` has them, too.


def fuse(graph: Graph, rules: FusionRules | str | Path | None = None) -> FusedGraph:
    """The graph as a runtime runs it that fuses operators by rules.

    A fused operator does the arithmetic of its members, reads what enters the group and its weights once, writes what
    leaves it, and needs the scratch memory of one member at a time. Priced like any other operator it is one kernel:
    one fixed time, and no traffic for what stays inside. Operators are fused only within a phase and a colocation, and
    only if all their arithmetic has one number format.

    An output of the model that the graph also shows as read by one operator is taken for a result that stays inside.

    Parameters
    ----------
    graph
        A traced model.
    rules
        Rules, the name of a table, or a file; the common ones unless stated.

    Raises
    ------
    FormatError, InputError
        If the file of rules is invalid.
    """
    rules = fusion_rules(rules)
    operators = graph.operators
    types = [rules.type_of(op.target) for op in operators]
    edges = [(t.producer, v) for t in graph.tensors if t.producer is not None for v in t.consumers]
    named: dict[int, int] = {}
    for v, op in enumerate(operators):
        if op.colocation is not None:
            named.setdefault(op.colocation, v)
    found = coarsen(
        types,
        edges,
        rules.patterns,
        free=frozenset(v for v, op in enumerate(operators) if op.free),
        kept=frozenset(t.producer for t in graph.tensors if t.producer is not None and not t.consumers),
        gains=_gains(graph),
        apart=frozenset(pair for pair in edges if not _together(operators, *pair)),
    )
    fused = [group for group in found if _fits(graph, group, named)]
    inside = {v for group in fused for v in group}
    groups = sorted([*fused, *((v,) for v in range(len(operators)) if v not in inside)], key=lambda group: group[-1])
    home = [0] * len(operators)
    for number, group in enumerate(groups):
        for v in group:
            home[v] = number
    rows = [[types[v] for v in group if not operators[v].free] for group in fused]
    notes = (rules.note(rows, len(operators), len(groups), types),)
    made = graph.replace(
        operators=tuple(_operators(graph, groups, home, types)),
        tensors=tuple(_tensors(graph, home)),
        parameters=tuple(
            msgspec.structs.replace(parameter, users=tuple(sorted({home[v] for v in parameter.users})))
            for parameter in graph.parameters
        ),
        notes=(*graph.notes, *notes),
    )
    return FusedGraph(made, tuple(groups), notes)


def _together(operators: Sequence[Operator], u: int, v: int) -> bool:
    """Whether nothing but the rules may keep two operators apart."""
    a, b = operators[u], operators[v]
    return (a.phase, a.colocation) == (b.phase, b.colocation)


def _fits(graph: Graph, group: Sequence[int], named: Mapping[int, int]) -> bool:
    """Whether the arithmetic of a group has one format, and what shares a device with a member comes after all."""
    formats = {graph.operators[v].dtype for v in group if graph.operators[v].flops}
    return len(formats) <= 1 and all(named.get(v, group[-1]) >= group[-1] for v in group)


def _gains(graph: Graph) -> list[int]:
    """Bytes that every operator writes for others."""
    gains = [0] * len(graph.operators)
    for tensor in graph.tensors:
        if tensor.producer is not None:
            gains[tensor.producer] += tensor.bytes
    return gains


def _operators(
    graph: Graph, groups: Sequence[tuple[int, ...]], home: Sequence[int], types: Sequence[str]
) -> Iterator[Operator]:
    read, written = _traffic(graph, home)
    taken = {op.name for op in graph.operators}
    for group in groups:
        members = [graph.operators[v] for v in group]
        first = members[0]
        partner = None if first.colocation is None else home[first.colocation]
        if len(group) == 1:
            yield msgspec.structs.replace(first, colocation=partner)
            continue
        kinds = [types[v] for v in group if not graph.operators[v].free]
        name = "+".join([first.name, *kinds[1:]])
        while name in taken:
            name += "+"
        taken.add(name)
        yield Operator(
            name=name,
            target=f"{FUSED}.{'+'.join(kinds)}",
            module=common_module([op.module for op in members]),
            phase=first.phase,
            # Arithmetic has one format; without any the format says nothing.
            dtype=max(members, key=lambda op: op.flops).dtype,
            flops=sum(op.flops for op in members),
            bytes_read=sum(read[v] for v in group),
            bytes_written=sum(written[v] for v in group),
            workspace_bytes=max(op.workspace_bytes for op in members),
            colocation=partner,
        )


def _traffic(graph: Graph, home: Sequence[int]) -> tuple[list[int], list[int]]:
    """Bytes every operator still reads and writes: not what stays inside its group or an earlier member has read."""
    read = [op.bytes_read for op in graph.operators]
    written = [op.bytes_written for op in graph.operators]

    def drop(readers: Sequence[int], size: int, known: set[int]) -> None:
        for v in readers:
            if home[v] in known:
                # An operator may read less than all of it.
                read[v] = max(0, read[v] - size)
            known.add(home[v])

    for tensor in graph.tensors:
        maker = tensor.producer
        drop(tensor.consumers, tensor.bytes, set() if maker is None else {home[maker]})
        if maker is not None and tensor.consumers and all(home[v] == home[maker] for v in tensor.consumers):
            written[maker] = max(0, written[maker] - tensor.bytes)
    for parameter in graph.parameters:
        drop(parameter.users, parameter.bytes, set())
    return read, written


def _tensors(graph: Graph, home: Sequence[int]) -> Iterator[Tensor]:
    """What is handed on between groups."""
    for tensor in graph.tensors:
        maker = None if tensor.producer is None else home[tensor.producer]
        readers = tuple(sorted({home[v] for v in tensor.consumers} - {maker}))
        if readers or not tensor.consumers:
            yield msgspec.structs.replace(tensor, producer=maker, consumers=readers)


def common_module(modules: Sequence[str]) -> str:
    """The innermost module that holds all."""
    parts = zip(*(module.split(".") for module in modules), strict=False)
    return ".".join(same[0] for same in itertools.takewhile(lambda row: len(set(row)) == 1, parts))
