"""Plans of ONNX files that say nothing of modules, as older exporters and quantisers write them, are exported again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import partita as pt
from partita.conductor.documents import answer_document
from partita.documents.document import write_json
from partita.documents.result_file import with_problem
from partita.exporters import find_exporter
from partita.nouns.split import Split
from partita.problems.planned import read_split

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")

WIDTH, LAYERS = 32, 4


def plain(folder: Path) -> Path:
    """A chain of layers as the older exporter writes it: names with slashes, nothing stated between nodes."""
    rng = np.random.default_rng(0)
    nodes, stored, last = [], [], "x"
    for layer in range(LAYERS):
        weight, bias = rng.normal(size=(WIDTH, WIDTH)).astype(np.float32) / WIDTH**0.5, np.ones(WIDTH, np.float32)
        stored.append(onnx.numpy_helper.from_array(weight, f"l.{layer}.weight"))
        stored.append(onnx.numpy_helper.from_array(bias, f"l.{layer}.bias"))
        own = [last, f"l.{layer}.weight", f"l.{layer}.bias"]
        nodes.append(onnx.helper.make_node("Gemm", own, [f"/l.{layer}/out"], name=f"/l.{layer}/Gemm", transB=1))
        last = "y" if layer == LAYERS - 1 else f"/Relu_{layer}_out"
        nodes.append(onnx.helper.make_node("Relu", [f"/l.{layer}/out"], [last], name=f"/Relu_{layer}"))
    floats = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2, WIDTH]) for name in ("x", "y")]
    graph = onnx.helper.make_graph(nodes, "main_graph", floats[:1], floats[1:], stored)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])
    model.ir_version = 8
    path = folder / "plain.onnx"
    onnx.save(model, path)
    return path


def quantised(folder: Path) -> Path:
    """The same with products of whole numbers, whose scales are found as it runs."""
    quantization = pytest.importorskip("onnxruntime.quantization")
    path = folder / "quantised.onnx"
    quantization.quantize_dynamic(plain(folder), path)
    kinds = {node.op_type for node in onnx.load(path).graph.node}
    assert {"DynamicQuantizeLinear", "MatMulInteger"} <= kinds
    return path


def planned(path: Path, cluster: str, objective: str) -> Split:
    """The split of a plan, by way of its result file."""
    answer = pt.plan(pt.load_model(str(path)), cluster, objective=objective, time_limit_s=30, baselines=False)
    result = path.with_suffix(".json")
    write_json(result, with_problem(answer_document(answer), answer.problem))
    return read_split(result)


def values(model: Any, given: dict[str, Any]) -> dict[str, Any]:
    """What ONNX Runtime makes of inputs."""
    session = runtime.InferenceSession(model, providers=["CPUExecutionProvider"])
    outs = [entry.name for entry in session.get_outputs()]
    own = {entry.name: given[entry.name] for entry in session.get_inputs()}
    return dict(zip(outs, session.run(outs, own), strict=True))


@pytest.mark.parametrize("made", [plain, quantised])
def test_stages_one_after_the_other_are_the_model(made: Any, tmp_path: Path) -> None:
    path = made(tmp_path)
    split = planned(path, "2xL4", "throughput")
    assert len(split.stages) == 2
    find_exporter("onnx").write(split, tmp_path / "out", None)
    listed = json.loads((tmp_path / "out" / "stages.json").read_text())["stages"]
    parts = [onnx.load(tmp_path / "out" / entry["model"]) for entry in listed]
    # Every operator is on the stage that the plan gives it.
    planned_kinds = [len(stage.operators) for stage in split.stages]
    assert [len(part.graph.node) for part in parts] == planned_kinds
    given = {"x": np.random.default_rng(1).normal(size=(2, WIDTH)).astype(np.float32)}
    known = dict(given)
    for entry in listed:
        known |= values(str(tmp_path / "out" / entry["model"]), known)
    np.testing.assert_allclose(known["y"], values(str(path), given)["y"], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("made", [plain, quantised])
@pytest.mark.parametrize("name", ["onnxruntime", "openvino"])
def test_sessions_are_written_for_the_whole_model(made: Any, name: str, tmp_path: Path) -> None:
    path = made(tmp_path)
    split = planned(path, "(1xL4+1xCPU)", "throughput")
    find_exporter(name).write(split, tmp_path / "out", None)
    assert len(onnx.load(tmp_path / "out" / "model.onnx").graph.node) == len(onnx.load(path).graph.node)


def test_the_remedy_for_a_model_without_modules_is_one(tmp_path: Path) -> None:
    """A plan of another model is refused with what to do; doing it exports."""
    path = plain(tmp_path)
    split = planned(path, "2xL4", "throughput")
    foreign = Split(**{field: getattr(split, field) for field in split.__struct_fields__ if field != "source"})
    with pytest.raises(pt.InputError, match=r"plain\.onnx itself, or leave --model out"):
        find_exporter("onnx").write(foreign, tmp_path / "out", str(path))
    assert find_exporter("onnx").write(split, tmp_path / "out", str(path))


def test_a_tensor_whose_type_nothing_says_is_named(tmp_path: Path) -> None:
    path = plain(tmp_path)
    model = onnx.load(path)
    split = planned(path, "2xL4", "throughput")
    for node in model.graph.node:
        node.domain = "" if node.op_type == "Gemm" else "own"
    model.opset_import.append(onnx.helper.make_opsetid("own", 1))
    onnx.save(model, path)
    with pytest.raises(pt.InputError, match=r"the type of '/Relu_\d_out'.* write it into the file"):
        find_exporter("onnx").write(split, tmp_path / "out", None)
    middle = [text for node in model.graph.node for text in node.output if text != "y"]
    for text in middle:
        model.graph.value_info.append(onnx.helper.make_tensor_value_info(text, onnx.TensorProto.FLOAT, [2, WIDTH]))
    onnx.save(model, path)
    assert find_exporter("onnx").write(split, tmp_path / "out", None)
