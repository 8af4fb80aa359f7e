"""What kinds of operators there are, as far as splitting them is concerned."""

from __future__ import annotations

from partita.nouns.graph import Operator


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: Every element of the result depends on one element of each operand (broadcast operands included).
ELEMENTWISE = _names(
    "abs add addcdiv addcmul bernoulli bitwise_and bitwise_not bitwise_or ceil celu clamp clamp_max clamp_min clone "
    "copy copy_ cos div dropout elu eq erf exp exp2 fill floor ge gelu glu_jvp gt hardsigmoid hardswish hardtanh le "
    "leaky_relu lerp log log1p logical_and logical_not logical_or lt masked_fill maximum minimum mish mul "
    "native_dropout ne neg pow reciprocal relu relu6 round rsqrt rsub sigmoid sign silu sin softplus sqrt square sub "
    "tanh threshold to _to_copy where"
)

#: Parts of a tensor, and tensors put together.
SLICES = _names("slice cat split narrow select unbind chunk contiguous")

#: Reduce one or more dimensions; the shapes say which.
REDUCTIONS = _names("mean sum amax amin max min var std var_mean prod linalg_vector_norm logsumexp")

#: Normalise over the last dimensions, those of their weights.
NORMS = _names("native_layer_norm layer_norm rms_norm _fused_rms_norm")

#: What brings rows to experts and back, in layers that have some.
ROUTING = _names(
    "topk sort argsort index index_select index_add index_put _index_put_impl gather scatter scatter_add histc "
    "bincount cumsum floor_divide one_hot nonzero zeros_like new_zeros"
)

SOFTMAX = _names("_softmax softmax _safe_softmax")
LOSSES = _names("_log_softmax log_softmax nll_loss_forward cross_entropy_loss")
EMBEDDINGS = _names("embedding _embedding_bag")
ATTENTION = frozenset({"scaled_dot_product_attention"})


def base_name(op: Operator) -> str:
    """``add`` for ``aten.add_.Tensor``: in-place forms do what the others do."""
    name = op.target.split(".")[1] if "." in op.target else op.target
    return name[:-1] if name.endswith("_") and not name.startswith("_") and name != "copy_" else name
