"""Stages cut into chunks, for schedules in which every rank holds several stages."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from partita.simulator.pipeline import Hop, Pipeline, PipelineStage, StageWork
from partita.simulator.program import End, Message


def cut(pipeline: Pipeline, rank_of: Sequence[int]) -> Pipeline:
    """The pipeline, one stage a rank, with each stage's work cut into equal parts, which are stages of their own.

    ``rank_of`` is the rank of every new stage, first stage first. The parts of a rank share its work, weights and
    activations evenly. Each hands over to the next one as much as the rank's stage did before (where it handed over
    nothing, the mean of those that did), unless both are on one rank.
    """
    parts = Counter(rank_of)
    count, stages, training = len(rank_of), pipeline.stages, pipeline.training
    last = count - 1
    new: list[PipelineStage] = []
    for number, rank in enumerate(rank_of):
        stage = stages[rank]
        share = 1.0 / parts[rank]
        before = number > 0 and rank_of[number - 1] != rank
        after = number < last and rank_of[number + 1] != rank
        new.append(
            replace(
                stage,
                forward=_cut(stage.forward, [s.forward for s in stages], share, before, after),
                # Backward work gets from the stage after it, and gives to the one before.
                backward=None
                if stage.backward is None
                else _cut(stage.backward, [s.backward for s in stages if s.backward is not None], share, after, before),
                sync_each=stage.sync_each * share,
                activation_bytes=stage.activation_bytes * share,
                memory={name: size * share for name, size in stage.memory.items()},
                weight_bytes=stage.weight_bytes * share,
                end=stage.end if number == rank_of.index(rank) else End(),
            )
        )
    hops: list[Hop] = []
    edges: list[tuple[int, int]] = [(s, count + s) for s in range(count)] if training else []
    messages: list[Message] = []
    for backward in (False, True) if training else (False,):
        known = [m for m in pipeline.messages if (m.source >= len(stages)) == backward]
        size, latency = _mean(m.size for m in known), _mean(m.latency for m in known)
        for number in range(last):
            source, target = (number + 1, number) if backward else (number, number + 1)
            shift = count if backward else 0
            ends = rank_of[source], rank_of[target]
            links = stages[ends[0]].link, stages[ends[1]].link
            row = [source + shift]
            if links[0] != links[1]:
                for link, outward in ((links[0], True), (links[1], False)):
                    times = [hop for hop in pipeline.hops if hop.link == link and hop.outward == outward]
                    times = times or list(pipeline.hops)
                    if link >= 0 and times:
                        row.append(2 * count + len(hops))
                        hops.append(replace(times[0], link=link, outward=outward, time=_mean(h.time for h in times)))
            row.append(target + shift)
            edges += itertools.pairwise(row)
            if ends[0] != ends[1] and known:
                passed = tuple(link for link in links if link >= 0) if links[0] != links[1] else ()
                messages.append(Message(source + shift, target + shift, size, latency, passed))
    note = "Stages are cut into chunks of equal work, which hand over as much as the stages do."
    return replace(
        pipeline,
        stages=tuple(new),
        edges=tuple(edges),
        hops=tuple(hops),
        messages=tuple(messages),
        notes=(*pipeline.notes, note),
    )


def _cut(work: StageWork, others: Sequence[StageWork], share: float, before: bool, after: bool) -> StageWork:
    """A part of some work, which gets and gives something or not."""
    incoming = work.incoming or _mean(other.incoming for other in others)
    outgoing = work.outgoing or _mean(other.outgoing for other in others)
    return replace(
        work, time=work.time * share, incoming=incoming if before else 0.0, outgoing=outgoing if after else 0.0
    )


def _mean(values: Iterable[float]) -> float:
    """Of those that are positive; 0 if none is."""
    found = [value for value in values if value > 0]
    return sum(found) / len(found) if found else 0.0
