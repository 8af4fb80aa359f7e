"""Models exported to ONNX agree with their torch graphs; sizes, branches, loops and views of files made by hand."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import partita as pt
from instances.strategies import examples
from partita.ground.errors import InputError, NoBatchSizeError
from partita.nouns.graph import Graph
from running.command_line import Run

onnx = pytest.importorskip("onnx", reason="ONNX files are read by onnx")
torch = pytest.importorskip("torch", reason="models are exported by torch")
pytest.importorskip("onnxscript", reason="torch exports by onnxscript")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from models.onnx_models import HUB, PLAIN, Built  # noqa: E402
from partita.frontends.onnx.shapes import restride  # noqa: E402

FLOAT, INT = TensorProto.FLOAT, TensorProto.INT64
_LONG = {"t5", "t5-encoder", "bert", "llama", "resnet", "swin", "vit", "whisper-encoder"}
_MODELS = {**PLAIN, **HUB}
_CASES = [pytest.param(name, marks=[pytest.mark.slow] if name in _LONG else []) for name in _MODELS]


def info(name: str, shape: list[Any] | None, kind: int = FLOAT) -> Any:
    """An input or output."""
    return helper.make_tensor_value_info(name, kind, shape)


def weight(name: str, *shape: int, kind: type = np.float32) -> Any:
    """A stored array of ones."""
    return numpy_helper.from_array(np.ones(shape, kind), name)


def numbers(name: str, *values: int) -> Any:
    """Stored whole numbers."""
    return numpy_helper.from_array(np.array(values, np.int64), name)


def model(nodes: list[Any], inputs: list[Any], outputs: list[Any], stored: list[Any] = (), **more: Any) -> Any:  # type: ignore[assignment]
    """A model of opset 18."""
    more.setdefault("opset_imports", [helper.make_opsetid("", 18)])
    return helper.make_model(helper.make_graph(nodes, "made", inputs, outputs, list(stored)), ir_version=10, **more)


def load(tmp_path: Path, made: Any, **options: Any) -> Graph:
    """Write a model and read its graph."""
    path = tmp_path / "made.onnx"
    path.write_bytes(made.SerializeToString())
    return pt.load_model(str(path), **options)


def export(built: Built, path: Path, **options: Any) -> torch.nn.Module:
    """Export a model whose weights all differ: the exporter stores equal arrays once."""
    module, args, kwargs = built
    module = module.eval()
    with torch.no_grad():
        for array in (*module.parameters(), *module.buffers()):
            if array.is_floating_point():
                array.uniform_(0.1, 1)
    torch.onnx.export(module, args, str(path), kwargs=kwargs, dynamo=True, verbose=False, **options)
    return module


def traffic(graph: Graph) -> int:
    """Bytes that operators with arithmetic read and write."""
    return sum(op.bytes_read + op.bytes_written for op in graph.operators if op.flops)


def entering(graph: Graph) -> int:
    """Bytes of the inputs."""
    return sum(t.bytes for t in graph.tensors if t.producer is None)


@pytest.mark.parametrize("name", _CASES)
def test_exported_models_agree_with_their_torch_graphs(tmp_path: Path, name: str) -> None:
    torch.manual_seed(0)
    built = _MODELS[name]()
    module = export(built, tmp_path / "model.onnx")
    graph = pt.load_model(str(tmp_path / "model.onnx"))
    traced = pt.trace(module, *built[1:])
    assert graph.flops == pytest.approx(traced.flops, rel=0.02)
    # What an exporter folds (masks, norms into convolutions) is stored in another form.
    assert graph.parameter_bytes == pytest.approx(traced.parameter_bytes, rel=0.02)
    assert entering(graph) == entering(traced)
    # Layouts of recurrences differ: directions together, biases of both products in one array.
    assert traffic(graph) == pytest.approx(traffic(traced), rel=0.06 if name == "lstm" else 0.02)
    everything = [sum(op.bytes_read + op.bytes_written for op in g.operators) for g in (graph, traced)]
    assert everything[0] == pytest.approx(everything[1], rel=0.3)


def test_exported_modules_have_their_names(tmp_path: Path) -> None:
    export(PLAIN["residual"](), tmp_path / "model.onnx")
    graph = pt.load_model(str(tmp_path / "model.onnx"))
    assert graph.modules["second"] == "Conv2d"
    # The exporter folds the first convolution into the norm after it.
    assert {op.module for op in graph.operators if op.target == "onnx.Conv"} == {"norm", "second", "short"}


def test_tied_weights_are_one_parameter(tmp_path: Path) -> None:
    export(PLAIN["tied"](), tmp_path / "model.onnx")
    graph = pt.load_model(str(tmp_path / "model.onnx"))
    (table,) = (p for p in graph.parameters if 300 in p.shape)
    assert [graph.operators[user].target for user in table.users] == ["onnx.Gather", "onnx.MatMul"]


def test_sizes_are_set_by_name(tmp_path: Path, partita: Callable[..., Run]) -> None:
    path = tmp_path / "model.onnx"
    module, args, _ = PLAIN["attention"]()
    shapes = ({0: "batch", 1: "length"},)
    export((module, args, {}), path, dynamic_shapes=shapes)
    for batch, length in ((1, 8), (4, 20)):
        graph = pt.load_model(str(path), set_fields={"batch": str(batch), "length": str(length)})
        again = pt.load_model(str(path), batch_size=batch, set_fields={"length": str(length)})
        assert graph.flops == again.flops == pt.trace(module, (torch.zeros(batch, length, 64),)).flops
    refused = partita("plan", path, "--cluster", "2xL4")
    assert refused.code == 2
    assert "'batch' (x[0]), 'length' (x[1])" in refused.err
    assert "--set batch=VALUE --set length=VALUE ('batch' also as --batch-size)" in refused.err
    planned = partita("plan", path, "--cluster", "2xL4", "--batch-size", 8, "--set", "length=64", "--json")
    assert planned.code == 0
    assert planned.document["status"] == "optimal"


def test_sizes_that_are_wrong(tmp_path: Path) -> None:
    made = model([helper.make_node("Relu", ["x"], ["y"])], [info("x", ["n", None])], [info("y", None)])
    assert load(tmp_path, made, set_fields={"n": "3", "x.1": "4"}).operators[0].bytes_written == 48
    for fields, expected in (
        ({"m": "3"}, "no open dimension 'm'; there is n, x.1"),
        ({"n": "0", "x.1": "4"}, "'n' of .* is set to '0'; give a whole number"),
        ({"n": "many", "x.1": "4"}, "is set to 'many'"),
        ({"n": "3"}, r"leaves sizes open: 'x.1' \(x\[1\]\); give --set x.1=VALUE"),
    ):
        with pytest.raises(InputError, match=expected):
            load(tmp_path, made, set_fields=fields)
    with pytest.raises(InputError, match="--batch-size 2 and --set n=3 differ"):
        load(tmp_path, made, batch_size=2, set_fields={"n": "3", "x.1": "4"})
    fixed = model([helper.make_node("Relu", ["x"], ["y"])], [info("x", [2])], [info("y", None)])
    with pytest.raises(NoBatchSizeError, match="leaves no batch size open"):
        load(tmp_path, fixed, batch_size=2)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"training": True}, "holds no backward pass"),
        ({"dtype": "float16"}, "leave --dtype out"),
        ({"sequence_length": 8}, "--set NAME=VALUE"),
        ({"task": "causal-lm"}, "a task picks the head of an hf: model"),
        ({"decode": 8}, "export that step"),
    ],
)
def test_options_that_a_file_has_settled(tmp_path: Path, options: dict[str, Any], expected: str) -> None:
    made = model([helper.make_node("Relu", ["x"], ["y"])], [info("x", [2])], [info("y", [2])])
    with pytest.raises(InputError, match=expected):
        load(tmp_path, made, **options)


def test_external_data_is_not_read(tmp_path: Path) -> None:
    inputs, outputs = [info("x", [4, 512])], [info("y", [4, 1024])]
    stored = [weight("w", 512, 1024), weight("b", 1024), numbers("shape", 4, 1024)]
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("Add", ["p", "b"], ["q"]),
        helper.make_node("Reshape", ["q", "shape"], ["y"]),
    ]
    made = model(nodes, inputs, outputs, stored)
    whole = load(tmp_path, made)
    path = tmp_path / "outside.onnx"
    onnx.save(made, path, save_as_external_data=True, location="data.bin", size_threshold=1024)
    (tmp_path / "data.bin").unlink()
    outside = pt.load_model(str(path))
    assert outside.operators == whole.operators
    assert outside.parameters == whole.parameters
    assert outside.parameter_bytes == 4 * (512 * 1024 + 1024)


def test_arrays_at_one_place_of_a_data_file_are_tied(tmp_path: Path) -> None:
    stored = [weight("a", 64, 64), weight("b", 64, 64)]
    for tensor in stored:
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in (("location", "data.bin"), ("offset", "0"), ("length", str(4 * 64 * 64))):
            tensor.external_data.add(key=key, value=value)
    nodes = [helper.make_node("MatMul", ["x", "a"], ["p"]), helper.make_node("MatMul", ["p", "b"], ["y"])]
    graph = load(tmp_path, model(nodes, [info("x", [2, 64])], [info("y", [2, 64])], stored))
    (only,) = graph.parameters
    assert (only.name, only.aliases, only.users, only.bytes) == ("a", ("b",), (0, 1), 4 * 64 * 64)


def test_local_functions_are_inlined(tmp_path: Path) -> None:
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    layer = helper.make_function(
        "own", "Layer", ["x", "w"], ["y"],
        [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Relu", ["p"], ["y"])], opsets[:1],
    )  # fmt: skip
    nodes = [
        helper.make_node("Layer", ["x", "w"], ["h"], domain="own"),
        helper.make_node("Layer", ["h", "w"], ["y"], domain="own"),
    ]
    made = model(
        nodes, [info("x", [3, 8])], [info("y", [3, 8])], [weight("w", 8, 8)], functions=[layer], opset_imports=opsets
    )
    graph = load(tmp_path, made)
    assert [op.target for op in graph.operators] == ["onnx.MatMul", "onnx.Relu"] * 2
    assert graph.flops == 2 * 2 * 3 * 8 * 8


def _branch(name: str, width: int) -> Any:
    nodes = [
        helper.make_node("MatMul", ["x", f"w{width}"], ["p"]),
        helper.make_node("MatMul", ["p", f"v{width}"], [name]),
    ]
    return helper.make_graph(nodes, name, [], [info(name, [4, 8])], [weight(f"v{width}", width, 8)])


@pytest.mark.parametrize(("condition", "width", "users"), [(None, 16, 4), (True, 16, 2), (False, 32, 2)])
def test_a_branch_is_one_operator(tmp_path: Path, condition: bool | None, width: int, users: int) -> None:
    node = helper.make_node("If", ["c"], ["y"], then_branch=_branch("t", 16), else_branch=_branch("e", 32))
    stored = [weight("w16", 8, 16), weight("w32", 8, 32)]
    inputs = [info("x", [4, 8])]
    if condition is None:
        inputs.append(info("c", [], TensorProto.BOOL))
    else:
        stored.append(numpy_helper.from_array(np.array(condition), "c"))
    graph = load(tmp_path, model([node], inputs, [info("y", [4, 8])], stored))
    (op,) = graph.operators
    assert op.flops == 2 * 2 * 4 * 8 * width
    # Read: the source and both weights, and the result of the first product.
    assert op.bytes_read == 4 * (4 * 8 + 8 * width + 4 * width + width * 8)
    assert op.bytes_written == 4 * (4 * width + 4 * 8)
    assert sum(bool(p.users) for p in graph.parameters) == users
    assert any("Data decides" in note for note in graph.notes) == (condition is None)


def _loop(count: str, stacked: bool = True) -> Any:
    body = helper.make_graph(
        [
            helper.make_node("MatMul", ["h", "w"], ["after"]),
            helper.make_node("Identity", ["keep"], ["go"]),
            helper.make_node("ReduceSum", ["after"], ["row"], keepdims=0),
        ],
        "body",
        [info("i", [], INT), info("keep", [], TensorProto.BOOL), info("h", [4, 8])],
        [info("go", [], TensorProto.BOOL), info("after", [4, 8]), info("row", [])],
    )
    return helper.make_node("Loop", [count, "", "x"], ["y", "rows"], body=body)


def test_a_loop_is_one_operator(tmp_path: Path) -> None:
    outputs = [info("y", [4, 8]), info("rows", None)]
    stored = [weight("w", 8, 8), numbers("n", 5)]
    graph = load(tmp_path, model([_loop("n")], [info("x", [4, 8])], outputs, stored))
    (op,) = graph.operators
    assert op.flops == 5 * 2 * 4 * 8 * 8
    assert op.bytes_read == 5 * 4 * (4 * 8 + 8 * 8 + 4 * 8)
    assert {t.name: t.shape for t in graph.tensors if t.producer == 0} == {"Loop": (4, 8), "Loop.1": (5,)}
    assert graph.parameters[0].users == (0,)
    assert not graph.notes
    unknown = load(tmp_path, model([_loop("n")], [info("x", [4, 8]), info("n", [1], INT)], outputs, stored[:1]))
    assert unknown.flops == 2 * 4 * 8 * 8
    assert any("is not known: one time is counted" in note for note in unknown.notes)
    outputs[1] = info("rows", [7])
    stated = load(tmp_path, model([_loop("n")], [info("x", [4, 8]), info("n", [1], INT)], outputs, stored[:1]))
    assert stated.flops == 7 * 2 * 4 * 8 * 8


def test_a_scan_is_one_operator(tmp_path: Path) -> None:
    body = helper.make_graph(
        [helper.make_node("MatMul", ["row", "w"], ["p"]), helper.make_node("Add", ["s", "p"], ["after"]),
         helper.make_node("Identity", ["after"], ["out"])],
        "body", [info("s", [2, 8]), info("row", [2, 4])], [info("after", [2, 8]), info("out", [2, 8])],
    )  # fmt: skip
    node = helper.make_node("Scan", ["s0", "x"], ["s1", "y"], body=body, num_scan_inputs=1, scan_input_axes=[1])
    inputs, outputs = [info("s0", [2, 8]), info("x", [2, 6, 4])], [info("s1", [2, 8]), info("y", [6, 2, 8])]
    graph = load(tmp_path, model([node], inputs, outputs, [weight("w", 4, 8)]))
    assert graph.flops == 6 * 2 * 2 * 4 * 8
    assert {t.name for t in graph.tensors if t.producer is None} == {"s0", "x"}


def test_views_vanish(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[1, 0]),
        helper.make_node("Unsqueeze", ["t", "zero"], ["u"]),
        helper.make_node("Expand", ["u", "wide"], ["e"]),
        helper.make_node("Relu", ["e"], ["r"]),
        helper.make_node("Split", ["r"], ["a", "b"], axis=2, num_outputs=2),
        helper.make_node("Mul", ["a", "b"], ["y"]),
    ]
    stored = [numbers("zero", 0), numbers("wide", 3, 8, 4)]
    graph = load(tmp_path, model(nodes, [info("x", [4, 8])], [info("y", [3, 8, 2])], stored))
    assert [op.target for op in graph.operators] == ["onnx.Relu", "onnx.Mul"]
    relu, mul = graph.operators
    assert (relu.bytes_read, relu.bytes_written) == (4 * 32, 4 * 96)
    assert (mul.bytes_read, mul.bytes_written) == (4 * 96, 4 * 48)
    # Nobody reads the whole: each half is an output of its own.
    assert [t.bytes for t in graph.tensors if t.producer == 0] == [4 * 48] * 2


def test_what_follows_from_shapes_is_made_everywhere(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "one"], ["n"]),
        helper.make_node("Range", ["zero", "n", "step"], ["places"]),
        helper.make_node("Gather", ["table", "places"], ["rows"]),
        helper.make_node("Add", ["x", "rows"], ["y"]),
    ]
    stored = [*(numpy_helper.from_array(np.array(v), n) for n, v in (("one", 1), ("zero", 0), ("step", 1)))]
    made = model(nodes, [info("x", [2, "n", 16])], [info("y", None)], [*stored, weight("table", 9000, 16)])
    graph = load(tmp_path, made, set_fields={"n": "7000"})
    assert [op.target for op in graph.operators] == ["onnx.Gather", "onnx.Add"]
    # A lookup reads the rows it gathers; the places are a constant.
    assert [t.name for t in graph.tensors] == ["x", "Gather", "Add"]
    assert graph.operators[0].bytes_read == 4 * 7000 * 16 + 8 * 7000


def test_rows_that_data_picks_are_presumed(tmp_path: Path) -> None:
    nodes = [helper.make_node("NonZero", ["x"], ["i"]), helper.make_node("Cast", ["i"], ["y"], to=FLOAT)]
    graph = load(tmp_path, model(nodes, [info("x", [6, 5])], [info("y", None)]))
    assert [t.shape for t in graph.tensors if t.producer is not None] == [(2, 30), (2, 30)]
    assert any("NonZero" in note and "presumed" in note for note in graph.notes)


@pytest.mark.parametrize(
    ("node", "shapes", "flops"),
    [
        (("Gemm", {"transA": 1, "transB": 1}), [(5, 3), (7, 5)], 2 * 3 * 5 * 7),
        (("MatMul", {}), [(2, 3, 5), (5, 7)], 2 * 6 * 5 * 7),
        (("MatMul", {}), [(2, 3, 4, 5), (3, 5, 7)], 2 * 6 * 4 * 5 * 7),
        (("MatMul", {}), [(5,), (5, 7)], 2 * 5 * 7),
        (("MatMul", {}), [(4, 5), (5,)], 2 * 4 * 5),
        (("Conv", {"group": 2}), [(2, 4, 9, 9), (6, 2, 3, 3)], 2 * 2 * 7 * 7 * 6 * 2 * 9),
        (("ConvTranspose", {"strides": [2, 2]}), [(2, 4, 5, 5), (4, 3, 2, 2)], 2 * 2 * 25 * 4 * 3 * 4),
        (("Einsum", {"equation": "bij,bjk->bik"}), [(2, 3, 4), (2, 4, 5)], 2 * 2 * 3 * 4 * 5),
        (("Einsum", {"equation": "...ij,jk->...ik"}), [(2, 3, 4), (4, 5)], 2 * 2 * 3 * 4 * 5),
        (("Attention", {}), [(2, 4, 6, 8), (2, 2, 10, 8), (2, 2, 10, 16)], 2 * 2 * 4 * 6 * 10 * (8 + 16)),
        (("Attention", {"q_num_heads": 4, "kv_num_heads": 2}), [(2, 6, 32), (2, 10, 16), (2, 10, 16)],
         2 * 2 * 4 * 6 * 10 * 16),
        (("RNN", {"hidden_size": 4}), [(7, 2, 3), (1, 4, 3), (1, 4, 4)], 2 * 14 * (12 + 16)),
        (("Relu", {}), [(4, 5)], 0),
    ],
)  # fmt: skip
def test_arithmetic_of_operators(tmp_path: Path, node: Any, shapes: list[tuple[int, ...]], flops: int) -> None:
    op, attributes = node
    names = [f"i{place}" for place in range(len(shapes))]
    made = model(
        [helper.make_node(op, names, ["y"], **attributes)],
        [info(name, list(shape)) for name, shape in zip(names, shapes, strict=True)],
        [info("y", None)],
        opset_imports=[helper.make_opsetid("", 23)],
    )
    (found,) = load(tmp_path, made).operators
    assert found.flops == flops
    assert found.product is None or 2 * math.prod(found.product) == flops
    assert (found.product is not None) == (op in ("Gemm", "MatMul"))


def test_operators_defined_as_functions_have_shapes(tmp_path: Path) -> None:
    nodes = [helper.make_node("GreaterOrEqual", ["x", "z"], ["c"]), helper.make_node("Where", ["c", "x", "z"], ["y"])]
    made = model(
        nodes, [info("x", [4, 1]), info("z", [3])], [info("y", None)], opset_imports=[helper.make_opsetid("", 14)]
    )
    graph = load(tmp_path, made)
    assert [(t.shape, t.dtype) for t in graph.tensors if t.producer is not None] == [
        ((4, 3), "bool"),
        ((4, 3), "float32"),
    ]


def test_modules_follow_from_names_of_nodes(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["h"], name="/layers.0/attn/Relu"),
        helper.make_node("Relu", ["h"], ["y"], name="Relu_7"),
    ]
    graph = load(tmp_path, model(nodes, [info("x", [2])], [info("y", [2])]))
    assert [op.module for op in graph.operators] == ["layers.0.attn", ""]
    assert list(graph.modules) == ["", "layers", "layers.0", "layers.0.attn"]


def test_packed_weights_have_their_size(tmp_path: Path) -> None:
    packed = helper.make_tensor("w", TensorProto.INT4, [8, 9], [1] * 72)
    nodes = [helper.make_node("DequantizeLinear", ["w", "s"], ["d"]), helper.make_node("MatMul", ["x", "d"], ["y"])]
    stored = [packed, numpy_helper.from_array(np.float32(1), "s")]
    made = model(nodes, [info("x", [2, 8])], [info("y", [2, 9])], stored, opset_imports=[helper.make_opsetid("", 21)])
    graph = load(tmp_path, made)
    assert [(p.name, p.bytes, p.dtype, p.buffer) for p in graph.parameters] == [("w", 36, "int4", False)]
    step, product = graph.operators
    assert step.free
    assert product.bytes_read == 36 + 2 * 8 * 4


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.data())
@examples(60)
def test_reshapes_are_views_where_torch_has_a_view(shape: list[int], data: Any) -> None:
    order = data.draw(st.permutations(range(len(shape))))
    source = torch.empty(shape).permute(order)
    total = math.prod(shape)
    divisors = [d for d in range(1, total + 1) if total % d == 0]
    first, second = data.draw(st.sampled_from(list(itertools.product(divisors, divisors))))
    if total % (first * second):
        return
    target = [first, second, total // first // second]
    strides = restride(source.shape, source.stride(), target)
    try:
        expected = source.view(target)
    except RuntimeError:
        assert strides is None
        return
    assert strides is not None
    # Strides of dimensions of one element do not matter.
    assert [s for e, s in zip(target, strides, strict=True) if e > 1] == [
        s for e, s in zip(target, expected.stride(), strict=True) if e > 1
    ]
