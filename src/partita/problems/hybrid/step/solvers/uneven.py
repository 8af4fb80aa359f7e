"""Interleaved schedules whose parts have unlike numbers of layers: which cuts are tried, and what no cut beats.

Time counts by stages: κ and φ of a stage with v parts are multiples of its τ (``step.pipeline``), whichever of its
parts has a layer. So of a chain with few cuts all are tried. Otherwise layers are given one after the other to the
stage that has least then, ends of the model counted, later stages first where they are alike, because these hold
less; and inside a stage to the parts of which fewest microbatches are in flight. Of L repeated layers on p stages one
has ⌈L/p⌉ at least, which bounds its τ by as many times the least time of such a layer; and every part but two
takes in and hands on the smallest tensor between neighbours. Source: own.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Sequence

import msgspec

from partita.engines.kernels.arrays import Floats
from partita.ground.errors import InputError
from partita.ground.rounding import rounded_down
from partita.nouns.pipeline import SharedDegrees
from partita.problems.hybrid.layer import Layer
from partita.problems.hybrid.step.interleaved import Slot, part_places, single_slots, slots
from partita.problems.hybrid.step.layout import dealt_out, repeated_layers
from partita.problems.hybrid.step.mesh import DeviceMesh

#: Cuts of a chain that are tried one and all.
_FEW = 400
#: Layers of a stage up to which each recomputes what it likes.
_SINGLE = 24


def uneven_cuts(mesh: DeviceMesh, order: Sequence[Layer], *, chain: bool) -> tuple[list[list[range]], bool]:
    """Places of the layers of all parts, in several ways; and whether these are all there are.

    ``chain`` says that layers follow each other in one order alone.
    """
    parts, count = mesh.stages * mesh.chunks, len(order)
    if tries_all(mesh, order, chain=chain):
        every = itertools.combinations(range(1, count), parts - 1)
        return [[range(a, b) for a, b in itertools.pairwise((0, *ends, count))] for ends in every], True
    blocks = repeated_layers(order)
    found = [part_places(order, blocks, parts)] if parts <= len(blocks.starts) else []
    numbers = _dealt(mesh, order)
    if numbers is not None:
        layout = msgspec.structs.replace(mesh.layout, layers=tuple(numbers))
        # It is refused where a part would have no layer at all.
        with contextlib.suppress(InputError):
            found.append(dealt_out(mesh.problem, order, layout)[1])
    return [cut for number, cut in enumerate(found) if cut not in found[:number]], False


def tries_all(mesh: DeviceMesh, order: Sequence[Layer], *, chain: bool) -> bool:
    """Whether all cuts are tried, with all that may be recomputed: of a chain where they are few, and stages small."""
    parts = mesh.stages * mesh.chunks
    # Other stages have a layer in each of their parts at least.
    largest = len(order) - (parts - mesh.chunks)
    return chain and largest <= _SINGLE and math.comb(len(order) - 1, parts - 1) <= _FEW


def decided(order: Sequence[Layer], mine: Sequence[range], degree: int) -> list[Slot]:
    """What of a stage is decided at once: each layer, or of stages with many the j-th layers of all parts."""
    if sum(map(len, mine)) <= _SINGLE:
        return single_slots(order, mine, degree)
    return slots(order, repeated_layers(order), mine, degree)


def _dealt(mesh: DeviceMesh, order: Sequence[Layer]) -> list[int] | None:
    """Numbers of repeated layers of all parts, in the order in which a microbatch passes them; None if too few."""
    times = _times(mesh)
    blocks = repeated_layers(order)
    layers = len(blocks.starts)
    first, last = float(times[: blocks.starts[0]].sum()), float(times[blocks.end :].sum())
    each = float(times[blocks.starts[0] : blocks.end].sum()) / layers
    # Every part has a layer, but for those with an end of the model.
    bare = (blocks.starts[0] > 0, blocks.end < len(order))
    most = mesh.stages - 1
    least = [mesh.chunks - (bare[0] and rank == 0) - (bare[1] and rank == most) for rank in range(mesh.stages)]
    if sum(least) > layers:
        return None
    held = list(least)
    ends = [first * (rank == 0) + last * (rank == most) for rank in range(mesh.stages)]
    for _ in range(layers - sum(least)):
        rank = min(range(mesh.stages), key=lambda r: (ends[r] + (held[r] + 1) * each, -r))
        held[rank] += 1
    numbers = [0] * (mesh.stages * mesh.chunks)
    for rank, count in enumerate(held):
        flying = [max(column) for column in zip(*mesh.flying(rank), strict=True)]
        own = [1] * mesh.chunks
        own[0] -= bare[0] and rank == 0
        own[-1] -= bare[1] and rank == most
        for _ in range(count - sum(own)):
            part = min(range(mesh.chunks), key=lambda c: (own[c], flying[c], -c))
            own[part] += 1
        numbers[rank :: mesh.stages] = own
    return numbers


def _times(mesh: DeviceMesh) -> Floats:
    """(n,) Time of each layer's fastest configuration, for one microbatch."""
    return mesh.exchanges.forward + mesh.exchanges.backward


