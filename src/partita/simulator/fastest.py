"""What no placement of a plan goes below: its step on links and devices that are each as fast as the best.

Orders and dependencies of a placed plan do not depend on where it is placed, and a step is the longest path through
them, so a path of shorter parts is not longer. Each part is replaced by the least that it takes anywhere:

- forward and backward work each by the least over the kinds of devices, one by one. The kind on which their sum is
  least is no bound: under GPipe all forward parts come first, so that the largest forward and the largest backward part
  of a stage count, and these may be of two stages.
- a transfer by its bytes over the fastest link;
- an exchange of R replicas by the least over the ways in which they may be spread, with b the fastest link inside a
  machine and B the fastest between two: in one machine (R − 1)/R of the bytes pass b; around one ring over several
  machines they pass B; with q in each of M machines (q − 1)/q of them pass b and (M − 1)/(M·q) pass B, at once or one
  after the other, as the exchange is counted where it is placed. A sum that all get is twice that.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from partita.costs.collectives import sent_share
from partita.ground.rounding import TOLERANCE
from partita.nouns.topology.counted import CountedLinks
from partita.simulator.pipeline import NO_EXCHANGE, Exchange, Exchanged, Pipeline, PipelineStage, StageWork
from partita.simulator.placed import Bandwidths, Layout, exchange_s, placed_step

#: What a bound is lowered by: long batches are simulated by turns that are alike within
#: ``TOLERANCE``, and sums of up to a million parts, none of which is negative, are off by less.
MARGIN = 2 * TOLERANCE


@dataclass(frozen=True)
class FastLinks:
    """The fastest links of some devices."""

    #: Bytes per second of the fastest link inside a machine and between two; 0 where there is none.
    inside: float
    across: float
    machines: tuple[int, ...]  #: Devices of every machine.

    @property
    def fastest(self) -> float:
        """Bytes per second of the fastest link; 1 where there is none."""
        return max(self.inside, self.across) or 1.0


def fast_links(bandwidth: Bandwidths, machine_of: Sequence[int]) -> FastLinks:
    """The fastest links of devices with these bandwidths, [device, device] bytes per second, in these machines."""
    machine = np.asarray(machine_of)
    if isinstance(bandwidth, CountedLinks):
        return FastLinks(*bandwidth.fastest(), tuple(np.bincount(machine).tolist()))
    together = machine[:, None] == machine[None, :]
    apart = ~np.eye(len(machine), dtype=bool)
    inside, across = (float(bandwidth[pairs].max(initial=0.0)) for pairs in (together & apart, ~together))
    return FastLinks(inside, across, tuple(Counter(machine.tolist()).values()))


def least_collective_s(kind: str, replicas: int, links: FastLinks) -> float:
    """Seconds per byte that a collective of so many replicas takes at least, whose levels go on at once."""
    return min((max(levels) for levels in _spreads(kind, replicas, links)), default=0.0)


def least_ring_s(replicas: int, links: FastLinks) -> float:
    """Seconds per byte that an all-reduce takes at least: of one ring, or of levels one after the other."""
    return min((sum(levels) for levels in _spreads("all-reduce", replicas, links)), default=0.0)


def _spreads(kind: str, replicas: int, links: FastLinks) -> Iterator[tuple[float, ...]]:
    """Seconds per byte of every level, for every way in which replicas may be spread over machines."""
    if replicas < 2:
        return
    whole = sent_share(kind, replicas)
    if max(links.machines) >= replicas:
        yield (whole / links.inside,)
    if len(links.machines) > 1:
        yield (whole / links.across,)
    for inner in (q for q in range(2, replicas) if replicas % q == 0):
        outer = replicas // inner
        if sum(size >= inner for size in links.machines) >= outer:
            yield sent_share(kind, inner) / links.inside, sent_share(kind, outer) / inner / links.across


def least_step(plan: Pipeline, links: FastLinks) -> float:
    """Seconds that no step of a plan goes below, wherever it is placed; 0 if its stages are not in a row.

    All its stages have as many replicas as they have anywhere.
    """
    if not plan.passed_once:
        return 0.0
    rows: list[tuple[tuple[int, ...], ...]] = []
    count = 0
    for stage in plan.stages:
        rows.append(tuple((count + r,) for r in range(stage.data_parallel)))
        count += stage.data_parallel
    layout: Layout = tuple(rows)
    matrix = np.full((count, count), links.fastest)
    np.fill_diagonal(matrix, np.inf)
    quick = replace(plan, stages=tuple(_fastest(stage, links) for stage in plan.stages))
    turns = [plan.microbatches // stage.data_parallel for stage in plan.stages]
    # Of one stage forward and backward parts are of one kind.
    alone = max(turn * min(map(sum, stage.by_kind.values())) for turn, stage in zip(turns, plan.stages, strict=True))
    return max(placed_step(quick, layout, matrix).time, alone) * (1 - MARGIN)


def _fastest(stage: PipelineStage, links: FastLinks) -> PipelineStage:
    """A stage at its fastest, whose rings take over the fastest link what its exchanges take at least."""
    parts = list(stage.by_kind.values())
    work = (min(forward for forward, _ in parts), min(backward for _, backward in parts))

    def scale(kind: str, least: float) -> float:
        if stage.data_parallel < 2 or math.isinf(links.fastest):
            return 1.0
        return least * links.fastest / sent_share(kind, stage.data_parallel)

    def rates(part: Exchanged, kinds: tuple[str, str, str]) -> tuple[float, float, float]:
        groups = sum(map(len, stage.replicas)) // part.width if part.width else stage.data_parallel
        counts = groups // part.copies, groups // part.copies, part.copies
        reduce, gather, total = (
            least_collective_s(kind, count, links) for kind, count in zip(kinds, counts, strict=True)
        )
        return reduce, gather, total

    exchange: Exchange | None = stage.exchange
    if exchange is not None:
        exchange = replace(NO_EXCHANGE, rest_s=exchange_s(exchange, rates))
    ring = scale("all-reduce", least_ring_s(stage.data_parallel, links))
    return replace(
        stage,
        kind="",
        work_s={"": work},
        backward=None if stage.backward is None else StageWork(work[1]),
        weight_share=stage.later_share,
        replicas=tuple(group[:1] for group in stage.replicas),
        parameter_bytes=stage.parameter_bytes * ring,
        exchange=exchange,
    )
