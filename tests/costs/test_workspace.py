"""The sweep over tensor lives equals its definition, and never promises less than a stage needs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from instances.cost_graphs import make_graph, training_graphs
from partita.costs.workspace import colocation_roots, lives, own_bytes, saved_readers, workspace_bytes
from partita.nouns.graph import Graph


def by_definition(graph: Graph, index: int, accumulates: bool) -> int:
    """Bytes of everything transient alive while an operator runs, tensor by tensor."""
    roots = colocation_roots(graph)
    total = graph.operators[index].workspace_bytes
    for tensor in graph.tensors:
        if tensor.name == "grad:w":
            total += tensor.bytes * (accumulates and tensor.producer == index)
            continue
        pins = [v for v in (tensor.producer, *tensor.consumers) if v is not None]
        made_forward = tensor.producer is None or graph.operators[tensor.producer].phase == "forward"
        readers = [v for v in tensor.consumers if graph.operators[v].phase == "backward"]
        if made_forward and readers:
            forward = [v for v in pins if v not in readers]
            pins = [v for v in forward if roots[v] not in {roots[r] for r in readers}]
        if pins and min(pins) <= index <= max(pins):
            total += tensor.bytes
    return total


@given(training_graphs(), st.booleans())
def test_the_sweep_equals_the_definition(graph: Graph, accumulates: bool) -> None:
    spans = lives(graph, colocation_roots(graph), saved_readers(graph), accumulates=accumulates)
    expected = [by_definition(graph, v, accumulates) for v in range(len(graph.operators))]
    assert workspace_bytes(graph, spans).tolist() == expected


@given(training_graphs(), st.data())
def test_a_stage_never_needs_more_than_its_operators_say(graph: Graph, data: st.DataObject) -> None:
    roots = colocation_roots(graph)
    chosen = data.draw(st.sets(st.sampled_from(sorted(set(roots))), min_size=1))
    stage = [v for v, root in enumerate(roots) if root in chosen]
    saved = saved_readers(graph)
    workspace = workspace_bytes(graph, lives(graph, roots, saved, accumulates=False))
    kept = {place for place, readers in saved.items() if set(readers) & set(stage)}
    for running in stage:
        held = graph.operators[running].workspace_bytes
        for place, tensor in enumerate(graph.tensors):
            touches = [v for v in (tensor.producer, *tensor.consumers) if v in stage]
            if tensor.name == "grad:w" or place in kept or not touches:
                continue
            held += tensor.bytes * (touches[0] <= running <= touches[-1])
        assert held <= max(workspace[v] for v in stage)


def test_own_bytes_leave_out_tensors_between_operators() -> None:
    own = own_bytes(make_graph())
    # x is read by 0, labels by 2; the loss is read by nobody.
    assert own[0] == 4
    assert own[1] == 5
    assert own[2] == 3 + 1
