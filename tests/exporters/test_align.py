"""Matching calls of a trace with a plan, on random traces."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from exporters.splits import by_layers, graph_of, runs
from instances.strategies import examples
from partita.exporters.align import Call, align, base, carries_state

MODULES = ["", "tok_embeddings", "layers.0.up", "layers.1", "layers.1.norm", "layers.1.down", "layers.2", "norm", "x.y"]

TARGETS = ["aten.add.Tensor", "aten.linear.default", "aten.relu.default", "aten.view.default"]


@st.composite
def traces(draw: st.DrawFn) -> list[Call]:
    """Calls that read some before them."""
    calls: list[Call] = []
    for place in range(draw(st.integers(1, 14))):
        inputs = draw(st.sets(st.integers(0, place - 1), max_size=3)) if place else set()
        target = draw(
            st.sampled_from(["aten.add.Tensor", "aten.linear.default", "aten.relu.default", "aten.view.default"])
        )
        follows = bool(inputs) and draw(st.booleans())
        calls.append(Call(draw(st.sampled_from(MODULES)), target, tuple(sorted(inputs)), draw(st.booleans()), follows))
    return calls


@examples(200)
@given(traces())
def test_nothing_is_before_what_it_reads(calls: list[Call]) -> None:
    split = runs(graph_of("decoder"), ("layers.1.up", "layers.2.down"))
    found = align(split, calls, contiguous=True)
    assert len(found) == len(calls)
    for stage, call in zip(found, calls, strict=True):
        assert 0 <= stage < len(split.stages)
        before = [found[v] for v in call.inputs]
        assert stage >= max(before, default=0) or call.follows
        assert not call.follows or stage == before[0]


@examples(100)
@given(traces())
def test_whole_modules_stay_whole(calls: list[Call]) -> None:
    split = by_layers("decoder", (3, 3))
    found = align(split, calls, contiguous=False)
    whole = {name: number for number, stage in enumerate(split.stages) for name in stage.modules}
    for stage, call in zip(found, calls, strict=True):
        known = [number for name, number in whole.items() if f"{call.module}.".startswith(f"{name}.")]
        if known and not call.follows:
            assert [stage] == known


def test_own_operators_are_matched_in_order_and_constants_go_where_they_are_read() -> None:
    """The second addition of a block that is cut is on the later stage; a mask is where it is used."""
    split = runs(graph_of("decoder"), ("layers.1.norm",))
    shared = next((module for module in split.shared if module.name == ""), None)
    assert shared is None
    calls = [
        Call("tok_embeddings", "aten.embedding.default", (), True),
        Call("", "aten.arange.default"),
        Call("layers.0.up", "aten.linear.default", (0,), True),
        Call("layers.2.up", "aten.linear.default", (1, 2), True),
        Call("", "aten.add.Tensor", (3,)),
    ]
    assert align(split, calls, contiguous=True) == [0, 1, 0, 1, 1]
    assert carries_state(calls) == [True, False, True, True, True]


def test_names_of_operators() -> None:
    """Without namespace, overload, and the mark of what works in place."""
    known = {"aten.add_.Tensor": "add", "aten.relu.default": "relu", "onnx.Add": "Add", "mul": "mul"}
    assert {name: base(name) for name in known} == known
