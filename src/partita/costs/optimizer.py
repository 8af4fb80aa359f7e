"""What an optimizer keeps for every parameter."""

from __future__ import annotations

import math
from typing import Literal, get_args

from partita.ground.errors import InputError
from partita.nouns.catalogue.formats import Formats
from partita.nouns.graph import Graph, Parameter

Optimizer = Literal["adam", "adamw", "adam-8bit", "adamw-8bit", "sgd", "sgd-momentum", "adafactor", "none"]

#: The names ``price`` accepts.
OPTIMIZERS: tuple[str, ...] = get_args(Optimizer)

_ITEM_BYTES = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}

#: Arrays of the parameter's shape that each keeps; Adafactor's depend on the shape.
_MOMENTS = {"adam": 2, "adamw": 2, "sgd": 0, "sgd-momentum": 1}

#: Bytes of a number of eight-bit state with its part of the float32 scale of a block of 256, and the fewest elements of
#: a weight whose state is kept so: the others' is float32, as in bitsandbytes (``blocksize``, ``min_8bit_size``).
_EIGHT_BIT, _LEAST_EIGHT_BIT = 1 + 4 / 256, 4096


def dtype_bytes(dtype: str) -> int:
    """Bytes of one element of a number format that optimizer state can have; others are an ``InputError``."""
    if dtype.startswith("float8"):
        return 1
    if dtype not in _ITEM_BYTES:
        raise InputError(f"optimizer_dtype is {dtype!r}; it must be parameter, {', '.join(_ITEM_BYTES)} or a float8")
    return _ITEM_BYTES[dtype]


def check_optimizer(optimizer: str, dtype: str) -> None:
    """Refuse an unknown optimizer, or a number format that its state cannot have (``parameter`` is fine)."""
    if optimizer not in OPTIMIZERS:
        raise InputError(f"optimizer is {optimizer!r}; it must be one of {', '.join(OPTIMIZERS)}")
    if dtype != "parameter":
        dtype_bytes(dtype)


def optimizer_bytes(
    parameter: Parameter, optimizer: str, *, dtype: str = "float32", master_weights: bool | None = None
) -> int:
    """Bytes of optimizer state for one parameter.

    Adam keeps two moments of every element (Kingma and Ba, "Adam", 2015), SGD with momentum one, SGD none. Adafactor
    (Shazeer and Stern, "Adafactor", 2018) keeps, for each matrix of the last two dimensions, one sum per row and one
    per column, and for vectors one number per element; its first moment is off, as is its default. ``none`` keeps
    nothing, not even master weights. ``adam-8bit`` and ``adamw-8bit`` keep Adam's moments in eight bits with a scale
    for each block (Dettmers et al., "8-bit Optimizers via Block-wise Quantization", ICLR 2022), whatever ``dtype`` is,
    and no master weights unless asked to.

    ``dtype`` is the number format of the state, ``parameter`` for that of the parameter itself. ``master_weights`` says
    whether a copy of the weights in ``dtype`` is kept beside those that the model computes with; None keeps one where
    these are narrower (mixed-precision training as in Micikevicius et al., 2018).
    """
    check_optimizer(optimizer, dtype)
    if optimizer == "none" or not parameter.trainable or parameter.buffer:
        return 0
    count = math.prod(parameter.shape)
    if optimizer.endswith("-8bit"):
        number = _EIGHT_BIT if count >= _LEAST_EIGHT_BIT else 4.0
        copies = 4 * count if keeps_master(parameter, optimizer, dtype, master_weights) else 0
        return math.ceil(2 * count * number) + copies
    # A packed format's element is less than what its shape suggests; the bytes are what is certain.
    width = parameter.bytes / count if count else 0.0
    item = width if dtype == "parameter" else float(dtype_bytes(dtype))
    elements = _factored(parameter.shape) if optimizer == "adafactor" else _MOMENTS[optimizer] * count
    if keeps_master(parameter, optimizer, dtype, master_weights):
        elements += count
    return round(elements * item)


def keeps_master(parameter: Parameter, optimizer: str, dtype: str, master_weights: bool | None) -> bool:
    """Whether the optimizer keeps a copy of a trained weight; arguments are those of ``optimizer_bytes``."""
    count = math.prod(parameter.shape)
    if optimizer == "none" or not count:
        return False
    if optimizer.endswith("-8bit"):
        return bool(master_weights)
    width = parameter.bytes / count
    return bool(master_weights) or (
        master_weights is None and width < (width if dtype == "parameter" else dtype_bytes(dtype))
    )


def _factored(shape: tuple[int, ...]) -> int:
    count = math.prod(shape)
    if len(shape) < 2 or not count:
        return count
    return count // (shape[-1] * shape[-2]) * (shape[-1] + shape[-2])


def formats_of(
    graph: Graph, optimizer: str, dtype: str, master_weights: bool | None, gradient_dtype: str = "parameter"
) -> Formats:
    """The number formats of training a graph.

    ``gradient_dtype`` is that of gradients, ``parameter`` for that of weights; the others are as for
    ``optimizer_bytes``.
    """
    trained = [parameter for parameter in graph.parameters if parameter.trainable and not parameter.buffer]
    weights = ",".join(sorted({parameter.dtype for parameter in trained}))
    return Formats(
        weights=weights,
        gradients=weights if gradient_dtype == "parameter" else gradient_dtype,
        optimizer="int8" if optimizer.endswith("-8bit") else weights if dtype == "parameter" else dtype,
        master=any(keeps_master(one, optimizer, dtype, master_weights) for one in trained),
    )
