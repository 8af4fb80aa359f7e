"""Operators of ONNX Runtime: shapes and formats are those that it makes, arithmetic that of their parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import partita as pt
from partita.ground.errors import InputError

onnx = pytest.importorskip("onnx", reason="ONNX files are read by onnx")
runtime = pytest.importorskip("onnxruntime", reason="it says what its operators make")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from partita.frontends.onnx.runtime import _RULES, ADDED, DOMAIN, LIKE  # noqa: E402
from partita.frontends.onnx.walk import Walk  # noqa: E402

F, U8, I8, I32, I64 = np.float32, np.uint8, np.int8, np.int32, np.int64


def of(*shape: int, kind: Any = F) -> np.ndarray:
    """An array of small numbers."""
    return (np.arange(np.prod(shape)).reshape(shape) % 5).astype(kind)


def scale() -> np.ndarray:
    """Of quantised numbers."""
    return np.array(0.5, F)


def zero(kind: Any = U8) -> np.ndarray:
    """The number that stands for zero."""
    return np.array(0, kind)


#: Attributes, inputs (None for one left out) and the number of outputs.
CASES: dict[str, tuple[str, dict[str, Any], list[Any], int]] = {
    "fused product": ("FusedMatMul", {"transA": 1, "transB": 1}, [of(2, 5, 4), of(2, 6, 5)], 1),
    "fused product over batches": ("FusedMatMul", {"transBatchA": 1, "transBatchB": 1}, [of(3, 2, 5), of(5, 2, 4)], 1),
    "old fused product": ("TransposeMatMul", {"transA": 1}, [of(5, 4), of(5, 6)], 1),
    "gemm": ("FusedGemm", {"activation": "Relu", "transB": 1}, [of(4, 5), of(6, 5), of(6)], 1),
    "gelu": ("Gelu", {}, [of(2, 3, 4)], 1),
    "bias and gelu": ("BiasGelu", {}, [of(2, 3, 4), of(4)], 1),
    "fast gelu": ("FastGelu", {}, [of(2, 3, 4), of(4)], 1),
    "quick gelu": ("QuickGelu", {"alpha": 1.7}, [of(2, 3, 4)], 1),
    "norm of a sum": ("SkipLayerNormalization", {}, [of(2, 3, 8), of(2, 3, 8), of(8), of(8), of(8)], 4),
    "simple norm of a sum": ("SkipSimplifiedLayerNormalization", {}, [of(2, 3, 8), of(2, 3, 8), of(8)], 4),
    "words": (
        "EmbedLayerNormalization",
        {},
        [of(2, 3, kind=I32), of(2, 3, kind=I32) % 2, of(9, 8), of(7, 8), of(2, 8), of(8), of(8), of(2, 3, kind=I32)],
        2,
    ),
    "attention": ("Attention", {"num_heads": 2}, [of(2, 5, 8), of(8, 24), of(24)], 1),
    "causal attention with a past": (
        "Attention",
        {"num_heads": 2, "unidirectional": 1},
        [of(2, 5, 8), of(8, 24), of(24), None, of(2, 2, 2, 3, 4)],
        2,
    ),
    "attention of other widths": (
        "Attention",
        {"num_heads": 2, "qkv_hidden_sizes": [8, 8, 12]},
        [of(2, 5, 8), of(8, 28), of(28)],
        1,
    ),
    "heads": ("MultiHeadAttention", {"num_heads": 2}, [of(2, 5, 8), of(2, 7, 8), of(2, 7, 12)], 1),
    "heads that come apart": ("MultiHeadAttention", {"num_heads": 2}, [of(2, 5, 8), of(2, 2, 7, 4), of(2, 2, 7, 4)], 1),
    "heads with a past": (
        "MultiHeadAttention",
        {"num_heads": 2},
        [of(2, 5, 8), of(2, 5, 8), of(2, 5, 8), None, None, None, of(2, 2, 3, 4), of(2, 2, 3, 4)],
        3,
    ),
    "grouped queries": (
        "GroupQueryAttention",
        {"num_heads": 4, "kv_num_heads": 2},
        [of(2, 5, 32), of(2, 5, 16), of(2, 5, 16), None, None, np.array([4, 4], I32), np.array(5, I32)],
        3,
    ),
    "grouped queries after a past": (
        "GroupQueryAttention",
        {"num_heads": 4, "kv_num_heads": 2},
        [of(2, 1, 32), of(2, 1, 16), of(2, 1, 16), of(2, 2, 6, 8), of(2, 2, 6, 8), np.array([6, 6], I32),
         np.array(7, I32)],
        3,
    ),
    "packed grouped queries": (
        "GroupQueryAttention",
        {"num_heads": 4, "kv_num_heads": 2},
        [of(2, 5, 64), None, None, None, None, np.array([4, 4], I32), np.array(5, I32)],
        3,
    ),
    "turned positions": (
        "RotaryEmbedding",
        {},
        [of(2, 3, 16), of(2, 3, kind=I64), of(9, 4), of(9, 4)],
        1,
    ),
    "product with few bits": (
        "MatMulNBits",
        {"K": 64, "N": 12, "bits": 4, "block_size": 32},
        [of(2, 3, 64), of(12, 2, 16, kind=U8), of(12, 2)],
        1,
    ),
    "rows of few bits": (
        "GatherBlockQuantized",
        {"bits": 4, "block_size": 16, "gather_axis": 0, "quantize_axis": 1},
        [of(9, 16, kind=U8), of(2, 3, kind=I64), of(9, 2)],
        1,
    ),
    "product of floats by bytes": (
        "DynamicQuantizeMatMul",
        {},
        [of(2, 3, 4), of(4, 6, kind=I8), scale().reshape(1), zero(I8).reshape(1), of(6)],
        1,
    ),
    "product of bytes to floats": (
        "MatMulIntegerToFloat",
        {},
        [of(3, 4, kind=U8), of(4, 6, kind=I8), scale().reshape(1), scale().reshape(1)],
        1,
    ),
    "gemm of bytes": (
        "QGemm",
        {"transB": 1},
        [of(3, 4, kind=U8), scale(), zero(), of(6, 4, kind=U8), scale(), zero(), None, scale(), zero()],
        1,
    ),
    "gemm of bytes to floats": (
        "QGemm",
        {},
        [of(3, 4, kind=U8), scale(), zero(), of(4, 6, kind=U8), scale(), zero()],
        1,
    ),
    "attention of bytes": (
        "QAttention",
        {"num_heads": 2},
        [of(2, 5, 8, kind=U8), of(8, 24, kind=I8), of(24), scale(), scale(), None, zero(), zero(I8)],
        1,
    ),
    "sum of bytes": (
        "QLinearAdd",
        {},
        [of(2, 3, 4, kind=U8), scale(), zero(), of(4, kind=U8), scale(), zero(), scale(), zero()],
        1,
    ),
    "joined bytes": (
        "QLinearConcat",
        {"axis": 1},
        [scale(), zero(), of(2, 3, kind=U8), scale(), zero(), of(2, 5, kind=U8), scale(), zero()],
        1,
    ),
    "pooled bytes": (
        "QLinearGlobalAveragePool",
        {},
        [of(2, 3, 4, 4, kind=U8), scale(), zero(), scale(), zero()],
        1,
    ),
    "bytes picked": (
        "QLinearWhere",
        {},
        [of(2, 1, kind=bool), of(2, 3, kind=U8), scale(), zero(), of(1, 3, kind=U8), scale(), zero(), scale(), zero()],
        1,
    ),
    "to bytes": ("QuantizeLinear", {}, [of(2, 3), scale(), zero(I8)], 1),
    "from bytes": ("DequantizeLinear", {}, [of(2, 3, kind=U8), scale(), zero()], 1),
    "convolution": (
        "FusedConv",
        {"activation": "Relu", "kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]},
        [of(2, 3, 8, 8), of(4, 3, 3, 3), of(4)],
        1,
    ),
    "experts": (
        "MoE",
        {"k": 2, "activation_type": "relu"},
        [of(6, 8), of(6, 4), of(4, 16, 8), of(4, 16), of(4, 8, 16), of(4, 8)],
        1,
    ),
    "pooled windows of bytes": (
        "QLinearAveragePool",
        {"kernel_shape": [3, 3], "strides": [2, 2]},
        [of(1, 3, 8, 8, kind=U8), scale(), zero(), scale(), zero()],
        1,
    ),
    "recurrence of bytes": (
        "DynamicQuantizeLSTM",
        {"hidden_size": 4, "direction": "bidirectional"},
        [of(5, 2, 3), of(2, 3, 16, kind=I8), of(2, 4, 16, kind=I8), of(2, 32), None, None, None, None,
         of(2), of(2, kind=I8) * 0, of(2), of(2, kind=I8) * 0],
        3,
    ),
    "softmax of bytes": (
        "QLinearSoftmax",
        {"axis": -1, "opset": 13},
        [of(2, 3, kind=U8), scale(), zero(), scale(), zero()],
        1,
    ),
    "sigmoid of bytes": ("QLinearSigmoid", {}, [of(2, 3, kind=U8), scale(), zero(), scale(), zero()], 1),
    "leaky bytes": ("QLinearLeakyRelu", {}, [of(2, 3, kind=U8), scale(), zero(), scale(), zero()], 1),
    "product of two bytes": (
        "QLinearMul",
        {},
        [of(2, 3, 4, kind=U8), scale(), zero(), of(3, 1, kind=U8), scale(), zero(), scale(), zero()],
        1,
    ),
    "triangle": ("Trilu", {}, [of(2, 3, 3)], 1),
    "rows by places": ("GatherND", {}, [of(4, 3), of(2, 1, kind=I64) % 4], 1),
    "sampled": ("GridSample", {}, [of(1, 2, 4, 4), of(1, 3, 5, 2)], 1),
    "padded": ("Pad", {}, [of(2, 3), np.array([0, 1, 0, 2]), of(1)], 1),
}  # fmt: skip

#: What no processor alone runs, or only in half precision: shapes by hand.
BY_HAND: dict[str, tuple[str, dict[str, Any], list[Any], tuple[int, ...]]] = {
    "packed heads": ("MultiHeadAttention", {"num_heads": 2}, [of(2, 5, 2, 3, 4)], (2, 5, 8)),
    "packed keys": ("MultiHeadAttention", {"num_heads": 2}, [of(2, 5, 8), of(2, 7, 2, 2, 4)], (2, 5, 8)),
    "bias": ("BiasAdd", {}, [of(2, 9, 8), of(8), of(2, 9, 8)], (2, 9, 8)),
    "softmax of a sum": ("BiasSoftmax", {"axis": 1, "is_inner_broadcast": 0}, [of(2, 3), of(1, 3)], (2, 3)),
    "mean of bytes": (
        "QLinearReduceMean", {"axes": [-1], "keepdims": 0}, [of(2, 3, 4, kind=U8), scale(), zero(), scale(), zero()],
        (2, 3),
    ),
    "split gelu": ("BiasSplitGelu", {}, [of(2, 9, 8), of(8)], (2, 9, 4)),
    "norm of groups": ("GroupNorm", {"groups": 2, "activation": 0}, [of(1, 4, 4, 8), of(8), of(8)], (1, 4, 4, 8)),
    "norm of groups of a sum": (
        "SkipGroupNorm", {"groups": 2, "activation": 0}, [of(1, 4, 4, 8), of(8), of(8), of(1, 4, 4, 8)], (1, 4, 4, 8)
    ),
    "product with four bits": ("MatMulBnb4", {"K": 64, "N": 12}, [of(2, 64), of(384, kind=U8), of(12)], (2, 12)),
    "gemm and gelu": ("GemmFastGelu", {}, [of(3, 4), of(4, 6), of(6)], (3, 6)),
    "activated product": ("FusedMatMulActivation", {"activation": "Relu"}, [of(3, 4), of(4, 6)], (3, 6)),
    "distances": (
        "RelativePositionBias", {"max_distance": 8}, [of(32, 4), np.array([5]), np.array([7])], (1, 4, 5, 7)
    ),
    "experts of few bits": (
        "QMoE", {"k": 2, "expert_weight_bits": 4},
        [of(6, 8), of(6, 4), of(4, 16, 4, kind=U8), of(4, 16), None, of(4, 8, 8, kind=U8), of(4, 8)], (6, 8)
    ),
    "convolution of bytes": (
        "QLinearConv", {},
        [of(1, 3, 8, 8, kind=U8), scale(), zero(), of(4, 3, 3, 3, kind=U8), scale(), zero(), scale(), zero()],
        (1, 4, 6, 6),
    ),
}  # fmt: skip

#: A multiply-add counts two; other cases have no arithmetic that counts.
FLOPS = {
    "fused product": 2 * 2 * 4 * 5 * 6,
    "fused product over batches": 2 * 2 * 3 * 5 * 4,
    "old fused product": 2 * 4 * 5 * 6,
    "gemm": 2 * 4 * 5 * 6,
    "attention": 2 * 2 * 5 * 8 * 24 + 2 * 2 * 2 * 5 * 5 * 8,
    "causal attention with a past": 2 * 2 * 5 * 8 * 24 + 2 * 2 * 2 * 5 * 8 * 8,
    "attention of other widths": 2 * 2 * 5 * 8 * 28 + 2 * 2 * 5 * 5 * (8 + 12),
    "heads": 2 * 2 * 5 * 7 * (8 + 12),
    "heads that come apart": 2 * 2 * 2 * 5 * 7 * 8,
    "heads with a past": 2 * 2 * 2 * 5 * 8 * 8,
    "packed heads": 2 * 2 * 2 * 5 * 5 * 8,
    "packed keys": 2 * 2 * 2 * 5 * 7 * 8,
    "grouped queries": 2 * 2 * 2 * 5 * 5 * 32,
    "grouped queries after a past": 2 * 2 * 2 * 7 * 32,
    "packed grouped queries": 2 * 2 * 2 * 5 * 5 * 32,
    "product with few bits": 2 * 6 * 64 * 12,
    "product with four bits": 2 * 2 * 64 * 12,
    "product of floats by bytes": 2 * 6 * 4 * 6,
    "product of bytes to floats": 2 * 3 * 4 * 6,
    "gemm of bytes": 2 * 3 * 4 * 6,
    "gemm of bytes to floats": 2 * 3 * 4 * 6,
    "gemm and gelu": 2 * 3 * 4 * 6,
    "recurrence of bytes": 2 * 5 * 2 * 2 * (3 + 4) * 16,
    "activated product": 2 * 3 * 4 * 6,
    "attention of bytes": 2 * 2 * 5 * 8 * 24 + 2 * 2 * 2 * 5 * 5 * 8,
    "convolution": 2 * 2 * 4 * 4 * 4 * 3 * 9,
    "convolution of bytes": 2 * 6 * 6 * 4 * 3 * 9,
    # Two experts for each of six rows, each two products.
    "experts": 6 * 2 * 2 * 2 * 8 * 16,
    "experts of few bits": 6 * 2 * 2 * 2 * 8 * 16,
}


def write(path: Path, case: str) -> dict[str, np.ndarray]:
    """A file with the operator of a case; its inputs."""
    op, attributes, inputs, outputs = CASES[case] if case in CASES else (*BY_HAND[case][:3], 1)
    names = ["" if array is None else f"i{place}" for place, array in enumerate(inputs)]
    given = {name: array for name, array in zip(names, inputs, strict=True) if array is not None}
    results = [f"o{place}" for place in range(outputs)]
    if op == "SkipLayerNormalization" or op == "SkipSimplifiedLayerNormalization":
        # Mean and deviation are for training.
        results[1:3] = "", ""
    # Single numbers and sizes are stored, as in files that are used.
    sizes = {name: array for name, array in given.items() if array.size == 1 or (array.ndim, array.dtype) == (1, I64)}
    stored = [numpy_helper.from_array(array, name) for name, array in sizes.items()]
    given = {name: array for name, array in given.items() if name not in sizes}
    open_inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in given.items()
    ]
    graph = helper.make_graph(
        [helper.make_node(op, names, results, name="only", domain=DOMAIN, **attributes)],
        "made",
        open_inputs,
        [helper.make_value_info(name, onnx.TypeProto()) for name in results if name],
        stored,
    )
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid(DOMAIN, 1)]
    path.write_bytes(helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString())
    return given


@pytest.mark.parametrize("case", CASES)
def test_what_operators_make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    path = tmp_path / "made.onnx"
    feeds = write(path, case)
    found: list[Any] = []
    capture = Walk.capture
    monkeypatch.setattr(Walk, "capture", lambda self, outputs: found.extend(outputs) or capture(self, outputs))
    graph = pt.load_model(str(path))
    assert graph.flops == FLOPS.get(case, 0)
    expected = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, feeds)
    assert [(array.shape, array.dtype) for array in found] == [(array.shape, str(array.dtype)) for array in expected]


@pytest.mark.parametrize("case", BY_HAND)
def test_what_other_operators_make(tmp_path: Path, case: str) -> None:
    path = tmp_path / "made.onnx"
    write(path, case)
    graph = pt.load_model(str(path))
    assert graph.flops == FLOPS.get(case, 0)
    assert [t.shape for t in graph.tensors if t.producer is not None][:1] == [BY_HAND[case][3]]


def test_every_rule_has_a_case() -> None:
    covered = {case[0] for case in (*CASES.values(), *BY_HAND.values())}
    assert covered >= {*_RULES, *LIKE} - ADDED


def test_norms_that_the_runtime_adds_to_the_standard(tmp_path: Path) -> None:
    path = tmp_path / "made.onnx"
    graph = helper.make_graph(
        [helper.make_node("SimplifiedLayerNormalization", ["x", "g"], ["y"], axis=-1, epsilon=1e-5)],
        "made",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 8])],
        [numpy_helper.from_array(of(8), "g")],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(made.SerializeToString())
    (op,) = pt.load_model(str(path)).operators
    assert (op.target, op.bytes_read) == ("com_microsoft.SimplifiedLayerNormalization", 4 * (16 + 8))


def test_tables_of_embeddings_are_read_by_the_row(tmp_path: Path) -> None:
    path = tmp_path / "made.onnx"
    write(path, "words")
    (op,) = pt.load_model(str(path)).operators
    # Two kinds of places, three tables of which as much is read as is made but no more than there is, two vectors.
    assert op.bytes_read == 3 * 4 * 6 + 4 * (6 * 8 + 6 * 8 + 2 * 8) + 2 * 4 * 8


@pytest.mark.parametrize(
    ("case", "change", "expected"),
    [
        ("fused product", {"transA": 0}, "needs the same inner size, not 4 and 5"),
        ("product with few bits", {"K": 65}, "needs the same inner size, not 64 and 65"),
        ("pooled windows of bytes", {"channels_last": 1}, "has its channels last, which is not supported"),
        ("attention", {"num_heads": None}, "'only' \\(Attention\\) lacks attribute 'num_heads'"),
        ("sum of bytes", "inputs", "'only' \\(QLinearAdd\\) cannot take"),
    ],
)
def test_what_contradicts_is_refused(tmp_path: Path, case: str, change: Any, expected: str) -> None:
    path = tmp_path / "made.onnx"
    write(path, case)
    model = onnx.load(path)
    (node,) = model.graph.node
    if change == "inputs":
        del node.input[3:]
    else:
        kept = [a for a in node.attribute if a.name not in change]
        del node.attribute[:]
        node.attribute.extend(kept)
        node.attribute.extend(helper.make_attribute(k, v) for k, v in change.items() if v is not None)
    path.write_bytes(model.SerializeToString())
    with pytest.raises(InputError, match=expected):
        pt.load_model(str(path))


def test_a_mixture_reads_the_experts_that_its_tokens_choose(tmp_path: Path) -> None:
    """One token of two experts of sixteen reads an eighth of their weights."""
    path = tmp_path / "made.onnx"
    weights = {"up": of(16, 32, 8), "up_bias": of(16, 32), "down": of(16, 8, 32), "down_bias": of(16, 8)}
    graph = helper.make_graph(
        [helper.make_node("MoE", ["x", "router", *weights], ["y"], domain=DOMAIN, k=2, activation_type="relu")],
        "made",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", [1, 8]), ("router", [1, 16]))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 8])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    versions = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)]
    path.write_bytes(helper.make_model(graph, opset_imports=versions, ir_version=8).SerializeToString())
    (op,) = pt.load_model(str(path)).operators
    assert op.bytes_read == sum(array.nbytes for array in weights.values()) // 8 + 4 * (8 + 16)
