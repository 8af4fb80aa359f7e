"""Price one layer at one degree: times, exchanges, memory; and which layers cost the same."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from partita.costs.collectives import OCCUPIED, Level, collective_time, exposed
from partita.costs.optimizer import optimizer_bytes
from partita.costs.roofline import Roofline
from partita.costs.strategies.exchanges import exchanges
from partita.costs.strategies.groups import SharingGroups
from partita.costs.strategies.memory import (
    activation_bytes,
    kept_inputs,
    parameter_shares,
    saved_tensors,
    workspace_bytes,
)
from partita.costs.strategies.modes import Mode, Modes, Splits
from partita.costs.strategies.shares import Shape, part_of
from partita.costs.strategies.strategy import Collective, LayerStrategy
from partita.costs.strategies.view import ATTENTION, GraphView
from partita.nouns.catalogue.specs import DeviceSpec
from partita.nouns.cluster import LinkPath
from partita.nouns.graph import Operator

#: A memory option must spare this part of a layer's activations to be offered.
_WORTH = 0.01


@dataclass(frozen=True)
class OptimizerSettings:
    """How the model is trained, as far as memory is concerned: see ``hybrid_problem``."""

    microbatches: int
    optimizer: str
    optimizer_dtype: str
    master_weights: bool | None


@dataclass(frozen=True)
class RuntimeWays:
    """How the runtime issues a layer, and what it hides."""

    #: Exchanges that go on behind work: ``tensor`` those of a tensor-parallel group, piece by piece behind products (of
    #: t devices each waits for its own part at least: Transformer Engine's *userbuffers*), ``expert`` those of experts
    #: behind the work of another microbatch (DeepSeek-AI, "DeepSeek-V3", 2024, section 3.2.1).
    behind: frozenset[str] = frozenset()
    #: Time that the program takes to issue a kernel where it does not record them: all of a layer's take a layer.
    issue_s: float = 0.0


@dataclass(frozen=True)
class LayerPricer:
    """Prices layers on one kind of device."""

    splits: Splits
    times: Sequence[float]  #: Seconds of every operator on one device that does all of it.
    device: DeviceSpec
    paths: dict[int, LinkPath | None]  #: By degree the link that a group talks over.
    training: OptimizerSettings
    scaling: Roofline  #: How much faster a part of an operator is than all of it.
    #: Those that share out the sequence or experts, if any; the graph is then that of one of their devices.
    groups: SharingGroups | None = None
    ways: RuntimeWays = RuntimeWays()

    def entries(self, layer: int, modes: Modes, options: Sequence[str]) -> tuple[LayerStrategy, ...]:
        """Entries of a layer at a degree, one for each memory option that spares memory (and ``none``)."""
        seconds = {v: self._time(v, modes) for v in self.splits.members[layer]}
        saved = saved_tensors(self.splits, layer)
        base = self._base(layer, modes, seconds, activation_bytes(layer, modes, saved))
        plain = base.activation_bytes
        result = [base]
        for option in dict.fromkeys(options):
            if option == "none":
                continue
            again, places = self._again(layer, option, saved)
            kept = activation_bytes(layer, modes, places)
            if not again or plain - kept <= _WORTH * plain:
                continue
            repeated = self._repeated(layer, base.collectives, again)
            collectives = (*base.collectives, *repeated)
            communication, spread = self._communication(collectives, modes.degree, seconds)
            result.append(
                dataclasses.replace(
                    base,
                    option=option,
                    recompute_s=self._issued(again, seconds),
                    collectives=collectives,
                    communication_s=communication,
                    context_expert_s=spread,
                    activation_bytes=kept,
                    # What was not kept is there once more while the backward pass of the layer runs.
                    workspace_bytes=base.workspace_bytes + plain - kept,
                    flops=base.flops + sum(self._flops(v, modes) for v in again),
                )
            )
        return tuple(result)

    def _again(self, layer: int, option: str, saved: set[int]) -> tuple[list[int], set[int]]:
        """What a memory option runs again, and the tensors that it keeps."""
        splits = self.splits
        forward = splits.forward(layer)
        if option == "full":
            return forward, kept_inputs(splits, forward)
        if option == "elementwise":
            return self._elementwise(layer, saved)
        regions = [r for r in splits.regions if r.core and splits.layer[r.core[0]] == layer]
        if regions:
            # Attention's scores and all that is made of them, but for its result.
            core = [v for region in regions for v in region.core]
            inner = {place for r in regions for v in r.core if v != r.context for place in splits.view.outputs[v]}
            return core, (saved - inner) | kept_inputs(splits, core)
        # Where a kernel keeps no scores: all but its result and every other product, as torchtitan does by operator.
        products = [v for v in forward if splits.view.graph.operators[v].flops]
        fused = [v for v in products if splits.view.names[v] in ATTENTION]
        kept = {*fused, *[v for v in products if v not in fused][::2]}
        again = [v for v in forward if v not in kept] if fused else []
        return again, {p for p in saved if splits.view.maker(p) not in again} | kept_inputs(splits, again)

    def _elementwise(self, layer: int, saved: set[int]) -> tuple[list[int], set[int]]:
        """All but products, attention, and what experts are sent: that would have to travel again."""
        view, forward = self.splits.view, self.splits.forward(layer)
        experts = [v for v in forward if v in view.linears and view.linears[v].experts > 1]
        sent = {view.linears[v].source for v in experts} - {
            place for v in view.reach(experts, forward) for place in view.outputs[v]
        }
        again = [v for v in forward if not view.graph.operators[v].flops and not sent & set(view.outputs[v])]
        return again, {p for p in saved if view.maker(p) not in again} | kept_inputs(self.splits, again)

    def _repeated(self, layer: int, collectives: Sequence[Collective], again: list[int]) -> list[Collective]:
        """What is exchanged once more: products that run again exchange again, attention's scores are each device's."""
        products = self.splits.view.linears
        return [
            dataclasses.replace(c, phase="recompute")
            for c in collectives
            if c.phase == "forward"
            and (
                any(v in products for v in again)
                if self.groups is None
                else self.groups.runs_again(layer, c, again, products)
            )
        ]

    def _base(self, layer: int, modes: Modes, seconds: dict[int, float], activations: float) -> LayerStrategy:
        """The entry that runs nothing again, given the time of every operator and what is kept."""
        view = self.splits.view
        shares = parameter_shares(layer, modes)
        experts = self._experts(layer)
        of_experts = self._held({place: share for place, share in shares.items() if place in experts})
        weights, gradients, state, trained, count = self._held(shares)
        exchanged = exchanges(layer, modes, experts)
        if self.groups is not None:
            exchanged = (*exchanged, *self.groups.exchanges(layer, modes, seconds))
        communication, spread = self._communication(exchanged, modes.degree, seconds)
        forward = [v for v in seconds if not view.backward[v]]
        backward = [v for v in seconds if view.backward[v]]
        return LayerStrategy(
            layer=self.splits.names[layer],
            degree=modes.degree,
            option="none",
            forward_s=self._issued(forward, seconds),
            backward_s=self._issued(backward, seconds),
            recompute_s=0.0,
            communication_s=communication,
            collectives=exchanged,
            parameters=count,
            weight_bytes=weights,
            gradient_bytes=gradients,
            optimizer_bytes=state,
            activation_bytes=activations,
            workspace_bytes=workspace_bytes(layer, modes, accumulates=self.training.microbatches > 1),
            flops=sum(self._flops(v, modes) for v in seconds),
            trained=trained,
            weight_gradient_s=sum(time for v, time in seconds.items() if view.backward[v] and _only_weights(view, v)),
            context_expert_s=spread,
            of_experts=of_experts[:4],
        )

    def _experts(self, layer: int) -> frozenset[int]:
        """Parameters of experts that have groups of their own."""
        if self.groups is None or not self.groups.shared.shares_experts or layer not in self.groups.experts:
            return frozenset()
        return frozenset(self.groups.experts[layer].weights)

    def _held(self, shares: Mapping[int, float]) -> tuple[float, float, float, int, int]:
        """Bytes of weights, gradients and the optimizer, and numbers of trained and of all weights, of some shares."""
        training = self.training
        weights = gradients = state = 0.0
        count = trained = 0
        for place, share in shares.items():
            parameter = self.splits.view.graph.parameters[place]
            weights += round(parameter.bytes * share)
            if parameter.trainable and not parameter.buffer:
                gradients += round(parameter.bytes * share)
                trained += round(math.prod(parameter.shape) * share)
                whole = optimizer_bytes(
                    parameter,
                    training.optimizer,
                    dtype=training.optimizer_dtype,
                    master_weights=training.master_weights,
                )
                state += round(whole * share)
            if not parameter.buffer:
                count += round(math.prod(parameter.shape) * share)
        return weights, gradients, state, trained, count

    # -- time -----------------------------------------------------------------------------------------------------

    def _issued(self, operators: Sequence[int], seconds: Mapping[int, float]) -> float:
        """Time of some operators: what they take, or what issuing their kernels takes, whichever is longer."""
        work = sum(seconds[v] for v in operators)
        if not self.ways.issue_s:
            return work
        found = [self.splits.view.graph.operators[v] for v in operators]
        return max(work, self.ways.issue_s * sum(op.launches for op in found if not op.free and not op.joined))

    def _flops(self, v: int, modes: Modes) -> float:
        return self.splits.view.graph.operators[v].flops * modes.share[v]

    def _time(self, v: int, modes: Modes) -> float:
        """Seconds of a device's part of an operator: the whole one's, scaled as the roofline scales."""
        whole = self.times[v]
        if modes.mode[v] is Mode.WHOLE or not whole:
            return whole
        op = self.splits.view.graph.operators[v]
        all_of_it = self.scaling.time_s(op, self.device)
        if not all_of_it:
            return whole * modes.share[v]
        return whole * self.scaling.time_s(self._part(v, op, modes), self.device) / all_of_it

    def _part(self, v: int, op: Operator, modes: Modes) -> Operator:
        """A device's part of an operator: its arithmetic, and its traffic by what it sees of each tensor."""
        view, graph = self.splits.view, self.splits.view.graph
        read = [(graph.tensors[t].bytes, modes.seen_share(v, t, writes=False)) for t in view.inputs[v]]
        read += [(graph.parameters[p].bytes, modes.parameter_share(v, p)) for p in view.parameters[v]]
        written = [(graph.tensors[t].bytes, modes.seen_share(v, t, writes=True)) for t in view.outputs[v]]
        product = None if op.product is None else self._product(v, op.product, modes)
        weights = min((modes.parameter_share(v, p) for p in view.parameters[v]), default=1.0)
        return part_of(op, modes.share[v], read, written, product, weights)

    def _product(self, v: int, shape: Shape, modes: Modes) -> Shape:
        """A device's part of a product: the dimension that the group shares out is smaller, the others are not."""
        view, mode, share = self.splits.view, modes.mode[v], modes.share[v]
        linear = view.linears.get(view.roots[v])
        batch, rows, columns, inner = shape
        if mode is Mode.SPLIT or linear is None:
            return max(1, round(batch * share)), rows, columns, inner
        whole = all(modes.seen_share(v, place, writes=True) == 1.0 for place in view.outputs[v])
        gradient = any(place in view.weight_gradients for place in view.outputs[v])
        # Tokens are rows of a result, or what the gradient of a weight is summed over.
        if whole or (mode is Mode.TOKENS and gradient):
            return batch, rows, columns, max(1, round(inner * share))
        features = linear.outputs if mode is Mode.COLUMN else linear.inputs
        if mode is Mode.TOKENS or (columns != features and rows == features):
            return batch, max(1, round(rows * share)), columns, inner
        return batch, rows, max(1, round(columns * share)), inner

    def _communication(
        self, collectives: Sequence[Collective], degree: int, seconds: Mapping[int, float]
    ) -> tuple[float, tuple[float, float]]:
        """Time of the exchanges of one microbatch, and what of it groups of tokens or experts take: forward, in all.

        ``seconds`` is the time of the layer's operators, which hide what the runtime hides.
        """
        path = self.paths[degree]
        total = 0.0
        rings, spread = [0.0, 0.0], [0.0, 0.0]
        for collective in collectives:
            if collective.members and self.groups is not None:
                time = self.groups.time_s(collective, degree)
                mine = rings if collective.kind == "ring" else spread
                mine[0] += time if collective.phase == "forward" else 0.0
                mine[1] += time
            if collective.members or collective.phase == "overlapped" or path is None or degree == 1:
                continue
            group = Level(degree, path.bandwidth_bytes_per_s, path.latency_s, path.hop_time_s, path.switched)
            time = collective_time(collective.kind, collective.bytes, (group,))
            # A batch has at least so many microbatches for every replica when there is one.
            total += time / self.training.microbatches if collective.phase == "batch" else time
        if "expert" in self.ways.behind and spread[1] > 0:
            share = exposed(spread[1], sum(seconds.values()), OCCUPIED) / spread[1]
            spread = [share * time for time in spread]
        if "tensor" in self.ways.behind and total > 0:
            linears, roots = self.splits.view.linears, self.splits.view.roots
            products = sum(time for v, time in seconds.items() if roots[v] in linears)
            total = max(total / degree, exposed(total, products, OCCUPIED))
        forward, shared = rings[0] + spread[0], rings[1] + spread[1]
        return total + shared, (forward, shared)


