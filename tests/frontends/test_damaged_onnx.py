"""Damaged and unusual ONNX files: one message that names the file, the object and the remedy, and exit status 2."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import partita as pt
from running.command_line import Run

onnx = pytest.importorskip("onnx", reason="ONNX files are read by onnx")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

Change = Callable[[Any], Any]


def _whole() -> Any:
    """A product, a sum and an activation."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"], name="product"),
        helper.make_node("Add", ["p", "b"], ["q"], name="sum"),
        helper.make_node("Relu", ["q"], ["y"], name="last"),
    ]
    stored = [numpy_helper.from_array(np.ones(shape, np.float32), name) for name, shape in (("w", (8, 16)), ("b", 16))]
    graph = helper.make_graph(
        nodes,
        "made",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 16])],
        stored,
    )
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 18)])


def _cut(model: Any) -> bytes:
    return model.SerializeToString()[:-40]


def _node(place: int, **fields: Any) -> Change:
    def change(model: Any) -> None:
        for name, value in fields.items():
            if isinstance(value, list):
                del getattr(model.graph.node[place], name)[:]
                getattr(model.graph.node[place], name).extend(value)
            else:
                setattr(model.graph.node[place], name, value)

    return change


def _without_initialiser(model: Any) -> None:
    del model.graph.initializer[1]


def _empty(model: Any) -> None:
    del model.graph.node[:]


def _unknown_format(model: Any) -> None:
    model.graph.initializer[0].data_type = 99


def _unknown_input_format(model: Any) -> None:
    model.graph.input[0].type.tensor_type.elem_type = 99


def _text(model: Any) -> None:
    model.graph.input[0].type.tensor_type.elem_type = TensorProto.STRING


def _twice(model: Any) -> None:
    model.graph.initializer.append(model.graph.initializer[0])


def _opset(version: int) -> Change:
    def change(model: Any) -> None:
        model.opset_import[0].version = version

    return change


def _no_opset(model: Any) -> None:
    del model.opset_import[:]


def _wrong_output(model: Any) -> None:
    model.graph.output[0].type.tensor_type.shape.dim[1].dim_value = 17


def _no_output(model: Any) -> None:
    model.graph.output[0].name = "z"


def _wrong_size(model: Any) -> None:
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 9


def _negative(model: Any) -> None:
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = -4


def _negative_weight(model: Any) -> None:
    model.graph.initializer[0].dims[0] = -8


def _short(model: Any) -> None:
    model.graph.initializer[0].raw_data = model.graph.initializer[0].raw_data[:-4]


def _hollow(model: Any) -> None:
    model.graph.initializer[0].ClearField("raw_data")


def _no_rank(model: Any) -> None:
    model.graph.input[0].type.tensor_type.ClearField("shape")


def _sequence(model: Any) -> None:
    element = helper.make_tensor_type_proto(TensorProto.FLOAT, [4, 8])
    model.graph.input[0].type.CopyFrom(helper.make_sequence_type_proto(element))


def _attribute(model: Any) -> None:
    model.graph.node[2].attribute.append(helper.make_attribute("slope", 1.0))


def _formats(model: Any) -> None:
    model.graph.initializer[1].CopyFrom(numpy_helper.from_array(np.ones(16, np.int64), "b"))


def _data_shape(model: Any) -> None:
    model.graph.input.append(helper.make_tensor_value_info("s", TensorProto.INT64, [2]))
    model.graph.node[2].CopyFrom(helper.make_node("Reshape", ["q", "s"], ["y"], name="last"))
    model.graph.output[0].type.tensor_type.ClearField("shape")


def _reshape(model: Any) -> None:
    _data_shape(model)
    model.graph.output[0].type.CopyFrom(helper.make_tensor_type_proto(TensorProto.FLOAT, [3, 5]))


def _pieces(model: Any) -> None:
    model.graph.node[2].CopyFrom(helper.make_node("SequenceConstruct", ["q"], ["s"]))
    model.graph.node.append(helper.make_node("Relu", ["s"], ["y"], name="last"))


def _nothing(model: Any) -> None:
    del model.graph.node[:]
    model.graph.node.append(helper.make_node("ConstantOfShape", ["n"], ["y"]))
    model.graph.initializer.append(numpy_helper.from_array(np.array([300, 300]), "n"))
    model.graph.output[0].type.tensor_type.shape.dim[0].dim_value = 300
    model.graph.output[0].type.tensor_type.shape.dim[1].dim_value = 300


def _flipped(model: Any) -> bytes:
    return bytes(model.SerializeToString()).replace(b"Relu", b"Re\xbdu")


def _split(model: Any) -> None:
    model.graph.node[2].CopyFrom(helper.make_node("Split", ["q"], ["y", "z"], name="last", axis=1, num_outputs=1))


def _samples(model: Any) -> None:
    _data_shape(model)
    model.graph.node[2].CopyFrom(helper.make_node("GatherND", ["q", "s"], ["y"], name="last", batch_dims=-5))


