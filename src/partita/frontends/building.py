"""Calling a user's callable for its module and arguments, without allocating weights wherever that is possible."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import chain
from typing import Any

import torch
from torch.nn.parameter import is_lazy

from partita.frontends.flops import CALLS
from partita.frontends.surroundings import OnePlace, plain_conversions
from partita.frontends.values import Values
from partita.inside.torch_inside import DispatchMode, FakeTensorMode, packet_name, storage_id, tree_leaves

#: Bytes of tensors that a callable may make for real, if it reads values and so cannot do without.
_MOST_BYTES = 2**31


class _Limited(DispatchMode):
    """On real tensors: a limit on what is allocated."""

    def __init__(self) -> None:
        super().__init__()
        self.made: dict[int, int] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if packet_name(func) in CALLS["allocates"] and args:
            size = 4 * math.prod(map(int, args[0] if isinstance(args[0], (list, tuple)) else ()))
            if size > _MOST_BYTES:
                raise MemoryError(f"a tensor of {size} bytes")
        out = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(out):
            if isinstance(tensor, torch.Tensor) and tensor.layout == torch.strided:
                self.made[storage_id(tensor)] = tensor.untyped_storage().nbytes()
        if sum(self.made.values()) > _MOST_BYTES:
            raise MemoryError("more tensors than are made for real")
        return out


@contextmanager
def with_values() -> Iterator[Values]:
    """Within, arrays have no data, but small numbers that code may read, such as drop rates by layer, are kept."""
    with FakeTensorMode(allow_non_fake_inputs=True), Values() as values:
        yield values


def on_meta() -> AbstractContextManager[Any]:
    """Within, no array that is made has data."""
    return torch.device("meta")  # type: ignore[no-any-return]


def _with_shapes(result: Any) -> Any:
    """What was built; layers that take the size of their weights from the first call are called once."""
    module = result[0] if isinstance(result, tuple) and result else None
    if isinstance(module, torch.nn.Module) and any(map(is_lazy, chain(module.parameters(), module.buffers()))):
        args = (result[1],) if isinstance(result[1], torch.Tensor) else result[1]
        with torch.no_grad():
            module(*args, **(result[2] if len(result) > 2 else {}))
    return result


def build_without_weights(build: Callable[[], Any]) -> Any:
    """What a callable returns, called on fake tensors; if that fails on meta ones, or on real ones if they are small.

    What the first call raises is raised if the others fail, too.
    """
    first: BaseException | None = None
    for way in (with_values, on_meta, _Limited):
        try:
            with way() as values, plain_conversions(False), OnePlace():
                result = _with_shapes(build())
            if isinstance(values, Values) and values.presumed:
                # What has no value is no guess.
                raise ValueError(f"what is built is data-dependent: {sorted(values.presumed)[0]}")
            return result
        except (Exception, SystemExit) as error:  # a user's own code; the first is told
            first = first or error
    assert first is not None
    raise first
