"""FLOPs of a module as ``torch.utils.flop_counter`` counts them, without any part of the tracer."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


def counted(module: Any, args: Any, kwargs: Any, training: bool, device: str) -> int:
    """FLOPs that torch counts when the module runs eagerly."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils._pytree import tree_map_only
    from torch.utils.flop_counter import FlopCounterMode

    def place(tensor: Any) -> Any:
        if tensor.device.type == device:
            return tensor
        if device == "meta":
            return tensor.to("meta")
        return torch.zeros(tensor.shape, dtype=tensor.dtype)

    args, kwargs = tree_map_only(torch.Tensor, place, (tuple(args), kwargs))
    random.seed(0)
    torch.manual_seed(0)
    module = module.to(device).train(training)
    if not training:
        # The counter follows modules by their gradients, if they have any.
        module.requires_grad_(False)
    counter = FlopCounterMode(display=False, custom_mapping=_missing())
    with one_sequence_a_row(), sdpa_kernel(SDPBackend.MATH), torch.set_grad_enabled(training), counter:
        out = module(*args, **kwargs)
        if training:
            _loss(out).backward()
    return int(counter.get_total_flops())


def _loss(out: Any) -> Any:
    """A loss of the model, else the sum of the means of all it returns."""
    import torch
    from torch.utils._pytree import tree_leaves

    given = out.get("loss") if hasattr(out, "get") else None
    if given is not None and given.numel() == 1:
        return given.reshape(())
    leaves = tree_leaves(dict(out) if hasattr(out, "items") else out)
    return sum(t.float().mean() for t in leaves if isinstance(t, torch.Tensor) and t.requires_grad)


def _missing() -> dict[Any, Any]:
    """Formulas of products that the counter's registry lacks, or has wrong."""
    import torch

    def grouped(a: Any, b: Any, *_: Any, **__: Any) -> int:
        # Every row of a two-dimensional factor meets one matrix only.
        groups = a[0] if len(a) == 3 and len(b) == 3 else 1
        rows = a[-2] if len(a) == 2 or groups > 1 else math.prod(a[:-1])
        return 2 * groups * rows * a[-1] * b[-1]

    def vector(a: Any, b: Any, *_: Any, **__: Any) -> int:
        return 2 * a[0] * a[1]

    from torch.utils.flop_counter import conv_flop_count, flop_registry

    def convolution_backward(grad: Any, x: Any, weight: Any, *more: Any, out_shape: Any = None, **_: Any) -> int:
        # torch's own formula takes every channel with every other, in whatever groups they are.
        transposed, mask = more[4], more[7]
        return sum(map(bool, mask[:2])) * int(conv_flop_count(x, weight, grad, transposed=transposed))

    aten = torch.ops.aten
    formulas: dict[Any, Any] = {aten._grouped_mm: grouped, aten.mv: vector}
    missing = {packet: formula for packet, formula in formulas.items() if packet not in flop_registry}
    return {**missing, aten.convolution_backward: convolution_backward}


@contextmanager
def one_sequence_a_row() -> Iterator[None]:
    """Let transformers run on the meta device: it would look for packed sequences by value."""
    import transformers.masking_utils as masking

    keep = masking.find_packed_sequence_indices
    masking.find_packed_sequence_indices = lambda position_ids: None
    try:
        yield
    finally:
        masking.find_packed_sequence_indices = keep
