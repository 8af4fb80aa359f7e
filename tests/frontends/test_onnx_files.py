"""What ONNX files from elsewhere contain: sizes made of others, sequences, data files, functions, sparse arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import partita as pt
from partita.ground.errors import InputError, NoBatchSizeError
from partita.nouns.graph import Graph

onnx = pytest.importorskip("onnx", reason="ONNX files are read by onnx")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from partita.frontends.onnx.dims import follow  # noqa: E402

FLOAT, INT = TensorProto.FLOAT, TensorProto.INT64
node = helper.make_node


def info(name: str, shape: list[Any] | None, kind: int = FLOAT) -> Any:
    """An input or output."""
    return helper.make_tensor_value_info(name, kind, shape)


def weight(name: str, *shape: int, kind: type = np.float32) -> Any:
    """A stored array of ones."""
    return numpy_helper.from_array(np.ones(shape, kind), name)


def numbers(name: str, value: Any) -> Any:
    """Stored whole numbers, or one."""
    return numpy_helper.from_array(np.array(value, np.int64), name)


def model(nodes: list[Any], inputs: list[Any], outputs: list[Any], stored: list[Any] = (), **more: Any) -> Any:  # type: ignore[assignment]
    """A model of opset 18."""
    more.setdefault("opset_imports", [helper.make_opsetid("", 18)])
    sparse = more.pop("sparse", [])
    graph = helper.make_graph(nodes, "made", inputs, outputs, list(stored), sparse_initializer=sparse)
    return helper.make_model(graph, **{"ir_version": 10, **more})


def load(tmp_path: Path, made: Any, **options: Any) -> Graph:
    """Write a model and read its graph."""
    path = tmp_path / "made.onnx"
    path.write_bytes(made.SerializeToString())
    return pt.load_model(str(path), **options)


def shapes(graph: Graph) -> list[tuple[int, ...]]:
    """Of what operators make."""
    return [t.shape for t in graph.tensors if t.producer is not None]


# -- sizes ------------------------------------------------------------------------------------------------------------


def product(*sizes: Any, columns: int = 4) -> Any:
    """A product with an input of such sizes."""
    return model(
        [node("MatMul", ["x", "w"], ["y"])], [info("x", list(sizes))], [info("y", None)], [weight("w", 8, columns)]
    )


@pytest.mark.parametrize(
    ("sizes", "others", "made"),
    [
        (["batch_size", 3, 8], {}, (5, 3, 4)),
        (["time", "batch", 8], {"time": "7"}, (7, 5, 4)),
        (["N", 3, 8], {}, (5, 3, 4)),
        (["rows", 8], {}, (5, 4)),
        ([-1, 8], {}, (5, 4)),
        ([None, "length", 8], {"length": "6"}, (5, 6, 4)),
    ],
)
def test_the_batch_is_what_is_called_so(
    tmp_path: Path, sizes: list[Any], others: dict[str, str], made: tuple[int, ...]
) -> None:
    assert shapes(load(tmp_path, product(*sizes), batch_size=5, set_fields=others)) == [made]


def test_names_that_only_look_like_a_batch(tmp_path: Path) -> None:
    with pytest.raises(NoBatchSizeError, match="leaves no batch size open"):
        load(tmp_path, product(2, "n", 8), batch_size=5, set_fields={"n": "3"})


def decoder() -> Any:
    """Keys of a past before those of a token, under a mask that covers both."""
    nodes = [
        node("Concat", ["past", "new"], ["keys"], axis=1),
        node("Transpose", ["keys"], ["turned"], perm=[0, 2, 1]),
        node("MatMul", ["query", "turned"], ["scores"]),
        node("Add", ["scores", "mask"], ["y"]),
    ]
    inputs = [
        info("query", ["batch", 1, 8]),
        info("past", ["batch", "past_length", 8]),
        info("new", ["batch", 1, 8]),
        info("mask", ["batch", 1, "past_length + 1"]),
    ]
    return model(nodes, inputs, [info("y", ["batch", 1, "past_length + 1"])])


@pytest.mark.parametrize("past", [0, 9])
def test_sizes_made_of_others_follow(tmp_path: Path, past: int) -> None:
    graph = load(tmp_path, decoder(), batch_size=2, set_fields={"past_length": str(past)})
    assert graph.flops == 2 * 2 * (past + 1) * 8
    assert {t.name: t.shape for t in graph.tensors}["mask"] == (2, 1, past + 1)


def test_sizes_made_of_others_may_be_set_and_are_asked_for(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"--set past_length=VALUE --set 'past_length \+ 1'=VALUE"):
        load(tmp_path, decoder(), batch_size=2)
    with pytest.raises(InputError, match=r"dimension 'past - 3' of .* would be -2"):
        load(tmp_path, product("past", "past - 3", 8), set_fields={"past": "1"})


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("a + b", 9), ("2*a", 12), ("(a + b) // 2", 4), ("a/2", 3), ("a - b", 3), ("a", 6),
        ("c + 1", None), ("a.b", None), ("f(a)", None), ("a ** b", None), ("a // 0", None), ("", None), ("a +", None),
        ("'x'", None),
    ],
)  # fmt: skip
def test_names_of_sizes_are_sums_and_products(name: str, size: int | None) -> None:
    assert follow(name, {"a": 6, "b": 3}) == size


# -- sequences --------------------------------------------------------------------------------------------------------


def test_parts_of_an_array_are_views_of_it(tmp_path: Path) -> None:
    nodes = [
        node("SplitToSequence", ["x", "size"], ["parts"], axis=1),
        node("SequenceAt", ["parts", "last"], ["part"]),
        node("MatMul", ["part", "w"], ["y"]),
    ]
    stored = [weight("w", 1, 4), numbers("size", 5), numbers("last", -1)]
    graph = load(tmp_path, model(nodes, [info("x", [3, 16])], [info("y", [3, 4])], stored))
    # Sixteen columns in parts of five: the last has one.
    assert graph.flops == 2 * 3 * 1 * 4
    assert [op.target for op in graph.operators if not op.free] == ["onnx.MatMul"]
    assert graph.operators[-1].bytes_read == 4 * (3 + 4)


@pytest.mark.parametrize(("new_axis", "made"), [(0, (4, 48)), (1, (4, 3, 16))])
def test_sequences_are_put_together(tmp_path: Path, new_axis: int, made: tuple[int, ...]) -> None:
    nodes = [
        node("SequenceEmpty", [], ["none"]),
        node("Relu", ["x"], ["r"]),
        node("SequenceInsert", ["none", "r"], ["one"]),
        node("SequenceInsert", ["one", "x", "first"], ["two"]),
        node("SequenceInsert", ["two", "x"], ["three"]),
        node("SequenceConstruct", ["r", "r"], ["others"]),
        node("SequenceErase", ["others"], ["other"]),
        node("SequenceAt", ["other", "first"], ["again"]),
        node("SequenceInsert", ["three", "again"], ["four"]),
        node("SequenceErase", ["four", "first"], ["rest"]),
        node("SequenceLength", ["rest"], ["count"]),
        node("ConcatFromSequence", ["rest"], ["y"], axis=1, new_axis=new_axis),
    ]
    outputs = [info("y", None), info("count", [], INT)]
    graph = load(tmp_path, model(nodes, [info("x", [4, 16])], outputs, [numbers("first", 0)]))
    assert [op.target for op in graph.operators] == ["onnx.Relu", "onnx.ConcatFromSequence"]
    assert shapes(graph) == [(4, 16), made]
    # The result of the Relu stands there twice, and is read once.
    assert (graph.operators[1].bytes_read, graph.operators[1].bytes_written) == (4 * 2 * 64, 4 * 3 * 64)


def test_optional_values_are_what_they_hold(tmp_path: Path) -> None:
    nodes = [
        node("Optional", ["x"], ["o"]),
        node("OptionalHasElement", ["o"], ["has"]),
        node("OptionalGetElement", ["o"], ["held"]),
        node("If", ["has"], ["y"], then_branch=_branch("t", "Relu"), else_branch=_branch("e", "Sin")),
    ]
    graph = load(tmp_path, model(nodes, [info("x", [4, 8])], [info("y", [4, 8])]))
    assert [op.target for op in graph.operators] == ["onnx.If"]
    assert not any("Data decides" in note for note in graph.notes)


def _branch(name: str, op: str) -> Any:
    return helper.make_graph([node(op, ["held"], [name])], name, [], [info(name, [4, 8])])


def test_a_loop_that_fills_a_sequence(tmp_path: Path) -> None:
    rows = helper.make_sequence_type_proto(helper.make_tensor_type_proto(FLOAT, None))
    body = helper.make_graph(
        [
            node("Identity", ["keep"], ["go"]),
            node("MatMul", ["x", "w"], ["p"]),
            node("SequenceInsert", ["rows", "p"], ["longer"]),
        ],
        "body",
        [info("i", [], INT), info("keep", [], TensorProto.BOOL), helper.make_value_info("rows", rows)],
        [info("go", [], TensorProto.BOOL), helper.make_value_info("longer", rows)],
    )
    nodes = [
        node("SequenceEmpty", [], ["none"]),
        node("Loop", ["count", "", "none"], ["filled"], body=body),
        node("ConcatFromSequence", ["filled"], ["y"], axis=0),
    ]
    graph = load(
        tmp_path, model(nodes, [info("x", [2, 8])], [info("y", None)], [numbers("count", 3), weight("w", 8, 4)])
    )
    assert [op.target for op in graph.operators] == ["onnx.Loop", "onnx.ConcatFromSequence"]
    assert graph.flops == 3 * 2 * 2 * 8 * 4
    assert shapes(graph)[-1] == (6, 4)


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ([node("SequenceConstruct", ["x", "x"], ["q"]), node("SequenceAt", ["q", "i"], ["y"])],
         "'y' .SequenceAt. depends on data, by a place in a sequence"),
        ([node("SequenceConstruct", ["x"], ["q"]), node("SequenceAt", ["q", "two"], ["y"])],
         "'y' .SequenceAt. cannot take what it is given: place 2 of a sequence of 1"),
        ([node("SplitToSequence", ["x", "two"], ["q"]), node("Relu", ["q"], ["y"])],
         "'y' .Relu. takes a sequence, which is not supported"),
        ([node("SplitToSequence", ["x", "parts"], ["q"]), node("SequenceAt", ["q", "two"], ["y"])],
         r"parts of \[1, 1\] are not 4"),
    ],
)  # fmt: skip
def test_sequences_that_cannot_be_followed(tmp_path: Path, nodes: list[Any], expected: str) -> None:
    stored = [numbers("two", 2), numbers("parts", [1, 1])]
    with pytest.raises(InputError, match=expected):
        load(tmp_path, model(nodes, [info("x", [4, 8]), info("i", [], INT)], [info("y", None)], stored))


# -- stored arrays ----------------------------------------------------------------------------------------------------


def outside(name: str, kind: int, *shape: int, **place: Any) -> Any:
    """An array in a data file."""
    tensor = TensorProto(name=name, data_type=kind, dims=shape, data_location=TensorProto.EXTERNAL)
    for key, value in place.items():
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def test_data_files_that_are_not_there_or_too_short(tmp_path: Path) -> None:
    made = product(3, 8)
    made.graph.initializer[0].CopyFrom(outside("w", FLOAT, 8, 4, location="weights.bin", offset=64))
    expected = ["weights.bin' is not there", "weights.bin' holds 100 bytes where the model has 192"]
    for data, note in zip((None, bytes(100)), expected, strict=True):
        if data is not None:
            (tmp_path / "weights.bin").write_bytes(data)
        graph = load(tmp_path, made)
        assert graph.parameter_bytes == 4 * 8 * 4
        assert any(note in found for found in graph.notes)
    (tmp_path / "weights.bin").write_bytes(bytes(192))
    assert not load(tmp_path, made).notes


def test_shapes_in_a_data_file(tmp_path: Path) -> None:
    stored = [outside("s", INT, 2, location="shapes.bin")]
    made = model(
        [node("Reshape", ["x", "s"], ["r"]), node("Relu", ["r"], ["y"])], [info("x", [3, 8])], [info("y", None)], stored
    )
    with pytest.raises(InputError, match=r"follows from 's', whose values are in 'shapes.bin', which cannot be read"):
        load(tmp_path, made)
    (tmp_path / "shapes.bin").write_bytes(np.array([4, 6], np.int64).tobytes())
    assert shapes(load(tmp_path, made)) == [(4, 6)]


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ({"location": "w.bin", "length": 17}, r"shape \[8, 4\], which is 128 bytes, but 17 of them in 'w.bin'"),
        ({"location": "w.bin", "offset": "far"}, "states no numbers for its place in a data file"),
        ({"location": "w.bin", "offset": -8}, "from -8 on"),
        ({}, "its data is in another file, but not in which"),
    ],
)
def test_places_in_data_files_that_cannot_be(tmp_path: Path, place: dict[str, Any], expected: str) -> None:
    made = product(3, 8)
    made.graph.initializer[0].CopyFrom(outside("w", FLOAT, 8, 4, **place))
    with pytest.raises(InputError, match=expected):
        load(tmp_path, made)


def _sparse() -> Any:
    values = numpy_helper.from_array(np.ones(5, np.float32), "w")
    return helper.make_sparse_tensor(values, numpy_helper.from_array(np.arange(5), "places"), [8, 4])


def test_sparse_weights_are_planned_dense(tmp_path: Path) -> None:
    nodes, inputs, outputs = [node("MatMul", ["x", "w"], ["y"])], [info("x", [3, 8])], [info("y", [3, 4])]
    graph = load(tmp_path, model(nodes, inputs, outputs, sparse=[_sparse()]))
    assert [(p.name, p.bytes, p.users) for p in graph.parameters] == [("w", 4 * 32, (0,))]
    assert any("'w') are planned dense" in note for note in graph.notes)
    graph = load(tmp_path, model([node("Constant", [], ["w"], sparse_value=_sparse()), *nodes], inputs, outputs))
    assert [(p.name, p.bytes, p.users) for p in graph.parameters] == [("w", 4 * 32, (0,))]


# -- functions, versions ----------------------------------------------------------------------------------------------


def function(name: str, version: int, body: list[Any], inputs: tuple[str, ...] = ("x", "w")) -> Any:
    """A local function of the domain ``own``."""
    return helper.make_function("own", name, inputs, ["y"], body, [helper.make_opsetid("", version)])


def call(body: list[Any], version: int) -> Any:
    """A model of opset 18 that calls a function of another."""
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    return model(
        [node("Layer", ["x", "w"], ["y"], domain="own")], [info("x", [3, 8])], [info("y", None)], [weight("w", 8, 4)],
        functions=[function("Layer", version, body)], opset_imports=opsets,
    )  # fmt: skip


def test_functions_of_another_version_are_inlined(tmp_path: Path) -> None:
    graph = load(tmp_path, call([node("MatMul", ["x", "w"], ["p"]), node("Relu", ["p"], ["y"])], 12))
    assert [op.target for op in graph.operators] == ["onnx.MatMul", "onnx.Relu"]
    assert graph.flops == 2 * 3 * 8 * 4


def test_functions_whose_operators_have_changed_are_refused(tmp_path: Path) -> None:
    body = [node("MatMul", ["x", "w"], ["p"]), node("Squeeze", ["p"], ["y"], axes=[0])]
    with pytest.raises(InputError, match=r"function 'Layer' is of another operator set .* has no such Squeeze"):
        load(tmp_path, call(body, 11))


def test_formats_to_come_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"version 99 of the format; .* upgrade onnx"):
        load(tmp_path, model([node("Relu", ["x"], ["y"])], [info("x", [2])], [info("y", [2])], ir_version=99))


def test_types_may_be_left_out_of_results_only(tmp_path: Path) -> None:
    made = model([node("Relu", ["x"], ["y"])], [info("x", [3, 8])], [helper.make_value_info("y", onnx.TypeProto())])
    assert shapes(load(tmp_path, made)) == [(3, 8)]
    made.graph.input[0].type.Clear()
    with pytest.raises(InputError, match="input 'x' states no type"):
        load(tmp_path, made)


def test_branches_of_one_shape_are_not_said_to_differ(tmp_path: Path) -> None:
    nodes = [
        node("Identity", ["x"], ["held"]),
        node("If", ["c"], ["y"], then_branch=_branch("t", "Relu"), else_branch=_branch("e", "Sin")),
    ]
    inputs = [info("x", [4, 8]), info("c", [], TensorProto.BOOL)]
    notes = load(tmp_path, model(nodes, inputs, [info("y", [4, 8])])).notes
    assert any("Data decides" in note for note in notes)
    assert not any("different shapes" in note for note in notes)
