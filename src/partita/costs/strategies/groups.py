"""What groups that share out the sequence, or experts, exchange while they run a layer."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field

from partita.costs.collectives import Level, collective_time, dispatch_time, neighbour_time
from partita.costs.strategies.context import TokenSequence
from partita.costs.strategies.experts import Experts
from partita.costs.strategies.modes import Modes
from partita.costs.strategies.strategy import Collective
from partita.costs.strategies.view import numel, wide_bytes
from partita.nouns.pipeline import SharedDegrees


@dataclass(frozen=True)
class SharingGroups:
    """The groups of one context- and expert-parallel degree."""

    shared: SharedDegrees  #: The degrees.
    sequence: TokenSequence | None  #: What context parallelism shares out; None if it does not.
    levels: Callable[[int, int], Sequence[Level]]  #: The links of so many devices, numbered so far apart.
    experts: dict[int, Experts] = field(default_factory=dict)  #: The experts of each layer that has some.
    once: bool = False  #: Whether a token is sent once to each device with experts of it, rather than once for each.
    reach: float = 1.0  #: Part of the devices that the experts of one token may be on, where routers limit it.

    def exchanges(self, layer: int, modes: Modes, seconds: dict[int, float]) -> Iterator[Collective]:
        """All exchanges for one microbatch of a layer, given the time of each of its operators."""
        view, context, expert = modes.splits.view, self.shared.context, self.shared.expert
        if expert > 1 and layer in self.experts:
            found = self.experts[layer]
            # With sequence parallelism each device of a tensor-parallel group sends for its own tokens.
            senders = modes.degree if modes.sequence else 1
            for place in (*found.dispatched, *found.combined):
                tensor = view.graph.tensors[place]
                phases = ("forward", "backward") if place in view.trained else ("forward",)
                rows, tokens = numel(tensor) // tensor.shape[-1], modes.splits.tokens[layer]
                copies = rows / tokens if self.once and tokens else 0.0
                for phase in phases:
                    yield Collective("all-to-all", phase, wide_bytes(tensor) / senders, tensor.name, expert, copies)
        if context > 1 and self.sequence is not None:
            for attention in self.sequence.attentions.get(layer, ()):
                inside = set(attention.operators)
                last = attention.operators[-1]
                size, name = attention.exchanged_bytes * modes.share[last], view.graph.operators[last].name
                times = [0.0, 0.0]
                for v, time in seconds.items():
                    if view.roots[v] in inside:
                        times[view.backward[v]] += time
                yield Collective("ring", "forward", size, name, context, beside_s=times[0])
                if times[1]:
                    # Keys and values once more, and the gradients of both.
                    yield Collective("ring", "backward", 2.0 * size, name, context, beside_s=times[1])

    def runs_again(self, layer: int, collective: Collective, again: Collection[int], products: Collection[int]) -> bool:
        """Whether a forward exchange happens once more if some operators run again."""
        if collective.kind != "ring" or self.sequence is None:
            return any(v in products for v in again)
        rings = self.sequence.attentions.get(layer, ())
        return any(v in again for attention in rings for v in attention.operators)

    def time_s(self, collective: Collective, degree: int) -> float:
        """What an exchange takes that nothing hides, given the devices of a tensor-parallel group.

        Such groups share out tokens, and experts where these have no groups of their own.
        """
        apart = degree if collective.kind == "ring" else self.shared.expert_tensor or degree
        levels = self.levels(collective.members, apart)
        if collective.copies:
            return dispatch_time(collective.bytes, collective.copies, levels, self.reach)
        if collective.kind != "ring":
            return collective_time(collective.kind, collective.bytes, levels)
        # Every block but the last one worked on is followed by another, which travels meanwhile.
        members = collective.members
        step = neighbour_time(collective.bytes / members, levels)
        return (members - 1) * max(0.0, step - collective.beside_s / members)
