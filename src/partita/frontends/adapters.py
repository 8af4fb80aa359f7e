"""Low-rank adapters (LoRA) on the linear layers of a module, which stays frozen beside them.

A linear layer with the frozen weight W computes W·x + s·B·A·x, where A has ``rank`` rows and B as many columns, and
only A and B are trained (Hu et al., "LoRA", ICLR 2022, §4.1). Every linear layer but the output head has an adapter
unless targets are named: that is what QLoRA found to match full fine-tuning (Dettmers et al., "QLoRA", NeurIPS 2023,
§4), and what the target ``all-linear`` of the library peft means. Adapters are called ``lora_A`` and ``lora_B``, as
there, have no bias and no dropout, and are of the number format of the layer that they belong to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from partita.frontends.options import Adapters, nearest
from partita.ground.errors import InputError

#: The factor s, which changes no cost: α = 2·rank, as in torchtune's recipes.
_SCALE = 2.0
#: Linear layers whose module is never called: attention reads their weights.
_UNCALLED = "NonDynamicallyQuantizableLinear"


def attach(module: Any, adapters: Adapters | None) -> tuple[str, ...]:
    """Freeze a module and give its linear layers adapters, in place; what a reader should know about it.

    Without ``adapters`` it is left as it is. Raises ``InputError`` if a target names no linear layer, or there is none.
    """
    if adapters is None:
        return ()
    layers = _chosen(module, adapters)
    for parameter in module.parameters():
        parameter.requires_grad_(False)
    kept = sum(parameter.numel() for parameter in module.parameters())
    trained = 0
    for _, layer in layers:
        inputs, outputs = _features(layer)
        rank = adapters.rank
        weight = layer.weight
        like = {"device": weight.device, "dtype": weight.dtype}
        layer.lora_A = torch.nn.Linear(inputs, rank, bias=False, **like)
        layer.lora_B = torch.nn.Linear(rank, outputs, bias=False, **like)
        layer.forward = _Adapted(layer, layer.forward)
        trained += rank * (inputs + outputs)
    return (_note(adapters, layers, trained, kept), *_left_out(module, adapters))


def detach(module: Any) -> None:
    """Take adapters off again; what is frozen stays so."""
    for layer in module.modules():
        if isinstance(vars(layer).get("forward"), _Adapted):
            del layer.forward, layer.lora_A, layer.lora_B


@contextmanager
def adapted(module: Any, adapters: Adapters | None) -> Iterator[tuple[str, ...]]:
    """A module with adapters while the block runs, and as it was afterwards; notes of ``attach``."""
    if adapters is None:
        yield ()
        return
    before = [(parameter, parameter.requires_grad) for parameter in module.parameters()]
    try:
        yield attach(module, adapters)
    finally:
        detach(module)
        for parameter, needed in before:
            parameter.requires_grad_(needed)


class _Adapted:
    """The forward of a linear layer that has an adapter."""

    def __init__(self, layer: Any, plain: Callable[..., Any]) -> None:
        self.layer, self.plain = layer, plain

    def __call__(self, x: Any) -> Any:
        return self.plain(x) + self.layer.lora_B(self.layer.lora_A(x)) * _SCALE


def _is_linear(module: Any) -> bool:
    """Whether it is a linear layer: torch's, or transformers' ``Conv1D``, whose weight lies the other way round."""
    if isinstance(module, torch.nn.Linear):
        return type(module).__name__ != _UNCALLED
    return type(module).__name__ == "Conv1D" and hasattr(module, "nf")


def _features(layer: Any) -> tuple[int, int]:
    """Of its input and of its result."""
    first, second = layer.weight.shape
    return (second, first) if isinstance(layer, torch.nn.Linear) else (first, second)


def _chosen(module: Any, adapters: Adapters) -> list[tuple[str, Any]]:
    """The layers that get adapters, with their names."""
    linear = [(name, child) for name, child in module.named_modules() if _is_linear(child)]
    if any(hasattr(child, "lora_A") for _, child in linear):
        raise InputError(f"{type(module).__name__} has adapters already; trace it without lora")
    title = type(module).__name__
    if not linear:
        raise InputError(f"{title} has no linear layer that an adapter could belong to; leave lora out")
    if not adapters.targets:
        head = module.get_output_embeddings() if hasattr(module, "get_output_embeddings") else None
        layers = [(name, child) for name, child in linear if child is not head]
        return layers or linear
    for target in adapters.targets:
        if not any(_named(name, target) for name, _ in linear):
            last = {name.rpartition(".")[2] for name, _ in linear}
            raise InputError(f"{title} has no linear layer called {target!r}{nearest(target, last)}")
    return [(name, child) for name, child in linear if any(_named(name, target) for target in adapters.targets)]


def _named(name: str, target: str) -> bool:
    return name == target or name.endswith(f".{target}")


def _note(adapters: Adapters, layers: Sequence[tuple[str, Any]], trained: int, kept: int) -> str:
    kinds = Counter(name.rpartition(".")[2] for name, _ in layers)
    shown = ", ".join(list(kinds)[:8]) + (", …" if len(kinds) > 8 else "")
    return (
        f"LoRA: {len(layers)} linear layers ({shown}) have adapters of rank {adapters.rank}, which are trained: "
        f"{trained:,} weights beside {kept:,} that stay as they are."
    )


def _left_out(module: Any, adapters: Adapters) -> tuple[str, ...]:
    """That experts in one array are no linear layers, where there are some and all layers were asked for."""
    stacked = [name for name, parameter in module.named_parameters() if parameter.dim() == 3]
    if adapters.targets or not stacked:
        return ()
    return (f"Experts that are one array for all of them ({stacked[0]}, …) have no adapters: they are frozen.",)
