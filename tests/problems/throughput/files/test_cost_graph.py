"""Cost graphs in protobuf's text form become problems, and mistakes in them name the line and the field."""

from __future__ import annotations

from pathlib import Path

import pytest

import partita as pt
from partita.ground.errors import FormatError
from partita.problems.importers import detect_format
from partita.problems.throughput.files.cost_graph import read_cost_graph
from partita.problems.throughput.problem import ThroughputProblem

GRAPH = """# A graph of the synthetic kind.
node { name: "_SOURCE" }
node {
  name: "a"  id: 1
  output_info { size: 70 alias_input_port: -1 shape { dim { size: -1 } unknown_rank: false } dtype: DT_FLOAT }
  output_info: < size: 30 >
  control_input: 0
  compute_cost: 58
}
node {
  name: 'b' id: 2;
  device: "/gpu:0"
  input_info { preceding_node: 1 preceding_port: 1 }
  output_info { size: 0x10, }
  control_input: [0, 1]
  temporary_memory_size: 12
  persistent_memory_size: 5
  compute_cost: 47
  is_final: true
}
node { name: "c" id: 3 input_info { preceding_node: 2 } input_info { preceding_node: 1 } compute_cost: 5 }
node { name: "_SINK" id: 4 control_input: 3 }
"""


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "graph.pbtxt"
    path.write_text(text)
    return path


def test_reading(tmp_path: Path) -> None:
    path = write(tmp_path, GRAPH)
    assert detect_format(path.read_bytes(), path) == "cost-graph"
    problem = pt.read_problem(path)
    assert isinstance(problem, ThroughputProblem)
    assert [(op.id, op.name, op.times) for op in problem.operators] == [
        (1, "a", (58.0,)),
        (2, "b", (47.0,)),
        (3, "c", (5.0,)),
    ]
    assert problem.operators[1].workspace_bytes == 12
    assert problem.operators[1].memory_bytes == 5
    found = {(t.name, t.producer, t.consumers, t.size) for t in problem.tensors}
    assert found == {("a:0", 1, (3,), 70), ("a:1", 1, (2,), 30), ("b:0", 2, (3,), 16), ("a:control", 1, (2,), 0)}
    assert problem.unit == "us"
    assert problem.device_count == 8
    result = pt.solve(problem.replace(accelerators=2))
    # a and b work 105 and send 16 and 70; cut after a costs 58 + 100 against 52 + 100.
    assert result.objective == 110.0, "one device does everything"


def test_scale_and_devices() -> None:
    problem = read_cost_graph(GRAPH.encode(), "graph.pbtxt", devices=3, scale_communication=0.5)
    assert problem.kinds[0].count == 3
    assert problem.kinds[0].transfer_time_per_unit == 0.5
    assert problem.kinds[0].sync_time_per_byte == problem.kinds[0].reload_time_per_byte == 0.5
    assert "states no devices and no bandwidth; 3 devices and 0.5 µs" in problem.notes[0]
    usual = read_cost_graph(GRAPH.encode(), "graph.pbtxt")
    assert usual.kinds[0].transfer_time_per_unit == 1.0
    assert (
        read_cost_graph(GRAPH.encode(), "graph.pbtxt", scale_communication=0.0).kinds[0].transfer_time_per_unit == 0.0
    )


@pytest.mark.parametrize("scale", [-1.0, float("inf"), float("nan")])
def test_scales_without_a_meaning(scale: float) -> None:
    with pytest.raises(pt.InputError, match=f"the communication scale is {scale}"):
        read_cost_graph(GRAPH.encode(), "graph.pbtxt", scale_communication=scale)


