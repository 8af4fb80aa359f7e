"""Makespan problems of transformers: encoder and decoder layers over devices and links that differ.

The graph is that of Vaswani et al., "Attention Is All You Need" (2017), Fig. 1, with the operators that tracing leaves:
every linear layer, product, mask, softmax, sum and norm is one. Equal operators take equal times, so that equal layers
are equal. Few operators separate such a graph: the encoder's result goes to every decoder layer past all the others,
masks go to every layer, and the decoder begins beside the encoder.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

import msgspec
import numpy as np

from partita.ground.checks import check_at_least
from partita.problems.kind import ProblemFamily
from partita.problems.makespan.problem import MakespanFlow, MakespanOperator, MakespanProblem
from partita.problems.makespan.random_devices import (
    DECIMALS,
    MEAN_TIME,
    SUITS,
    Communication,
    Devices,
    Room,
    Seed,
    check_links_and_room,
    devices_with,
    limits_of,
    narrowness_of,
    slowness_of,
    tables_of,
)
from partita.problems.settings import setting

#: Of every type of operator its work, the size of its result and what it holds, all relative to a linear layer's; of
#: those of a head each is an even share.
TYPES: dict[str, tuple[float, float, float]] = {
    "embedding": (0.3, 1.0, 4.0),
    "mask": (0.1, 1.0, 0.1),
    "linear": (1.0, 1.0, 1.0),
    "scores": (0.5, 1.0, 0.0),
    "masked": (0.2, 1.0, 0.0),
    "softmax": (0.3, 1.0, 0.0),
    "context": (0.5, 1.0, 0.0),
    "concat": (0.1, 1.0, 0.0),
    "add": (0.2, 1.0, 0.0),
    "norm": (0.3, 1.0, 0.01),
    "widen": (4.0, 4.0, 4.0),
    "relu": (0.4, 4.0, 0.0),
    "narrow": (4.0, 1.0, 4.0),
    "vocabulary": (6.0, 4.0, 8.0),
}


@dataclass
class _Graph:
    """Operators as type, share, name; edges from readers' lists."""

    operators: list[tuple[str, float, str]] = field(default_factory=list)
    edges: list[tuple[int, int]] = field(default_factory=list)

    def add(self, kind: str, name: str, *reads: int, share: float = 1.0) -> int:
        """One more operator; its number."""
        self.operators.append((kind, share, name))
        self.edges += [(u, len(self.operators) - 1) for u in dict.fromkeys(reads)]
        return len(self.operators) - 1

    def attention(self, name: str, x: int, memory: int, mask: int | None, heads: int) -> int:
        """Attention of x to memory, with its residual and norm."""
        parts, share = [], 1.0 / heads
        for head in range(heads):
            part = f"{name}.{head}" if heads > 1 else name
            q, k, v = (
                self.add("linear", f"{part}.{letter}", read, share=share)
                for letter, read in (("q", x), ("k", memory), ("v", memory))
            )
            last = self.add("scores", f"{part}.scores", q, k, share=share)
            if mask is not None:
                last = self.add("masked", f"{part}.masked", last, mask, share=share)
            last = self.add("softmax", f"{part}.softmax", last, share=share)
            parts.append(self.add("context", f"{part}.context", last, v, share=share))
        joined = self.add("concat", f"{name}.concat", *parts) if heads > 1 else parts[0]
        return self.residual(name, x, self.add("linear", f"{name}.out", joined))

    def feed_forward(self, name: str, x: int) -> int:
        """Two linear layers, with residual and norm."""
        inner = self.add("relu", f"{name}.relu", self.add("widen", f"{name}.widen", x))
        return self.residual(name, x, self.add("narrow", f"{name}.narrow", inner))

    def residual(self, name: str, x: int, y: int) -> int:
        """The norm of a sum."""
        return self.add("norm", f"{name}.norm", self.add("add", f"{name}.add", x, y))