class UnlikeBound:
    """What no cut of the layers beats, and about what the best one takes, of one mesh after the other."""

    def __init__(self, terms: int) -> None:
        self.terms = terms
        #: By what devices share out, bytes that each part takes in and hands on at least; 0 where layers are no row.
        self.handed: dict[SharedDegrees, float] = {}
        #: By what decides exchanges: the least time of a repeated layer, the sum over all, the least gathering.
        self.times: dict[object, tuple[float, float, float]] = {}

    def _known(self, mesh: DeviceMesh, order: Sequence[Layer]) -> tuple[float, float, float]:
        """The least time of a repeated layer, the sum over all layers, and what stages hand on and gather beside."""
        key = mesh.shared, mesh.data, mesh.tensor, mesh.zero, mesh.zero_shards
        if key not in self.times:
            times = _times(mesh)
            each = min((float(times[v]) for v in repeated_layers(order).starts), default=0.0)
            self.times[key] = each, float(times.sum()), float(mesh.exchanges.gather_each.min())
        each, whole, gathering = self.times[key]
        if mesh.shared not in self.handed:
            self.handed[mesh.shared] = _handed_on(mesh, order)
        beside, handed = mesh.chunks * gathering, self.handed[mesh.shared]
        if handed > 0:
            # Each way, forward and backward; one of a stage's parts may be an end of the model.
            sides = [mesh.handover(rank) for rank in range(mesh.stages)]
            beside += (mesh.chunks - 1) * 2 * min(handed * (a + b) + c + d for a, b, c, d in sides)
        return each, whole, beside

    def least(self, mesh: DeviceMesh, order: Sequence[Layer]) -> float:
        """The step at least: some stage has so many of the repeated layers, and all parts hand on and gather."""
        each, whole, beside = self._known(mesh, order)
        layers = len(repeated_layers(order).starts)
        slowest = max(-(-layers // mesh.stages) * each, whole / mesh.stages) + beside
        value = _step(mesh, whole / mesh.stages + beside, slowest)
        return max(0.0, rounded_down(value, 2 * mesh.microbatches * (whole + slowest), self.terms))

    def about(self, mesh: DeviceMesh, order: Sequence[Layer]) -> float:
        """About the step: of stages with equally many layers, the first recomputes as much as its memory asks for.

        No bound; infinite where it would not fit at all.
        """
        _, whole, beside = self._known(mesh, order)
        repeated = repeated_layers(order).starts
        ways = order[repeated[len(repeated) // 2]].configurations.get(mesh.tensor, ()) if repeated else ()
        if not ways:
            return 0.0
        layers = len(repeated) / mesh.stages
        flying = max(sum(counts) for counts in mesh.flying(0)) / mesh.chunks
        memory = mesh.problem.memory_bytes or math.inf
        room = (memory - mesh.reserve - float(mesh.exchanges.state.sum()) / mesh.stages) / (layers * flying)
        points = [(way.memory_per_microbatch_bytes, way.time) for way in ways]
        slow = min((time for size, time in points if size <= room), default=math.inf)
        for (size, time), (less, later) in itertools.permutations(points, 2):
            if less <= room < size:
                slow = min(slow, later + (time - later) * (room - less) / (size - less))
        each = whole / mesh.stages + layers * (slow - min(time for _, time in points)) + beside
        return _step(mesh, each, each)


def _step(mesh: DeviceMesh, mean: float, slowest: float) -> float:
    """The step of stages that take so long for a microbatch, on average and at the most."""
    return mesh.stages * mean / mesh.chunks + (mesh.microbatches - 1 / mesh.chunks) * slowest


def _handed_on(mesh: DeviceMesh, order: Sequence[Layer]) -> float:
    """Bytes between neighbours in a row of layers at least; 0 where they are no row."""
    place = {layer.id: number for number, layer in enumerate(order)}
    handed = [0.0] * max(0, len(order) - 1)
    for edge in mesh.problem.edges:
        if place[edge.target] - place[edge.source] != 1:
            return 0.0
        handed[place[edge.source]] += edge.bytes
    return min(handed, default=0.0)