DAMAGED: dict[str, tuple[Change, str]] = {
    "cut off": (_cut, "is no ONNX model, or was cut off"),
    "text": (lambda _: b'{"format": "partita.graph"}', "is no ONNX model, or was cut off"),
    "nothing in it": (lambda _: b"", "is no ONNX model: it states no graph"),
    "other bytes": (lambda _: b"\x89PNG\r\n\x1a\n" + bytes(100), "is no ONNX model"),
    "no operators": (_empty, "has no operators"),
    "domain that is not imported": (_node(2, domain="own"), "operator set 'own', which the file does not import"),
    "operator that is not known": (_node(2, op_type="Invent"), "'last' (Invent) is not an operator of ai.onnx 18"),
    "initialiser that is missing": (_without_initialiser, "'sum' (Add) reads 'b', which is no input"),
    "input that is not defined": (_node(0, input=["z", "w"]), "'product' (MatMul) reads 'z', which is no input"),
    "circle": (_node(0, input=["q", "w"]), "reads 'q' before node 'sum' (Add) makes it"),
    "format of a weight": (_unknown_format, "initialiser 'w' has element type 99"),
    "format of an input": (_unknown_input_format, "input 'x' has element type 99"),
    "words": (_text, "input 'x' holds text"),
    "initialiser twice": (_twice, "initialiser name 'w' appears twice"),
    "array made twice": (_node(1, output=["p"]), "'sum' (Add) makes 'p', which exists already"),
    "input made again": (_node(1, output=["x"]), "'sum' (Add) makes 'x', which exists already"),
    "opset to come": (_opset(999), "uses operator set 999 of ai.onnx"),
    "opset 0": (_opset(0), "uses operator set 0 of ai.onnx"),
    "no opset": (_no_opset, "imports no operator set"),
    "output of another shape": (_wrong_output, "output 'y' is stated as [4, 17], but what makes it gives [4, 16]"),
    "output that nothing makes": (_no_output, "output 'z' is made by no node"),
    "shapes that contradict": (_wrong_size, "'product' (MatMul) cannot take float32[4, 9], float32[8, 16]"),
    "negative size": (_negative, "input 'x' has size -4 at axis 0"),
    "negative size of a weight": (_negative_weight, "initialiser 'w' has shape [-8, 16]"),
    "less data than stated": (_short, "initialiser 'w' states shape [8, 16], which is 512 bytes, but holds 508"),
    "no data": (_hollow, "initialiser 'w' states shape [8, 16] but holds no data"),
    "input without a shape": (_no_rank, "input 'x' states no shape"),
    "sequence": (_sequence, "input 'x' is a sequence, not an array"),
    "attribute that is not known": (_attribute, "is not a valid ONNX model"),
    "formats that contradict": (_formats, "'sum' (Add) cannot take float32[4, 16], int64[16]"),
    "shape from data": (_data_shape, "the shape of 'y', which node 'last' (Reshape) makes, depends on data"),
    "shape from data that cannot be": (_reshape, "'last' (Reshape) cannot make [3, 5] of 64 elements"),
    "sequence within": (_pieces, "'last' (Relu) takes a sequence, which is not supported"),
    "constants alone": (_nothing, "computes nothing from its inputs or parameters"),
    "flipped bits in a name": (_flipped, "is damaged: it has b'Re\\xbdu' where a name should be"),
    "more outputs than stated": (_split, "'last' (Split) has 2 outputs, but states 1"),
    "samples that there are not": (_samples, "'last' (GatherND) states -5 dimensions of samples, where there are 1"),
    "one input too few": (_node(0, input=["x"]), "is not a valid ONNX model"),
}


def test_the_file_before_its_damage_is_read(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(_whole().SerializeToString())
    assert pt.load_model(str(path)).flops == 2 * 4 * 8 * 16


@pytest.mark.parametrize("damage", DAMAGED)
def test_damaged_files(tmp_path: Path, partita: Callable[..., Run], damage: str) -> None:
    change, expected = DAMAGED[damage]
    made = _whole()
    path = tmp_path / "model.onnx"
    changed = change(made)
    path.write_bytes(made.SerializeToString() if changed is None else changed)
    run = partita("plan", path, "--cluster", "2xL4")
    assert run.code == 2
    assert run.out == ""
    (line,) = run.err.strip().splitlines()
    assert expected in line
    assert "model" in line


def test_operators_of_a_runtime_are_refused(tmp_path: Path, partita: Callable[..., Run]) -> None:
    made = _whole()
    made.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    made.graph.node[2].domain, made.graph.node[2].op_type = "com.microsoft", "Sampling"
    path = tmp_path / "model.onnx"
    path.write_bytes(made.SerializeToString())
    run = partita("plan", path, "--cluster", "2xL4")
    assert run.code == 2
    assert "'last' (Sampling) is not an operator of com.microsoft 1" in run.err
    assert "export without runtime-specific operators" in run.err


def test_training_is_refused(tmp_path: Path, partita: Callable[..., Run]) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(_whole().SerializeToString())
    run = partita("plan", path, "--cluster", "2xL4", "--training")
    assert run.code == 2
    assert "holds no backward pass" in run.err
