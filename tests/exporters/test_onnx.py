"""Exported ONNX models, run by ONNX Runtime and OpenVINO: outputs are those of the model that is not split."""

from __future__ import annotations

import json
import re
import runpy
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from exporters.splits import by_layers, unet, usual
from partita.exporters import find_exporter
from partita.exporters.module_inputs import wrapped_model
from partita.exporters.onnx_model import _exported
from partita.ground.errors import InputError
from partita.nouns.split import Split

torch = pytest.importorskip("torch")
onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxscript")

#: A decoder whose head is its embedding, on two stages: each has a copy, and in inference copies stay alike.
SPLIT = "tied"


@pytest.fixture(scope="module")
def model_file(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The decoder as torch exports it."""
    path = tmp_path_factory.mktemp("model") / "decoder.onnx"
    onnx.save(_exported(by_layers(SPLIT, (3, 3))), path)
    return str(path)


def wanted_of(split: Split) -> tuple[list[Any], Any]:
    """Inputs, and what the model that is not split makes of them."""
    model, inputs = wrapped_model(split)
    with torch.no_grad():
        return [tensor.numpy() for tensor in inputs], model(*inputs).numpy()


def session(model: Any, **options: str) -> Any:
    """ONNX Runtime's."""
    runtime = pytest.importorskip("onnxruntime")
    settings = runtime.SessionOptions()
    settings.log_severity_level = 3
    for name, value in options.items():
        settings.add_session_config_entry(name, value)
    return runtime.InferenceSession(model, settings, providers=["CPUExecutionProvider"])


def run_stages(folder: Path, inputs: list[Any]) -> list[Any]:
    """The stages one after the other, each with what those before it and the caller give it."""
    listed = json.loads((folder / "stages.json").read_text())
    known = dict(zip(listed["inputs"], inputs, strict=True))
    for stage in listed["stages"]:
        given = {name: known[name] for name in stage["inputs"]}
        known |= dict(zip(stage["outputs"], session(folder / stage["model"]).run(stage["outputs"], given), strict=True))
    return [known[name] for name in listed["outputs"]]


def test_stage_models_compute_the_same(tmp_path: Path) -> None:
    """Exported by torch on the way; a skip connection is an input of the last stage."""
    split = unet()
    find_exporter("onnx").export(split, tmp_path / "stages")
    inputs, wanted = wanted_of(split)
    (found,) = run_stages(tmp_path / "stages", inputs)
    assert np.allclose(found, wanted, rtol=1e-5, atol=1e-6)
    listed = json.loads((tmp_path / "stages" / "stages.json").read_text())["stages"]
    assert set(listed[2]["inputs"]) & set(listed[0]["outputs"])
    for number, entry in enumerate(listed):
        model = onnx.load(tmp_path / "stages" / entry["model"])
        convolutions = [node for node in model.graph.node if node.op_type == "Conv"]
        assert len(convolutions) == {0: 2, 1: 2, 2: 1}[number]


def test_every_stage_makes_its_constants(tmp_path: Path) -> None:
    """A mask that all stages read: each makes it from the model's input, and only one tensor is handed on."""
    split = by_layers("masked", (3, 3))
    assert split.constants
    find_exporter("onnx").export(split, tmp_path / "stages")
    inputs, wanted = wanted_of(split)
    (found,) = run_stages(tmp_path / "stages", inputs)
    assert np.allclose(found, wanted, rtol=1e-5, atol=1e-6)
    listed = json.loads((tmp_path / "stages" / "stages.json").read_text())
    first, second = listed["stages"]
    assert len(first["outputs"]) == 1
    assert set(second["inputs"]) == {*listed["inputs"], *first["outputs"]}


def test_a_given_model_is_cut_as_planned(tmp_path: Path, model_file: str) -> None:
    split = by_layers(SPLIT, (3, 3))
    find_exporter("onnx").export(split, tmp_path / "stages", model_file)
    inputs, wanted = wanted_of(split)
    (found,) = run_stages(tmp_path / "stages", inputs)
    assert np.allclose(found, wanted, rtol=1e-5, atol=1e-6)
    for number in (0, 1):
        model = onnx.load(tmp_path / "stages" / f"stage{number}.onnx")
        assert Counter(node.op_type for node in model.graph.node)["LayerNormalization"] == {0: 2, 1: 3}[number]


def check_stages(graph: Any, stage_of: dict[str, int]) -> None:
    """Every node that a module of the decoder calls is on the module's stage of two."""
    whole = {"tok_embeddings": 0, "norm": 1, "output": 1, **{f"layers.{n}": n // 2 for n in range(4)}}
    checked = 0
    for node in graph.node:
        (scopes,) = [entry.value for entry in node.metadata_props if entry.key == "pkg.torch.onnx.name_scopes"]
        for name, stage in whole.items():
            if re.search(rf"'module\.{re.escape(name)}[.']", scopes):
                assert stage_of[node.output[0]] == stage
                checked += 1
    assert checked == len(graph.node)
    assert set(stage_of.values()) == {0, 1}


def test_nodes_name_device_and_stage(tmp_path: Path, model_file: str) -> None:
    """As the checker of ONNX reads it; runtimes that do not know of it run the model as before."""
    split = by_layers(SPLIT, (3, 3))
    (path,) = find_exporter("onnx-stages").export(split, tmp_path / "model.onnx", model_file)
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    (configuration,) = model.configuration
    assert (configuration.num_devices, list(configuration.device)) == (2, ["cuda:0 (L4)", "cuda:1 (L4)"])
    stage_of = {}
    for node in model.graph.node:
        (entry,) = node.device_configurations
        assert entry.configuration_id == configuration.name
        for spec in entry.sharding_spec:
            assert spec.tensor_name in node.output
            assert list(spec.device) == [entry.pipeline_stage]
        stage_of |= dict.fromkeys(node.output, entry.pipeline_stage)
    for node in model.graph.node:
        assert all(stage_of[name] <= stage_of[node.output[0]] for name in node.input if name in stage_of)
    check_stages(model.graph, stage_of)
    inputs, wanted = wanted_of(split)
    (found,) = session(path).run(None, {model.graph.input[0].name: inputs[0]})
    assert np.allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_layers_are_assigned_for_onnx_runtime(tmp_path: Path, model_file: str) -> None:
    """The option is read by the runtime: what it cannot read it refuses."""
    split = usual("onnxruntime")
    find_exporter("onnxruntime").export(split, tmp_path / "out", model_file)
    options = json.loads((tmp_path / "out" / "session.json").read_text())
    (text,) = options.values()
    assert dict(re.findall(r"(\w+)\(([^()]*)\)(?:; |$)", text)) == {"gpu": "=stage0", "cpu": "=stage1"}
    model = onnx.load(tmp_path / "out" / "model.onnx")
    stage_of = {}
    for node in model.graph.node:
        (value,) = [entry.value for entry in node.metadata_props if entry.key == "layer_ann"]
        stage_of |= dict.fromkeys(node.output, int(value.removeprefix("stage")))
    check_stages(model.graph, stage_of)
    inputs, wanted = wanted_of(by_layers(SPLIT, (3, 3)))
    given = {model.graph.input[0].name: inputs[0]}
    (found,) = session(tmp_path / "out" / "model.onnx", **options).run(None, given)
    assert np.allclose(found, wanted, rtol=1e-5, atol=1e-6)
    with pytest.raises(Exception, match=r"(?i)layer|parenthes|config"):
        session(tmp_path / "out" / "model.onnx", **{next(iter(options)): text.replace(")", "", 1)})


def test_openvino_compiles_with_affinities(tmp_path: Path, model_file: str) -> None:
    openvino = pytest.importorskip("openvino")
    split = by_layers(SPLIT, (3, 3))
    find_exporter("openvino").export(split, tmp_path / "out", model_file)
    script = runpy.run_path(str(tmp_path / "out" / "compile.py"))
    assert script["DEVICES"] == ["GPU.0", "GPU.1"]
    core = openvino.Core()
    model, _ = script["annotated"](core)
    stages = json.loads((tmp_path / "out" / "stages.json").read_text())
    seen = Counter()
    for node in model.get_ordered_ops():
        affinity = str(node.get_rt_info()["affinity"].astype(str))
        name = node.get_friendly_name()
        if name in stages:
            assert affinity == f"GPU.{stages[name]}"
        seen[affinity] += 1
    assert seen["GPU.0"] > 10
    assert seen["GPU.1"] > 10
    exact = {"INFERENCE_PRECISION_HINT": "f32"}
    core.set_property("CPU", exact)
    compiled = script["compile_model"](["CPU", "CPU"], core)
    inputs, wanted = wanted_of(split)
    assert np.allclose(compiled(inputs)[0], wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("none.onnx", None, "there is no such file"),
        ("text.onnx", b"no model", "is not an ONNX model"),
        ("model.pt", b"", "is not the path of an ONNX model"),
    ],
)
def test_models_that_are_none(tmp_path: Path, name: str, content: bytes | None, message: str) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        find_exporter("onnx").export(by_layers("decoder", (3, 3)), tmp_path / "out", str(path))
    assert not (tmp_path / "out").exists()


def test_another_model_is_refused(tmp_path: Path, model_file: str) -> None:
    """Nodes that know nothing of modules, and a model without what a stage runs."""
    split = unet()
    with pytest.raises(InputError, match=r"has nothing that stage \d of the plan runs; is it the model planned"):
        find_exporter("onnx").export(split, tmp_path / "out", model_file)
    model = onnx.load(model_file)
    for node in model.graph.node:
        del node.metadata_props[:]
    onnx.save(model, tmp_path / "plain.onnx")
    with pytest.raises(InputError, match="do not say which modules they come from"):
        find_exporter("onnx").export(split, tmp_path / "out", str(tmp_path / "plain.onnx"))
    assert not (tmp_path / "out").exists()
