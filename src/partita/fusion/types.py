"""What an operator is called in fusion rules: one table from ATen's names to types, and categories of types."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping

#: ATen's names, without the namespace, the overload and the underscore of in-place forms, by type.
_NAMES: dict[str, str] = {
    "conv": "convolution cudnn_convolution miopen_convolution mkldnn_convolution slow_conv2d_forward conv_depthwise3d "
    "_slow_conv2d_forward _conv_depthwise2d conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d",
    "bn": "batch_norm native_batch_norm cudnn_batch_norm miopen_batch_norm _native_batch_norm_legit "
    "_native_batch_norm_legit_no_training _batch_norm_with_update _batch_norm_no_update",
    "matmul": "mm bmm addmm baddbmm addbmm addmv mv dot matmul linear einsum _scaled_mm _int_mm",
    "attention": "scaled_dot_product_attention _scaled_dot_product_flash_attention "
    "_scaled_dot_product_efficient_attention _scaled_dot_product_cudnn_attention",
    "layer_norm": "native_layer_norm layer_norm",
    "group_norm": "native_group_norm group_norm",
    "rms_norm": "rms_norm _fused_rms_norm",
    "softmax": "_softmax softmax _safe_softmax",
    "log_softmax": "_log_softmax log_softmax",
    "reduce": "mean sum amax amin var var_mean std std_mean norm linalg_vector_norm logsumexp prod",
    "pool": "max_pool2d_with_indices max_pool2d avg_pool2d adaptive_avg_pool2d _adaptive_avg_pool2d avg_pool1d "
    "max_pool3d_with_indices avg_pool3d",
    "embedding": "embedding _embedding_bag",
    "cat": "cat stack",
    "pad": "constant_pad_nd pad reflection_pad2d",
    "gather": "gather index index_select take take_along_dim roll",
    "relu": "relu relu6 threshold",
    "gelu": "gelu",
    "silu": "silu",
    "sigmoid": "sigmoid log_sigmoid_forward",
    "tanh": "tanh",
    "hardtanh": "hardtanh clamp clamp_min clamp_max",
    "hardswish": "hardswish hardsigmoid",
    "leaky_relu": "leaky_relu elu celu selu prelu _prelu_kernel",
    "mish": "mish softplus",
    "add": "add",
    "sub": "sub rsub",
    "mul": "mul",
    "div": "div reciprocal",
    "pow": "pow square",
    "sqrt": "sqrt",
    "rsqrt": "rsqrt",
    "exp": "exp expm1",
    "log": "log log1p",
    "sin": "sin cos",
    "erf": "erf",
    "neg": "neg abs sign",
    "round": "round floor ceil trunc fmod remainder",
    "where": "where masked_fill",
    "compare": "eq ne lt le gt ge logical_and logical_or logical_not bitwise_and bitwise_or bitwise_not isnan isinf "
    "maximum minimum",
    "addcmul": "addcmul addcdiv lerp",
    "cast": "_to_copy",
    "copy": "clone copy",
    "dropout": "native_dropout dropout bernoulli",
}

_TYPE_OF = {name: kind for kind, names in _NAMES.items() for name in names.split()}

_ACTIVATIONS = frozenset({"relu", "gelu", "silu", "sigmoid", "tanh", "hardtanh", "hardswish", "leaky_relu", "mish"})
_POINTWISE = "add sub mul div pow sqrt rsqrt exp log sin erf neg round where compare addcmul cast copy dropout"

#: Categories that rules may name like a type.
CATEGORIES: dict[str, frozenset[str]] = {
    "activation": _ACTIVATIONS,
    "elementwise": _ACTIVATIONS | set(_POINTWISE.split()),
    "normalise": frozenset({"softmax", "log_softmax", "layer_norm", "group_norm", "rms_norm", "reduce"}),
}

#: The namespace of the targets of fused operators, which go on with the types of the members.
FUSED = "fused"

#: All types and categories that rules may name without saying what they are.
VOCABULARY = frozenset(_NAMES) | frozenset(CATEGORIES)


def operator_type(target: str, further: Mapping[str, str] | None = None) -> str:
    """The type of what a traced operator computes (``aten.relu_.default``); the empty string if it has none.

    ``further`` maps shell-style patterns of targets to types and is asked first. That of a fused operator is those of
    its members, which no rule names.
    """
    for pattern, kind in (further or {}).items():
        if fnmatch.fnmatchcase(target, pattern):
            return kind
    namespace, _, rest = target.partition(".")
    if namespace == FUSED:
        return rest
    return _TYPE_OF.get(rest.partition(".")[0].rstrip("_"), "") if namespace == "aten" else ""