def _transformer(encoders: int, decoders: int, heads: int) -> _Graph:
    graph = _Graph()
    source_mask = graph.add("mask", "source mask") if encoders else None
    memory = graph.add("embedding", "source")
    for layer in range(encoders):
        name = f"encoder.{layer}"
        memory = graph.attention(f"{name}.self", memory, memory, source_mask, heads)
        memory = graph.feed_forward(f"{name}.feed", memory)
    if not decoders:
        return graph
    x, target_mask = memory, graph.add("mask", "target mask")
    if encoders:
        x = graph.add("embedding", "target")
    for layer in range(decoders):
        name = f"decoder.{layer}"
        x = graph.attention(f"{name}.self", x, x, target_mask, heads)
        if encoders:
            x = graph.attention(f"{name}.cross", x, memory, source_mask, heads)
        x = graph.feed_forward(f"{name}.feed", x)
    graph.add("softmax", "words", graph.add("vocabulary", "vocabulary", x))
    return graph


def transformer_problem(
    seed: int,
    *,
    encoders: int = 8,
    decoders: int = 8,
    heads: int = 1,
    devices: int = 4,
    communication: float = 1.0,
    room: float | None = None,
) -> MakespanProblem:
    """A transformer over random devices and links, as those of ``random_makespan_problem``; settings say what is what.

    Raises
    ------
    InputError
        If a number is out of range.
    """
    check_at_least("the seed", seed, 0)
    check_at_least("encoders", encoders, 0)
    check_at_least("decoders", decoders, 0)
    check_at_least("encoders and decoders together", encoders + decoders)
    check_at_least("heads", heads)
    check_at_least("devices", devices)
    check_links_and_room(communication, room)
    rng = np.random.default_rng(seed)
    graph = _transformer(encoders, decoders, heads)
    kinds = {kind: number for number, kind in enumerate(TYPES)}
    of = np.array([kinds[kind] for kind, _, _ in graph.operators])
    share = np.array([part for _, part, _ in graph.operators])
    work, size, holds = np.array(list(TYPES.values())).T[:, of] * share
    slowness = slowness_of(rng, devices)
    # A device suits a type of operator, so that equal ones stay equal.
    suits = np.exp(SUITS * rng.standard_normal((len(TYPES), devices)))[of]
    times = MEAN_TIME * (work / work.mean())[:, None] * slowness[None, :] * suits
    narrowness = narrowness_of(rng, devices)
    read = np.array([size[u] for u, _ in graph.edges])
    moved = communication * MEAN_TIME * size / max(read.mean(), 1e-9)
    held = np.ceil(1000 * holds)
    limits = limits_of(held, slowness, room)
    tables = tables_of(moved, narrowness)
    return MakespanProblem(
        name=f"transformer {encoders}+{decoders} heads={heads} devices={devices} seed={seed}",
        unit="ms",
        devices=devices_with(limits),
        operators=tuple(
            MakespanOperator(id=v, name=name, type=kind, times=tuple(row), memory=memory)
            for v, ((kind, _, name), row, memory) in enumerate(
                zip(graph.operators, np.round(times, DECIMALS).tolist(), held.tolist(), strict=True)
            )
        ),
        flows=tuple(MakespanFlow(id=f, source=u, target=v, times=tables[u]) for f, (u, v) in enumerate(graph.edges)),
        notes=(f"made by `partita generate transformer`: {encoders} encoders, {decoders} decoders, seed {seed}",),
    )


class _Transformer(msgspec.Struct, frozen=True, kw_only=True):
    seed: Seed = 0
    encoders: Annotated[int, setting("Layers of the encoder; none for a decoder alone.", metavar="N", least=0)] = 8
    decoders: Annotated[int, setting("Layers of the decoder; none for an encoder alone.", metavar="N", least=0)] = 8
    heads: Annotated[int, setting("Of attention, each by operators of its own.", metavar="N", least=1)] = 1
    devices: Devices = 4
    communication: Communication = 1.0
    room: Room = None


TRANSFORMER = ProblemFamily(
    "transformer",
    "A transformer of equal layers over devices of unlike speeds and links of unlike bandwidths (docs/makespan.md).",
    _Transformer,
    lambda settings: transformer_problem(**msgspec.structs.asdict(settings)),
)
