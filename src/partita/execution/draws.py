"""Random draws that come out the same in a model and in its pieces: each is seeded by its number and microbatch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from partita.frontends.capture import KEEPS_LAYERS
from partita.frontends.fused import KERNEL, WholeCalls
from partita.inside.torch_inside import DispatchMode

_RANDOM = torch.Tag.nondeterministic_seeded


def seeder(seed: int, microbatch: int) -> Callable[[int], None]:
    """What seeds the draws of a microbatch, by their numbers."""
    first = (seed * 1_000_003 + microbatch) * 1_000_003
    manual_seed = torch.default_generator.manual_seed

    def draw(number: int) -> None:
        manual_seed((first + number) % 2**63)

    return draw


def is_single(func: Any, out: Any) -> bool:
    """Whether a call draws a single number, which is ``KEEPS_LAYERS`` here as in traces; ``out`` has its shape."""
    return func is torch.ops.aten.rand.default and not len(out.shape)


class _Draws(DispatchMode):
    """Seeds what draws."""

    def __init__(self, draw: Callable[[int], None]) -> None:
        super().__init__()
        self.draw, self.count, self.inside = draw, 0, False

    def next(self) -> None:
        self.draw(self.count)
        self.count += 1

    def whole(self, func: Callable[..., Any], *args: Any, draws: bool = True, **kwargs: Any) -> Any:
        """A call that draws once, or not at all, whatever it is made of."""
        if draws:
            self.next()
        self.inside = True
        try:
            return func(*args, **kwargs)
        finally:
            self.inside = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if _RANDOM not in func.tags or self.inside:
            return func(*args, **(kwargs or {}))
        self.next()
        out = func(*args, **(kwargs or {}))
        return out.fill_(KEEPS_LAYERS) if is_single(func, out) else out


class _SeededCalls(WholeCalls):
    """Keeps dropout and attention whole, as traces do: each draws once."""

    def __init__(self, draws: _Draws) -> None:
        super().__init__()
        self.draws = draws

    def attention(self, *args: Any, **kwargs: Any) -> Any:
        # Kernels of attention count as random whether or not they drop anything.
        probability = args[4] if len(args) > 4 else kwargs.get("dropout_p", 0.0)
        return self.draws.whole(KERNEL, *args, draws=probability > 0, **kwargs)

    def dropped(self, input: Any, p: float) -> Any:
        return self.draws.whole(torch.native_dropout, input, p, True)[0]


@contextmanager
def seeded(draw: Callable[[int], None]) -> Iterator[None]:
    """Within, the draws of a model that runs once are those of its pieces."""
    with _Draws(draw) as draws, _SeededCalls(draws):
        yield
