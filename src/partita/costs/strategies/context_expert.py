"""Layers on devices that share out the sequence or experts: the same strategies, of each device's part of the graph."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import cached_property

from partita.costs.collectives import Level
from partita.costs.strategies.context import TokenSequence, context_view, find_sequence
from partita.costs.strategies.experts import Experts, expert_view, find_experts, folded, folding_refusal, refusal
from partita.costs.strategies.groups import SharingGroups
from partita.costs.strategies.modes import Modes
from partita.costs.strategies.pricing import LayerPricer
from partita.costs.strategies.view import GraphView
from partita.nouns.pipeline import SharedDegrees


@dataclasses.dataclass(frozen=True)
class ContextExpertPricer:
    """Prices layers at context- and expert-parallel degrees."""

    pricer: LayerPricer  #: Of one device that does it all.
    levels: Callable[[int, int], Sequence[Level]]  #: The links of so many devices, numbered so far apart.
    capacity: float = 1.0  #: Rows of the busiest device of a group that shares out experts, relative to the mean.
    once: bool = False  #: Whether a token is sent once to each device with experts of it, rather than once for each.
    reach: float = 1.0  #: Part of the devices that the experts of one token may be on, where routers limit it.

    @cached_property
    def sequence(self) -> TokenSequence | str:
        """What context parallelism can share out, or why nothing."""
        return find_sequence(self.pricer.splits)

    @cached_property
    def experts(self) -> dict[int, Experts]:
        """The experts of each layer that has some."""
        return find_experts(self.pricer.splits)

    def context_refusal(self, degree: int) -> str | None:
        """Why a context-parallel degree cannot be; None if it can."""
        if isinstance(self.sequence, str):
            return f"context-parallel degree {degree} is not possible: {self.sequence}" if degree > 1 else None
        return self.sequence.refusal(degree)

    def expert_refusal(self, degree: int) -> str | None:
        """Why an expert-parallel degree cannot be; None if it can."""
        return refusal(self.experts, self.pricer.splits.names, degree)

    def folding_refusal(self, modes: Modes) -> str | None:
        """Why experts cannot stay whole in tensor-parallel groups; None if they can."""
        return folding_refusal(modes, self.experts)

    def at(self, shared: SharedDegrees) -> LayerPricer:
        """The prices on one device of such groups; the degrees are possible."""
        sequence = self.sequence if shared.context > 1 and not isinstance(self.sequence, str) else None
        degrees = shared.context, shared.expert
        if degrees not in self._parts:
            self._parts[degrees] = self._part(*degrees, sequence)
        view, times = self._parts[degrees]
        return dataclasses.replace(
            self.pricer,
            splits=dataclasses.replace(self.pricer.splits, view=view),
            times=times,
            groups=SharingGroups(shared, sequence, self.levels, self.experts, self.once, self.reach),
        )

    @cached_property
    def _parts(self) -> dict[tuple[int, int], tuple[GraphView, list[float]]]:
        """What was asked for: by context and expert degree one device's part of the graph, and the operators' times."""
        return {}

    def _part(self, context: int, expert: int, sequence: TokenSequence | None) -> tuple[GraphView, list[float]]:
        view = self.pricer.splits.view
        if sequence is not None:
            view = context_view(view, sequence, context)
        if expert > 1:
            view = expert_view(view, self.experts, expert, self.capacity)
        return view, self._times(self.pricer.splits.view, view)

    def modes(self, pricer: LayerPricer, modes: dict[int, Modes]) -> dict[int, Modes]:
        """How tensor-parallel groups run each device's part: as the whole, but for experts that are not split."""
        found = {degree: dataclasses.replace(way, splits=pricer.splits) for degree, way in modes.items()}
        if pricer.groups is None or pricer.groups.shared.expert_tensor != 1:
            return found
        return {degree: folded(way, self.experts) for degree, way in found.items()}

    def _times(self, whole: GraphView, view: GraphView) -> list[float]:
        """Times of the parts of operators: the whole ones', scaled as the roofline scales."""
        scaling, device = self.pricer.scaling, self.pricer.device
        found = []
        for before, now, time in zip(whole.graph.operators, view.graph.operators, self.pricer.times, strict=True):
            all_of_it = scaling.time_s(before, device) if now is not before and time else 0.0
            found.append(time * scaling.time_s(now, device) / all_of_it if all_of_it else time)
        return found
