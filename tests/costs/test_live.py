"""The bound on live bytes against every state that a run can be in."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from instances.strategies import examples
from partita.costs.live import live_bytes
from partita.nouns.graph import Graph, Operator, Tensor


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Random graphs with inputs, results that nobody reads, and slices."""
    count = draw(st.integers(1, 6))
    tensors = [
        Tensor(
            name="x",
            producer=None,
            consumers=tuple(sorted(draw(st.sets(st.integers(0, count - 1))))),
            bytes=draw(st.integers(0, 9)),
        )
    ]
    for v in range(count):
        for k in range(draw(st.integers(1, 2))):
            readers = draw(st.sets(st.integers(v + 1, count - 1))) if v < count - 1 else set()
            tensors.append(
                Tensor(name=f"t{v}.{k}", producer=v, consumers=tuple(sorted(readers)), bytes=draw(st.integers(0, 9)))
            )
    operators = tuple(Operator(name=f"o{v}", target="x") for v in range(count))
    return Graph(name="random", operators=operators, tensors=tuple(tensors))


def most_alive(graph: Graph) -> int:
    """The most bytes over all pairs of what has started and what has ended."""
    count = len(graph.operators)
    before = [{t.producer for t in graph.tensors if v in t.consumers and t.producer is not None} for v in range(count)]
    best = 0
    for begun in itertools.product((False, True), repeat=count):
        for ended in itertools.product((False, True), repeat=count):
            if any(e and not b for b, e in zip(begun, ended, strict=True)):
                continue
            if any(begun[v] and not all(ended[u] for u in before[v]) for v in range(count)):
                continue
            held = sum(
                t.bytes
                for t in graph.tensors
                if (begun[t.producer] if t.producer is not None else t.consumers)
                and not (t.consumers and all(ended[r] for r in t.consumers))
            )
            best = max(best, held)
    return best


@examples(60)
@given(graphs())
def test_no_state_holds_more(graph: Graph) -> None:
    assert most_alive(graph) <= live_bytes(graph) <= sum(t.bytes * max(1, len(t.consumers)) for t in graph.tensors)


def chain(*sizes: int) -> Graph:
    return Graph(
        name="chain",
        operators=tuple(Operator(name=f"o{v}", target="x") for v in range(len(sizes))),
        tensors=tuple(
            Tensor(name=f"t{v}", producer=v, consumers=(v + 1,) if v + 1 < len(sizes) else (), bytes=size)
            for v, size in enumerate(sizes)
        ),
    )


def test_a_chain_holds_two_neighbours() -> None:
    assert live_bytes(chain(5, 5, 5, 5, 5)) == 10
    assert live_bytes(chain(1, 2, 9, 4, 1)) == 13


def test_slices_hold_what_they_are_taken_from() -> None:
    """The base of 8 is there as long as the slice of 2 is read, beside what the reader makes."""
    graph = Graph(
        name="slices",
        operators=(
            Operator(name="make", target="x"),
            Operator(name="slice", target="x", free=True),
            Operator(name="wait", target="x"),
            Operator(name="use", target="x"),
        ),
        tensors=(
            Tensor(name="made", producer=0, consumers=(1,), bytes=8),
            Tensor(name="part", producer=1, consumers=(2, 3), bytes=2),
            Tensor(name="waited", producer=2, consumers=(3,), bytes=1),
            Tensor(name="used", producer=3, bytes=1),
        ),
    )
    assert live_bytes(graph) == 12


def test_arrays_written_in_place_take_nothing() -> None:
    graph = chain(5, 5)
    kept = Tensor(name="kept", producer=0, consumers=(1,), bytes=1000, stored="cache")
    assert live_bytes(graph.replace(tensors=(*graph.tensors, kept))) == 10
