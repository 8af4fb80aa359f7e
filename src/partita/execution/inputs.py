"""Inputs of the microbatches of a run, drawn from a seed.

Arguments with data stand for what the model is fed: whole numbers and flags of further microbatches are drawn from
theirs, floats have their mean and spread. Arguments without data are made up: floats are normal, flags are set, and
whole numbers stay below the rows of the tables that they look up and the classes that they name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from partita.execution.program import WIDENED
from partita.frontends.tape import Ref, Tape
from partita.inside.torch_inside import FakeTensor, packet_name, tree_flatten, tree_unflatten


class Inputs:
    """The arguments of a model for any microbatch.

    Parameters
    ----------
    tape
        The model's calls, whose inputs are in the order of the arguments.
    args, kwargs
        Example arguments of one microbatch.
    """

    def __init__(self, tape: Tape, args: Sequence[Any], kwargs: dict[str, Any], seed: int) -> None:
        self.leaves, self.spec = tree_flatten((tuple(args), dict(kwargs)))
        self.seed = seed
        names = [origin.name for origin in tape.origins.values() if origin.kind == "input"]
        slots = [slot for slot, origin in tape.origins.items() if origin.kind == "input"]
        bounds = _bounds(tape)
        distinct = list({id(leaf): leaf for leaf in self.leaves if isinstance(leaf, torch.Tensor)}.values())
        self.tensors = list(zip(names, distinct, (bounds.get(slot, 2) for slot in slots), strict=True))

    def of(self, microbatch: int) -> dict[str, Any]:
        """The tensors of a microbatch by name."""
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + microbatch)
        return {name: _draw(like, bound, microbatch, generator) for name, like, bound in self.tensors}

    def arguments(self, tensors: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Tensors in their places among the arguments."""
        by_id = {id(like): tensors[name] for name, like, _ in self.tensors}
        leaves = [by_id[id(leaf)] if isinstance(leaf, torch.Tensor) else leaf for leaf in self.leaves]
        args, kwargs = tree_unflatten(leaves, self.spec)
        return args, kwargs


def has_data(tensor: Any) -> bool:
    """Whether a tensor is more than a shape."""
    return not tensor.is_meta and not isinstance(tensor, FakeTensor)


def _draw(like: Any, bound: int, microbatch: int, generator: Any) -> Any:
    shape, dtype = tuple(like.shape), WIDENED.get(like.dtype, like.dtype)
    known = has_data(like) and like.numel() > 0
    if known and microbatch == 0:
        return like.detach().to(dtype).contiguous()
    if dtype.is_floating_point or dtype.is_complex:
        drawn = torch.randn(shape, generator=generator, dtype=dtype)
        if not known or like.numel() < 2:
            return drawn
        spread = like.detach().to(torch.float64).std()
        return (drawn * (spread if spread > 0 else 1.0) + like.detach().to(torch.float64).mean()).to(dtype)
    if known:
        places = torch.randint(like.numel(), shape, generator=generator)
        return like.detach().reshape(-1)[places]
    if dtype == torch.bool:
        return torch.ones(shape, dtype=dtype)
    return torch.randint(bound, shape, generator=generator, dtype=dtype)


def _bounds(tape: Tape) -> dict[int, int]:
    """For inputs of whole numbers how many values they may take, as far as what reads them says."""
    inputs = {slot for slot, origin in tape.origins.items() if origin.kind == "input"}
    roots: dict[int, set[int]] = {slot: {slot} for slot in inputs}
    found: dict[int, int] = {}

    def limit(ref: Any, rows: int) -> None:
        for slot in roots.get(ref.slot, ()) if isinstance(ref, Ref) else ():
            found[slot] = min(found.get(slot, rows), rows)

    for entry in tape.entries:
        name = packet_name(entry.func)
        if name == "aten.embedding":
            limit(entry.args[1], tape.slots[entry.args[0].slot].shape[0])
        elif name in ("aten.nll_loss_forward", "aten.nll_loss2d_forward"):
            shape = tape.slots[entry.args[0].slot].shape
            limit(entry.args[1], shape[min(1, len(shape) - 1)])
        elif name in ("aten.index", "aten.index_select", "aten.gather"):
            source = tape.slots[entry.args[0].slot].shape
            at = entry.args[1] if name == "aten.index" else entry.args[2]
            for place, ref in enumerate(at if isinstance(at, (list, tuple)) else [at]):
                dimension = place if name == "aten.index" else entry.args[1]
                limit(ref, source[dimension] if source else 1)
        reached: set[int] = set()
        for slot in entry.reads:
            if not tape.slots[slot].dtype.is_floating_point:
                reached |= roots.get(slot, set())
        for out in (*entry.outs, *entry.writes):
            if out is not None and not tape.slots[out].dtype.is_floating_point and reached:
                storage = tape.slots[out].storage
                roots.setdefault(out, set()).update(reached)
                for other in list(roots):
                    if tape.slots[other].storage == storage:
                        roots[other] = roots[other] | reached
    return found
