"""Old operator sets, and what ONNX Runtime makes of a file: optimised or quantised, it does the same arithmetic."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import partita as pt

onnx = pytest.importorskip("onnx", reason="ONNX files are read by onnx")
torch = pytest.importorskip("torch", reason="models are exported by torch")
runtime = pytest.importorskip("onnxruntime", reason="it optimises and quantises files")

from frontends.test_onnx import entering, traffic  # noqa: E402
from models.onnx_models import PLAIN, _hub  # noqa: E402
from partita.costs.roofline import Roofline  # noqa: E402

MODELS = {**PLAIN, "vit": _hub("vit", image_size=32, patch_size=8, hidden_size=64, num_hidden_layers=2,
                             num_attention_heads=4, intermediate_size=128)}  # fmt: skip
NAMES = [name for name in MODELS if name != "vit"]


def export(name: str, path: Path, opset: int) -> Any:
    """Write a model with torch's older exporter; the graph of the module."""
    torch.manual_seed(0)
    module, args, _ = MODELS[name]()
    module = module.eval()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for array in (*module.parameters(), *module.buffers()):
            if array.is_floating_point():
                array.uniform_(0.1, 1)
        torch.onnx.export(module, args, str(path), dynamo=False, opset_version=opset)
    return pt.trace(module, args)


@pytest.mark.parametrize("opset", [11, 13, 17])
@pytest.mark.parametrize("name", NAMES)
def test_old_operator_sets(tmp_path: Path, name: str, opset: int) -> None:
    if (name, opset) == ("experts", 11):
        pytest.skip("operator set 11 has no Einsum")
    traced = export(name, tmp_path / "model.onnx", opset)
    graph = pt.load_model(str(tmp_path / "model.onnx"))
    assert graph.flops == pytest.approx(traced.flops, rel=0.02)
    assert entering(graph) == entering(traced)
    assert traffic(graph) == pytest.approx(traffic(traced), rel=0.06 if name == "lstm" else 0.02)
    if name != "tied":
        # The older exporter stores the transposed table of words beside it.
        assert graph.parameter_bytes == pytest.approx(traced.parameter_bytes, rel=0.02)


class Samples:
    """Inputs to calibrate with: a single one."""

    def __init__(self, path: Path) -> None:
        self.left: Iterator[Any] = iter([{each.name: self.make(each) for each in onnx.load(path).graph.input}])

    def make(self, each: Any) -> Any:
        shape = [dim.dim_value for dim in each.type.tensor_type.shape.dim]
        whole = each.type.tensor_type.elem_type == onnx.TensorProto.INT64
        return np.ones(shape, np.int64) if whole else np.random.default_rng(0).random(shape).astype(np.float32)

    def get_next(self) -> Any:
        return next(self.left, None)


def optimised(path: Path, made: Path) -> None:
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(made)
    options.log_severity_level = 4
    runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def dynamic(path: Path, made: Path) -> None:
    from onnxruntime.quantization import QuantType, quantize_dynamic

    quantize_dynamic(path, made, weight_type=QuantType.QInt8)


def calibrated(path: Path, made: Path) -> None:
    from onnxruntime.quantization import QuantFormat, quantize_static

    quantize_static(path, made, Samples(path), quant_format=QuantFormat.QDQ, per_channel=True)


def of_bytes(path: Path, made: Path) -> None:
    from onnxruntime.quantization import QuantFormat, quantize_static

    quantize_static(path, made, Samples(path), quant_format=QuantFormat.QOperator)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("change", [optimised, dynamic, calibrated, of_bytes], ids=lambda change: change.__name__)
@pytest.mark.parametrize("name", ["mlp", "convolutions", "residual", "attention", "lstm", "u-net", "vit"])
def test_what_the_runtime_makes_of_a_file(tmp_path: Path, name: str, change: Any) -> None:
    traced = export(name, tmp_path / "model.onnx", 17)
    change(tmp_path / "model.onnx", tmp_path / "changed.onnx")
    graph = pt.load_model(str(tmp_path / "changed.onnx"))
    assert graph.flops == pytest.approx(traced.flops, rel=0.02)
    assert entering(graph) == entering(traced)
    share = graph.parameter_bytes / traced.parameter_bytes
    if change is optimised:
        assert share == pytest.approx(1, rel=0.02)
    else:
        # Bytes in place of floats; LSTMs and transposed convolutions may stay.
        assert 0.24 < share < (1 if name == "lstm" else 0.5)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["mlp", "convolutions", "residual", "attention", "vit"])
def test_a_quantised_file_is_never_slower(tmp_path: Path, name: str) -> None:
    """Quantise and dequantise steps run inside the operators beside them, in either of the two forms of such files."""
    export(name, tmp_path / "model.onnx", 17)
    device = pt.Cluster.from_spec("1xA100-40GB").groups()[0].spec
    found = {}
    for change in (None, calibrated, of_bytes):
        path = tmp_path / "model.onnx"
        if change is not None:
            change(path, path := tmp_path / f"{change.__name__}.onnx")
        graph = pt.load_model(str(path))
        found[change] = (sum(Roofline().operator_times(graph, device)), traffic(graph))
        integers = sum(op.flops for op in graph.operators if op.dtype == "int8")
        assert (integers > 0.5 * graph.flops) == (change is not None)
    # What enters is quantised, and what leaves dequantised, by an operator of its own.
    assert found[calibrated][0] <= found[None][0] + 2 * device.launch_overhead_s
    assert found[calibrated][1] < 0.7 * found[None][1]
    assert found[calibrated][1] == pytest.approx(found[of_bytes][1], rel=0.5)


def test_a_layout_of_one_processor_is_named(tmp_path: Path) -> None:
    export("convolutions", tmp_path / "model.onnx", 17)
    made = onnx.load(tmp_path / "model.onnx")
    made.graph.node[0].domain = "com.microsoft.nchwc"
    made.opset_import.add(domain="com.microsoft.nchwc", version=1)
    onnx.save(made, tmp_path / "model.onnx")
    with pytest.raises(pt.InputError, match="laid out for one processor: optimise it at the level before"):
        pt.load_model(str(tmp_path / "model.onnx"))