def test_what_is_no_text_or_has_no_nodes() -> None:
    with pytest.raises(FormatError, match=r"graph\.pbtxt is not text"):
        read_cost_graph(b"node { name: '\xff' }", "graph.pbtxt")
    with pytest.raises(FormatError, match=r"graph\.pbtxt has no nodes"):
        read_cost_graph(b"# nothing", "graph.pbtxt")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("node { name: 'a' }\nnode { name: 'b' }", "line 2: node id 0 appears twice \\(first in line 1\\)"),
        ("node {\n compute_cots: 3 }", "line 2: node has no field 'compute_cots'"),
        ("node {\n compute_cost: -3 }", "line 2: field 'compute_cost' is -3; it must be at least 0"),
        ("node {\n compute_cost: 3.5 }", "line 2: field 'compute_cost' is 3.5; it must be a whole number"),
        ("node {\n compute_cost 3 }", "line 2: field 'compute_cost' needs ': value'"),
        ("node {\n input_info { preceding_node: 7 } }", "line 2: node 0: field 'preceding_node' is 7"),
        ("node {\n input_info { preceding_node: 0 } }", "line 2: node 0: field 'preceding_node' is the node itself"),
        ("node { }\nnode { id: 1\n input_info { } }", "line 3: node 1: field 'preceding_port' is 0, but node 0 has 0"),
        ("node { }\nnode { id: 1\n control_input: 9 }", "line 3: node 1: field 'control_input' is 9"),
        ("node {\n output_info {\n size: 4", "line 3: the file ends inside output_info; '}' is missing"),
        ("node {\n output_info { shape { dim { ", "line 2: the file ends inside 'shape'"),
        ("node {\n id: 1 @ }", "line 2: '@ }' is not protobuf text"),
        ("node { }\nnodes { }", "line 2: the cost graph has no field 'nodes'"),
        ("node { control_input: [1,\n x] }", "line 2: field 'control_input' has x"),
        ("node { control_input: [1,\n 2.5] }", "line 2: field 'control_input' has 2.5"),
        ("node { output_info {\n size: -2 } }", "line 2: field 'size' is -2; it must be at least -1"),
        ("node {\n output_info { shape [ { ] }", "line 2: the file ends inside 'shape'"),
        ("node {\n id", "line 2: field 'id' needs ': value', not 'the end of the file'"),
        ("node {\n : }", "line 2: ':' is where a field of node should start"),
        ("node {\n output_info 3 }", "line 2: output_info should start with '{', not '3'"),
        ("node { output_info {\n shape: } } }", "line 2: field 'shape' needs a value, not '}'"),
    ],
)
def test_mistakes(text: str, words: str) -> None:
    with pytest.raises(FormatError, match=words):
        read_cost_graph(text.encode(), "graph.pbtxt")


def test_cycles_are_refused() -> None:
    text = "node { output_info { } input_info { preceding_node: 1 } } node { id: 1 output_info { } input_info { } }"
    with pytest.raises(pt.InputError, match="cycle"):
        read_cost_graph(text.encode(), "graph.pbtxt")


def test_a_graph_of_ends_alone_keeps_them() -> None:
    problem = read_cost_graph(b"node { } node { id: 1 control_input: 0 }", "graph.pbtxt")
    assert len(problem.operators) == 2


def test_numbers_at_their_limits() -> None:
    """A size of -1 is one that TensorFlow does not know; 0 is a number, and no name is an empty one."""
    text = "node { output_info { size: -1 } output_info { size: 0 } compute_cost: 0 temporary_memory_size: 0 }"
    reader = "node { id: 1 control_input: [0] input_info { preceding_node: 0 } compute_cost: 1 }"
    problem = read_cost_graph(f"{text} {reader}".encode(), "graph.pbtxt")
    assert [(op.name, op.workspace_bytes) for op in problem.operators] == [("", 0.0), ("", 0.0)]
    assert [(tensor.size, tensor.consumers) for tensor in problem.tensors if tensor.consumers] == [(0.0, (1,))] * 2


def test_a_file_that_ends_early_is_refused_or_read() -> None:
    refused = 0
    for cut in range(len(GRAPH)):
        try:
            read_cost_graph(GRAPH[:cut].encode(), "graph.pbtxt")
        except pt.InputError:
            refused += 1
    assert refused > 0.8 * len(GRAPH)


def test_what_is_read_over_may_be_nested() -> None:
    text = "node { output_info { size: 3 shape < dim [ { size: [1, 2] }, < x: [] > ] > } } cost { kind: [ 'x' ] }"
    problem = read_cost_graph(text.encode(), "graph.pbtxt")
    assert len(problem.operators) == 1


def test_free_nodes_in_the_middle_and_free_makers_stay() -> None:
    """Node 1 only hands on the order from 0 to 2, node 3 costs nothing but sends 70 bytes; 5 and 6 are free ends."""
    nodes = (
        "compute_cost: 4",
        "id: 1 control_input: 0",
        "id: 2 control_input: 1 input_info { preceding_node: 3 } compute_cost: 5",
        "id: 3 output_info { size: 70 }",
        "id: 5 control_input: 2",
        "id: 6",
    )
    problem = read_cost_graph("\n".join(f"node {{ {node} }}" for node in nodes).encode(), "graph.pbtxt")
    assert [op.id for op in problem.operators] == [0, 1, 2, 3]
    found = {(tensor.producer, tensor.consumers, tensor.size) for tensor in problem.tensors}
    assert found == {(0, (1,), 0.0), (1, (2,), 0.0), (3, (2,), 70.0)}


def test_other_text_is_not_a_cost_graph(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="not valid JSON"):
        pt.read_problem(write(tmp_path, "nodes: 3"))


def test_the_last_of_two_values_counts_under_either_name() -> None:
    text = "node { name: 'a' compute_cost: 1 compute_cost: 3 device_persistent_memory_size: 5 }"
    (op,) = read_cost_graph(text.encode(), "g").operators
    assert (op.times[0], op.memory_bytes) == (3.0, 5.0)