def _only_weights(view: GraphView, v: int) -> bool:
    """Whether an operator makes gradients of weights, and nothing else."""
    made = view.outputs[v]
    return bool(made) and all(place in view.weight_gradients for place in made)


def first_alike(pricer: LayerPricer, modes: dict[int, Modes]) -> list[int]:
    """For every layer the first that is built and run in the same way at every degree; itself for the first."""
    known: dict[object, int] = {}
    layers = range(len(pricer.splits.names))
    return [known.setdefault(_signature(pricer, layer, modes), layer) for layer in layers]


def _signature(pricer: LayerPricer, layer: int, modes: dict[int, Modes]) -> object:
    """All that a layer's prices depend on, with operators and tensors numbered as they appear."""
    view = pricer.splits.view
    graph = view.graph
    operators = {v: index for index, v in enumerate(pricer.splits.members[layer])}
    tensors: dict[int, int] = {}
    parameters: dict[int, int] = {}
    parts: list[object] = []
    for v in operators:
        op = msgspec.structs.replace(graph.operators[v], name="", module="", colocation=None)
        ways = tuple((found.mode[v], found.share[v]) for found in modes.values())
        parts.append((op, pricer.times[v], operators.get(view.roots[v]), ways))
        for place in (*view.inputs[v], *view.outputs[v]):
            parts.append(tensors.setdefault(place, len(tensors)))
        for place in view.parameters[v]:
            parts.append(parameters.setdefault(place, len(parameters)))
    for place in tensors:
        tensor = graph.tensors[place]
        inside = tuple(operators[v] for v in tensor.consumers if v in operators)
        saved = tuple(operators[v] for v in view.saved.get(place, ()) if v in operators)
        late = tensor.producer is not None and view.backward[tensor.producer]
        held = () if late else tuple(found.holding(place) for found in modes.values())
        trained = place in view.trained
        maker = None if tensor.producer is None else operators.get(tensor.producer, -1)
        weight = place in view.weight_gradients
        # A source of columns that anyone keeps is gathered once more.
        kept = place in view.saved and bool(inside)
        parts.append((tensor.shape, tensor.dtype, tensor.bytes, inside, saved, held, trained, maker, weight, kept))
    for place in parameters:
        parameter = graph.parameters[place]
        parts.append((parameter.shape, parameter.dtype, parameter.bytes, parameter.trainable, parameter.buffer))
    return tuple(parts)
