"""Modules as tracers of other tools take them: tensors in, tensors out; and data for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from partita.frontends.models import load_module
from partita.ground.errors import InputError
from partita.nouns.split import Split

if TYPE_CHECKING:
    import torch

#: Before the names of the model's own modules in a trace of the wrapped one.
PREFIX = "module."
#: Arguments that make a model compute its own loss; exported models return what they predict.
_LABELS = ("labels", "start_positions", "end_positions", "class_labels", "mask_labels")


def wrapped_model(split: Split, seed: int = 0) -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    """The model of a split in evaluation mode, with weights that follow from a seed, and example tensors for it.

    Its inputs are the tensors of its example arguments, in order, its output one tensor or a tuple of them.

    Raises ``InputError`` if the split does not say where its model comes from, or the model cannot be built.
    """
    if split.source is None:
        raise InputError(
            f"the plan of {split.model!r} does not say how its model is built; plan it again from hf:TYPE or "
            "path/to/file.py:callable"
        )
    import torch

    from partita.inside.torch_inside import tree_leaves

    found = load_module(split.source, seed=seed)
    named = {name: value for name, value in found.kwargs.items() if name not in _LABELS}
    places = [number for number, value in enumerate(found.args) if isinstance(value, torch.Tensor)]
    names = [name for name, value in named.items() if isinstance(value, torch.Tensor)]

    class Wrapped(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.module = found.module

        def forward(self, *tensors: torch.Tensor) -> Any:
            given = list(found.args)
            for place, tensor in zip(places, tensors, strict=False):
                given[place] = tensor
            chosen = dict(zip(names, tensors[len(places) :], strict=True))
            output = self.module(*given, **{**named, **chosen})
            tensors = tuple(leaf for leaf in tree_leaves(output) if isinstance(leaf, torch.Tensor))
            return tensors[0] if len(tensors) == 1 else tensors

    examples = [found.args[place] for place in places] + [named[name] for name in names]
    generator = torch.Generator().manual_seed(seed)
    return Wrapped().eval(), tuple(_with_data(tensor, generator) for tensor in examples)


def more_data(example: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Other data of the same form and range: random for floating numbers, another order for others."""
    import torch

    if example.is_floating_point():
        return torch.randn(example.shape, generator=generator).to(example)
    order = torch.randperm(example.numel(), generator=generator).to(example.device)
    return example.flatten()[order].reshape(example.shape)


def _with_data(example: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """A tensor of the same form with data: its own, or random ones."""
    import torch

    from partita.inside.torch_inside import FakeTensor

    if example.device.type != "meta" and not isinstance(example, FakeTensor):
        return example.detach()
    if example.is_floating_point():
        return torch.randn(example.shape, generator=generator).to(example.dtype)
    # Positions, classes, masks: 0 and 1 are in the range of all of them.
    return torch.randint(0, 2, example.shape, generator=generator).to(example.dtype)
