"""Price one layer at one degree: times, exchanges, memory."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from partita.catalogue.specs import DeviceSpec
from partita.cluster import LinkPath
from partita.costs.menus.entries import Collective, MenuEntry
from partita.costs.menus.forward import View, numel
from partita.costs.menus.modes import Mode, Modes, Splits
from partita.costs.menus.targets import LOSSES
from partita.costs.optimizer import optimizer_bytes
from partita.costs.roofline import Roofline
from partita.graph import Operator, Parameter, Tensor

__all__ = ["LayerPricer", "Training"]

#: A memory option must spare this part of a layer's activations to be offered.
_WORTH = 0.01


@dataclass(frozen=True)
class Training:
    """How the model is trained, as far as memory is concerned: see ``hybrid_problem``."""

    microbatches: int
    optimizer: str
    optimizer_dtype: str
    master_weights: bool | None


@dataclass(frozen=True)
class LayerPricer:
    """Prices layers on one kind of device.

    Attributes
    ----------
    splits
        The graph and what can be split in it.
    members
        Operators of every layer, in order.
    times
        Seconds of every operator on one device that does all of it.
    device
        The device.
    paths
        By degree the link that a group talks over.
    training
        How the model is trained.
    """

    splits: Splits
    members: Sequence[Sequence[int]]
    times: Sequence[float]
    device: DeviceSpec
    paths: dict[int, LinkPath | None]
    training: Training

    @property
    def view(self) -> View:
        """The graph."""
        return self.splits.view

    def entries(self, layer: int, name: str, modes: Modes, options: Sequence[str]) -> tuple[MenuEntry, ...]:
        """Entries of a layer at a degree, one for each memory option that spares memory (and ``none``)."""
        members = self.members[layer]
        forward = [v for v in members if not self.view.backward[v]]
        seconds = {v: self._time(v, modes) for v in members}
        exchanged = self._collectives(layer, modes)
        plain = self._activations(layer, modes, frozenset(), frozenset())
        base = self._base(layer, name, modes, seconds, exchanged, plain)
        result = [base]
        for option in options:
            if option == "none":
                continue
            if option == "full":
                again, kept = forward, self._activations(layer, modes, None, frozenset())
                repeated = tuple(dataclasses.replace(c, phase="recompute") for c in exchanged if c.phase == "forward")
            else:
                again, kept, repeated = self._core(layer, modes)
            if not again or plain - kept < _WORTH * plain or kept >= plain:
                continue
            collectives = (*exchanged, *repeated)
            result.append(
                dataclasses.replace(
                    base,
                    option=option,
                    recompute_s=sum(seconds[v] for v in again),
                    collectives=collectives,
                    communication_s=self._communication(collectives, modes.degree),
                    activation_bytes=kept,
                    # What was not kept is there once more while the backward pass of the layer runs.
                    workspace_bytes=base.workspace_bytes + plain - kept,
                    flops=base.flops + sum(self._flops(v, modes) for v in again),
                )
            )
        return tuple(result)

    def _base(
        self,
        layer: int,
        name: str,
        modes: Modes,
        seconds: dict[int, float],
        exchanged: tuple[Collective, ...],
        activations: float,
    ) -> MenuEntry:
        held = self._held(layer, modes)
        training = self.training
        weights = gradients = state = 0.0
        count = 0
        for place, share in held.items():
            parameter = self.view.graph.parameters[place]
            weights += round(parameter.bytes * share)
            if parameter.trainable and not parameter.buffer:
                gradients += round(parameter.bytes * share)
                whole = optimizer_bytes(
                    parameter,
                    training.optimizer,
                    dtype=training.optimizer_dtype,
                    master_weights=training.master_weights,
                )
                state += round(whole * share)
            if not parameter.buffer:
                count += round(_count(parameter) * share)
        backward = self.view.backward
        return MenuEntry(
            layer=name,
            degree=modes.degree,
            option="none",
            forward_s=sum(time for v, time in seconds.items() if not backward[v]),
            backward_s=sum(time for v, time in seconds.items() if backward[v]),
            recompute_s=0.0,
            communication_s=self._communication(exchanged, modes.degree),
            collectives=exchanged,
            parameters=count,
            weight_bytes=weights,
            gradient_bytes=gradients,
            optimizer_bytes=state,
            activation_bytes=activations,
            workspace_bytes=self._workspace(layer, modes),
            flops=sum(self._flops(v, modes) for v in self.members[layer]),
        )

    # -- time -----------------------------------------------------------------------------------------------------

    def _flops(self, v: int, modes: Modes) -> float:
        return self.view.graph.operators[v].flops * modes.share[v]

    def _time(self, v: int, modes: Modes) -> float:
        """Seconds of a device's part of an operator: the whole one's, scaled as the roofline scales."""
        whole = self.times[v]
        if modes.mode[v] is Mode.WHOLE or not whole:
            return whole
        op = self.view.graph.operators[v]
        model = Roofline()
        return whole * model.time_s(self._part(v, op, modes), self.device) / model.time_s(op, self.device)

    def _part(self, v: int, op: Operator, modes: Modes) -> Operator:
        """A device's part of an operator: its arithmetic, and its traffic by what it sees of each tensor."""
        tensors, graph = self.view.graph.tensors, self.view.graph
        read = [(tensors[t].bytes, self._seen(v, t, modes, writes=False)) for t in self.view.inputs[v]]
        read += [(graph.parameters[p].bytes, self._parameter_share(v, p, modes)) for p in self.view.parameters[v]]
        written = [(tensors[t].bytes, self._seen(v, t, modes, writes=True)) for t in self.view.outputs[v]]
        return msgspec.structs.replace(
            op,
            flops=round(op.flops * modes.share[v]),
            bytes_read=round(op.bytes_read * _average(read)),
            bytes_written=round(op.bytes_written * _average(written)),
        )

    def _seen(self, v: int, place: int, modes: Modes, *, writes: bool) -> float:
        """The part of a tensor that a device reads or writes when it runs an operator."""
        mode, share = modes.mode[v], modes.share[v]
        if mode not in (Mode.COLUMN, Mode.ROW):
            return share
        # The side of a product that is split: its result for columns, its source for rows.
        split_result = mode is Mode.COLUMN
        if not self.view.backward[v]:
            return share if writes == split_result else 1.0
        if place in self.view.weight_gradients:
            return share
        product = self.view.graph.operators[v].flops > 0
        linear = self.splits.linears.get(self.view.roots[v])
        source = linear is not None and (place == linear.source or (product and writes))
        return share if source != split_result else 1.0

    def _communication(self, collectives: Sequence[Collective], degree: int) -> float:
        path = self.paths[degree]
        if path is None or degree == 1:
            return 0.0
        total = 0.0
        for collective in collectives:
            if collective.phase == "overlapped":
                continue
            steps = (degree - 1) * (2 if collective.kind == "all-reduce" else 1)
            time = collective.sent_bytes(degree) / path.bandwidth_bytes_per_s + steps * path.latency_s
            # A batch has at least so many microbatches for every replica when there is one.
            total += time / self.training.microbatches if collective.phase == "batch" else time
        return total

    # -- exchanges ------------------------------------------------------------------------------------------------

    def state(self, place: int, modes: Modes) -> Mode:
        """How a forward tensor is held: SPLIT, TOKENS or WHOLE."""
        producer = self.view.graph.tensors[place].producer
        if producer is None:
            return Mode.WHOLE
        mode = modes.mode[producer]
        if mode is Mode.COLUMN:
            return Mode.SPLIT
        if mode is Mode.ROW:
            return Mode.TOKENS if modes.sequence else Mode.WHOLE
        return mode

    def _collectives(self, layer: int, modes: Modes) -> tuple[Collective, ...]:
        if modes.degree == 1:
            return ()
        result: list[Collective] = []
        graph = self.view.graph
        members = [v for v in self.members[layer] if not self.view.backward[v]]
        inside = set(members)
        entering = sorted({place for v in members for place in self.view.inputs[v]})
        for place in entering:
            users = {modes.mode[v] for v in self.view.readers(place) if v in inside and self._reads(v, place)}
            result += self._entering(place, users, modes)
        for v in members:
            if modes.mode[v] is Mode.ROW:
                for place in self.view.outputs[v]:
                    result += self._leaving(graph.tensors[place], self.trained(place), modes)
            elif modes.mode[v] is Mode.SPLIT and self.view.names[v] in LOSSES:
                result += self._loss(v)
            elif modes.mode[v] is Mode.TOKENS:
                for p in self.view.parameters[v]:
                    if graph.parameters[p].trainable and not graph.parameters[p].buffer:
                        parameter = graph.parameters[p]
                        result.append(Collective("all-reduce", "batch", parameter.bytes, parameter.name))
        return tuple(result)

    def _reads(self, v: int, place: int) -> bool:
        """Whether a product reads a tensor as the features that it multiplies."""
        linear = self.splits.linears.get(v)
        return linear is None or linear.source == place

    def trained(self, place: int) -> bool:
        """Whether a gradient comes back to a tensor."""
        producer = self.view.graph.tensors[place].producer
        return producer is not None and self.view.state[producer] and producer in self._with_gradient

    @property
    def _with_gradient(self) -> frozenset[int]:
        cache = self.__dict__.get("_gradient_cache")
        if cache is None:
            view = self.view
            found = {view.roots[v] for v in range(len(view.roots)) if view.backward[v]}
            # An operator with one result of several readers, such as an addition, may have no backward operator.
            for v in range(len(view.roots)):
                if not view.backward[v] and any(view.graph.tensors[t].producer in found for t in view.inputs[v]):
                    found.add(v)
            cache = frozenset(found)
            object.__setattr__(self, "_gradient_cache", cache)
        return cache

    def _entering(self, place: int, users: set[Mode], modes: Modes) -> list[Collective]:
        """What a tensor costs that operators of a layer read."""
        tensor = self.view.graph.tensors[place]
        held = self.state(place, modes)
        size, name = float(tensor.bytes), tensor.name
        trained = self.trained(place)
        result = []
        if held is Mode.TOKENS and users & {Mode.COLUMN, Mode.WHOLE, Mode.SPLIT}:
            result.append(Collective("all-gather", "forward", size, name))
            if Mode.COLUMN in users:
                if trained:
                    result.append(Collective("reduce-scatter", "backward", size, name))
                if place in self.view.saved:
                    # Only a share of the tokens is kept; it is put together again beside the backward arithmetic.
                    result.append(Collective("all-gather", "overlapped", size, name))
        elif held is Mode.WHOLE and trained:
            if Mode.COLUMN in users:
                result.append(Collective("all-reduce", "backward", size, name))
            if Mode.TOKENS in users:
                result.append(Collective("all-gather", "backward", size, name))
        return result

    def _leaving(self, tensor: Tensor, trained: bool, modes: Modes) -> list[Collective]:
        """What the sum of a product's or lookup's parts costs."""
        size, name = float(tensor.bytes), tensor.name
        if not modes.sequence:
            return [Collective("all-reduce", "forward", size, name)]
        result = [Collective("reduce-scatter", "forward", size, name)]
        if trained:
            result.append(Collective("all-gather", "backward", size, name))
        return result

    def _loss(self, v: int) -> list[Collective]:
        """What each token's loss needs to know of all words: the largest logit, the sum of powers, the label's."""
        tensors = [self.view.graph.tensors[place] for place in self.view.outputs[v]]
        largest = max(tensors, key=numel)
        if len(largest.shape) < 2:
            return []
        size = float(largest.bytes // largest.shape[-1])
        return [Collective("all-reduce", "forward", size, largest.name)] * 3

    # -- memory ---------------------------------------------------------------------------------------------------

    def _parameter_share(self, v: int, place: int, modes: Modes) -> float:
        """The part of a parameter that a device needs for an operator."""
        mode, share = modes.mode[v], modes.share[v]
        parameter = self.view.graph.parameters[place]
        root = self.view.roots[v]
        if mode is Mode.ROW:
            linear = self.splits.linears.get(root)
            table = self.splits.embeddings[root].table if linear is None else linear.weight
            return share if place == table else 1.0
        if mode is Mode.COLUMN:
            return share
        if mode is Mode.SPLIT:
            # One number for each feature is split; one for each feature of a head is not.
            region = next(r for r in self.splits.regions if root in r.operators)
            features = min(self.splits.linears[c].outputs for c in region.columns)
            return share if _count(parameter) >= features else 1.0
        return 1.0

    def _held(self, layer: int, modes: Modes) -> dict[int, float]:
        """Parameters of a layer with the largest part of each that its operators need."""
        result: dict[int, float] = {}
        for v in self.members[layer]:
            for place in self.view.parameters[v]:
                result[place] = max(result.get(place, 0.0), self._parameter_share(v, place, modes))
        return result

    def _tensor_share(self, place: int, modes: Modes, layer: int) -> float:
        """The part of a forward tensor that a device keeps for a layer."""
        held = self.state(place, modes)
        tensor = self.view.graph.tensors[place]
        if held is Mode.SPLIT:
            return modes.share[tensor.producer] if tensor.producer is not None else 1.0
        if held is Mode.TOKENS:
            whole = any(
                modes.mode[v] is Mode.WHOLE and self.splits.layer[v] == layer for v in self.view.saved.get(place, ())
            )
            return 1.0 if whole else 1.0 / modes.degree
        return 1.0

    def _activations(self, layer: int, modes: Modes, dropped: frozenset[int] | None, extra: frozenset[int]) -> float:
        """Bytes kept for one microbatch: saved tensors that the layer's backward operators read.

        ``dropped`` are not kept; None drops everything but what enters the layer.
        """
        view, tensors = self.view, self.view.graph.tensors
        mine = {p for p, readers in view.saved.items() if any(self.splits.layer[v] == layer for v in readers)}
        if dropped is None:
            inside = set(self.members[layer])
            mine = {
                place
                for v in self.members[layer]
                if not view.backward[v]
                for place in view.inputs[v]
                if tensors[place].producer not in inside
            }
        elif dropped:
            mine = (mine - dropped) | extra
        return sum(tensors[place].bytes * self._tensor_share(place, modes, layer) for place in mine)

    def _core(self, layer: int, modes: Modes) -> tuple[list[int], float, tuple[Collective, ...]]:
        """Selective recomputation: what runs again, what is kept, what is exchanged again."""
        again: list[int] = []
        dropped: set[int] = set()
        extra: set[int] = set()
        for region in self.splits.regions:
            if region.context is None or not region.core or self.splits.layer[region.context] != layer:
                continue
            core = set(region.core)
            again += region.core
            for v in region.core:
                if v != region.context:
                    dropped |= set(self.view.outputs[v])
                extra |= {place for place in self.view.inputs[v] if self.view.graph.tensors[place].producer not in core}
        return again, self._activations(layer, modes, frozenset(dropped), frozenset(extra)), ()

    def _workspace(self, layer: int, modes: Modes) -> float:
        """The most bytes of tensors alive, beyond what is kept, while an operator of the layer runs."""
        view, graph = self.view, self.view.graph
        members = self.members[layer]
        rank = {v: index for index, v in enumerate(members)}
        change = np.zeros(len(members) + 1)
        touched = sorted({place for v in members for place in (*view.inputs[v], *view.outputs[v])})
        accumulates = self.training.microbatches > 1
        gathered = 0.0
        for place in touched:
            tensor = graph.tensors[place]
            readers = view.saved.get(place, ())
            if any(v in rank for v in readers):
                if self.state(place, modes) is Mode.TOKENS:
                    gathered = max(gathered, tensor.bytes * (1.0 - 1.0 / modes.degree))
                continue
            if place in view.weight_gradients and not accumulates:
                continue
            pins = [
                rank[v]
                for v in (*((tensor.producer,) if tensor.producer is not None else ()), *tensor.consumers)
                if v in rank
            ]
            size = tensor.bytes * self._life_share(place, modes)
            change[min(pins)] += size
            change[max(pins) + 1] -= size
        scratch = np.array([graph.operators[v].workspace_bytes * modes.share[v] for v in members])
        return float((np.cumsum(change[:-1]) + scratch).max(initial=0.0)) + gathered

    def _life_share(self, place: int, modes: Modes) -> float:
        producer = self.view.graph.tensors[place].producer
        if producer is None:
            return 1.0
        if self.view.backward[producer]:
            return self._seen(producer, place, modes, writes=True)
        if modes.mode[producer] is Mode.ROW:
            return 1.0
        return modes.share[producer]


def _average(parts: list[tuple[int, float]]) -> float:
    """Mean share, weighted by bytes."""
    total = sum(size for size, _ in parts)
    return sum(size * share for size, share in parts) / total if total else 1.0


def _count(parameter: Parameter) -> int:
    count = 1
    for extent in parameter.shape:
        count *= extent
    return count
