"""Programs of random pipelines: what must hold of every time line, whatever is in the pipeline."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import msgspec
import numpy as np
import pytest

from instances.pipelines import Ran, equal_stages, random_pipeline, without_transfers
from partita.simulator.builder import ProgramTasks
from partita.simulator.critical import critical_summary
from partita.simulator.pipeline import Pipeline
from partita.simulator.program import CONTENTIONS, Contention, End, Program
from partita.simulator.rounds import WORK, parts_of
from partita.simulator.schedules import find_schedule
from partita.simulator.sensitivity import changes, faster
from partita.simulator.simulate import simulate
from partita.simulator.stages import staged_program
from partita.simulator.timeline import SYNC, UPDATE
from partita.simulator.trace_file import trace_document
from second_opinions.plain_engine import covered, moved_at_most

#: What is computed with divisions is compared within this.
SAME = 1e-9

SCHEDULES = ("1f1b", "gpipe", "forward")
STREAMS = ("sum", "overlap", "duplex")


def program_of(
    rng: random.Random, schedule: str, contention: Contention = "dedicated", **drawn: Any
) -> tuple[Pipeline, Program]:
    """A random pipeline, and its program for a batch in which every replica gets something."""
    pipeline = random_pipeline(rng, training=schedule != "forward", **drawn)
    least = max(len(stage.replicas) for stage in pipeline.stages)
    microbatches = rng.randint(least, least + 9)
    return pipeline, staged_program(pipeline, find_schedule(schedule), microbatches, contention=contention)


def runs(seed: int, each: int, contentions: tuple[Contention, ...] = CONTENTIONS, **drawn: Any) -> Iterator[Ran]:
    """So many programs that ran for each schedule, each sort of streams, and each contention."""
    rng = random.Random(seed)
    for schedule in SCHEDULES:
        for streams in STREAMS:
            for contention in contentions:
                for _ in range(each):
                    yield Ran(program_of(rng, schedule, contention, streams=streams, **drawn)[1])


def kind(ran: Ran) -> tuple[str, str, str]:
    """Schedule, streams and contention of a program."""
    program = ran.program
    return program.schedule, program.places[0].streams, program.contention


@pytest.fixture(scope="module")
def everything() -> list[Ran]:
    """Ten programs of each of the 27 kinds."""
    found = list(runs(1, 10))
    assert set(Counter(map(kind, found)).values()) == {10}
    assert len(found) == 270
    # Among them is everything that pipelines may have.
    assert sum(any(end != End() for end in ran.program.ends) for ran in found) >= 80
    assert sum(any(end.behind for end in ran.program.ends) for ran in found) >= 40
    assert sum(any(end.link_sync for end in ran.program.ends) for ran in found) >= 20
    assert sum(any(place.is_link for place in ran.program.places) for ran in found) >= 80
    assert sum(any(place.instances > 1 for place in ran.program.places) for ran in found) >= 150
    assert sum(any(step.traffic for step in ran.program.steps) for ran in found) >= 100
    return found


def test_nothing_overlaps_on_a_lane(everything: list[Ran]) -> None:
    """But on those that are shared, where it does."""
    shared = lanes = 0
    for ran in everything:
        for lane, start, end in ran.lanes():
            assert (end >= start).all()
            assert (start >= 0).all()
            if ran.simulation.timeline.lanes[lane].shared:
                shared += bool((start[1:] < end[:-1]).any())
                continue
            assert (start[1:] >= end[:-1]).all()
            lanes += len(start) > 1
    assert lanes >= 1000
    assert shared >= 50


def test_the_parts_of_a_step_follow_each_other(everything: list[Ran]) -> None:
    """In, work, out: as many as the step has, each as long as it should be, for every microbatch."""
    counted: Counter[int] = Counter()
    for ran in everything:
        program, shares = ran.program, ran.program.contention == "shared"
        for number, step in enumerate(program.steps):
            place = program.places[step.place]
            for microbatch in range(program.total):
                found = ran.parts(number, microbatch)
                if place.is_link and ran.in_messages:
                    assert found == []
                    continue
                assert [part for part, _, _ in found] == ([WORK] if ran.in_messages else parts_of(place, step))
                for part, start, end in found:
                    time = (step.incoming, step.time, step.outgoing)[part]
                    # A link that is shared takes longer for what it moves with something else.
                    least = end - start >= time - SAME if place.is_link and shares else False
                    assert least or end - start == pytest.approx(time, abs=SAME)
                for (_, _, before), (_, after, _) in pairwise(found):
                    assert after >= before
                counted[len(found)] += 1
    assert min(counted[1], counted[2], counted[3]) >= 500


def test_every_edge_is_respected(everything: list[Ran]) -> None:
    """What waits starts no sooner than the last part of the other ends; links are no steps where messages pass them."""
    counted: Counter[str] = Counter()
    for ran in everything:
        program = ran.program
        for source, target in program.edges:
            links = [program.places[program.steps[number].place].is_link for number in (source, target)]
            if ran.in_messages and any(links):
                continue
            for microbatch in range(program.total):
                assert ran.begins(target, microbatch) >= ran.ends(source, microbatch)
                counted[program.contention] += 1
    assert min(counted[name] for name in CONTENTIONS) >= 1000


def test_messages_take_their_time_and_are_waited_for(everything: list[Ran]) -> None:
    """From the end of one step's work to the start of another's: latency and size / capacity at the least."""
    counted: Counter[str] = Counter()
    for ran in everything:
        program = ran.program
        if not ran.in_messages:
            continue
        for message in program.messages:
            ends = [program.places[program.steps[number].place] for number in (message.source, message.target)]
            passed = [*ends, *(program.places[link] for link in message.links)]
            least = message.latency + message.size / min(place.capacity for place in passed)
            for microbatch in range(program.total):
                left, reached = ran.ends(message.source, microbatch), ran.begins(message.target, microbatch)
                assert reached - left >= least - SAME
                counted[program.contention] += 1
    assert min(counted["shared"], counted["serial"]) >= 1000


def test_each_rank_works_in_its_order(everything: list[Ran]) -> None:
    """One thing after the other, and every one of its steps for every one of its microbatches once."""
    orders = 0
    for ran in everything:
        program = ran.program
        assert program.orders is not None
        met = set()
        for order in program.orders:
            assert set((order.microbatches % program.places[order.place].instances).tolist()) == {order.instance}
            pairs = list(zip(order.steps.tolist(), order.microbatches.tolist(), strict=True))
            met |= set(pairs)
            works = [ran.work(step, microbatch) for step, microbatch in pairs]
            for (_, ended), (started, _) in pairwise(works):
                assert started >= ended
            orders += 1
        placed = {s for s, step in enumerate(program.steps) if not program.places[step.place].is_link}
        assert met == {(s, microbatch) for s in placed for microbatch in range(program.total)}
    assert orders >= 1000


def test_gpipe_goes_back_when_everything_has_gone_forward(everything: list[Ran]) -> None:
    """Also what a rank could start sooner."""
    checked = 0
    for ran in everything:
        if not ran.program.barrier:
            continue
        letters = defaultdict(list)
        for step, microbatch in ran.steps():
            letters[ran.program.steps[step].letter].append((step, microbatch))
        assert min(ran.begins(*at) for at in letters["B"]) >= max(ran.ends(*at) for at in letters["F"])
        checked += 1
    assert checked == 90


def test_work_is_conserved(everything: list[Ran]) -> None:
    """A device is busy for the sum of its work, but for traffic inside its replica, and of its updates."""
    devices = 0
    for ran in everything:
        program = ran.program
        for use in ran.simulation.uses:
            share = len(range(use.instance, program.total, program.places[use.place].instances))
            mine = [step for step in program.steps if step.place == use.place]
            work = share * sum(step.time * (1 - step.traffic) for step in mine)
            update = program.ends[use.place].update if program.ends else 0.0
            assert use.busy == pytest.approx(work + update, abs=SAME)
            devices += 1
    assert devices >= 1000


def test_a_device_is_busy_communicates_or_waits(everything: list[Ran]) -> None:
    """These are its step; what is hidden is hidden behind work."""
    hidden = 0
    for ran in everything:
        simulation = ran.simulation
        assert simulation.begin == 0.0
        assert simulation.finish == simulation.timeline.finish == simulation.step_time
        for use in simulation.uses:
            parts = (use.busy, use.communication_exposed, use.idle)
            assert min(*parts, use.communication_hidden) >= -SAME
            assert sum(parts) == pytest.approx(simulation.step_time, abs=SAME)
            traffic = any(step.traffic for step in ran.program.steps if step.place == use.place)
            # Transfers may also hide behind work that is traffic itself, which does not count as busy.
            if not traffic:
                assert use.communication_hidden <= use.busy + SAME
            hidden += use.communication_hidden > 0
    assert hidden >= 200


def test_communication_is_what_the_lanes_of_a_device_say(everything: list[Ran]) -> None:
    """Exposed and hidden add up to the time that a device moves or synchronises, and its traffic inside replicas."""
    checked = 0
    for ran in everything:
        program, line = ran.program, ran.simulation.timeline
        if ran.in_messages:
            # There, receivers move data on no lane of their own.
            continue
        for number, use in enumerate(ran.simulation.uses):
            moved = [
                (float(line.start[k]), float(line.end[k]))
                for k in range(line.count)
                if line.lanes[line.lane[k]].device == number and line.sort[k] >= 6
            ]
            share = len(range(use.instance, program.total, program.places[use.place].instances))
            traffic = share * sum(step.time * step.traffic for step in program.steps if step.place == use.place)
            both = use.communication_exposed + use.communication_hidden
            assert both == pytest.approx(covered(moved) + traffic, abs=SAME)
            checked += 1
    assert checked >= 300


def test_contention_never_helps() -> None:
    """No transfer is faster for others: a program whose edges cost nothing is no slower, task by task."""
    rng = random.Random(2)
    slower: Counter[str] = Counter()
    for _ in range(60):
        schedule = rng.choice(SCHEDULES)
        # Orders are the same, and nothing else takes turns: each task waits for all that it waits for without them.
        pipeline, program = program_of(rng, schedule, ends=rng.random() < 0.5)
        bare = without_transfers(replace(pipeline, messages=()))
        free = simulate(staged_program(bare, find_schedule(schedule), program.microbatches))
        for contention in ("shared", "serial"):
            other = simulate(replace(program, contention=cast("Contention", contention)))
            devices = [number for number, place in enumerate(program.places) if not place.is_link]
            assert (other.done[devices] >= free.done[devices] - SAME).all()
            assert other.step_time >= free.step_time - SAME
            slower[contention] += other.step_time > free.step_time + SAME
    assert min(slower.values()) >= 30


def test_shared_engines_never_move_more_than_they_can() -> None:
    """What passed an engine or a link fits into the time in which something moved over it; all of it passed."""
    engines = 0
    for ran in runs(3, 12, ("shared",)):
        graph = ran.tasks.graph
        for moved, most in moved_at_most(graph, ran.times):
            assert moved <= most * (1 + SAME)
            engines += moved > 0
        program = ran.program
        if ran.in_messages:
            sizes = sum(message.size for message in program.messages)
        else:
            # Of a link that is passed by whole devices, time is what it moves.
            sizes = sum(step.time for step in program.steps if program.places[step.place].is_link)
        assert graph.amount.sum() == sizes * program.total
    assert engines >= 300


def test_what_waits_for_no_one_starts_at_once() -> None:
    """Where nothing takes turns, a part starts when the last of what it waits for has ended: worked out by hand here.

    With dedicated links a device that does transfers itself runs whole steps in its order; with an engine for each
    direction every part follows the one before it of its own kind. So nothing is left to chance.
    """
    checked = 0
    rng = random.Random(4)
    for schedule in ("1f1b", "forward"):
        for streams in ("sum", "duplex"):
            for _ in range(15):
                _, program = program_of(rng, schedule, streams=streams, links=False, ends=False)
                ran = Ran(program)
                waits: dict[tuple[int, int], list[float]] = defaultdict(list)
                for source, target in program.edges:
                    for microbatch in range(program.total):
                        waits[target, microbatch].append(ran.ends(source, microbatch))
                for order in program.orders or ():
                    free: dict[int, float] = defaultdict(float)
                    for step, microbatch in zip(order.steps.tolist(), order.microbatches.tolist(), strict=True):
                        due = max([0.0, *waits[step, microbatch]])
                        for part, start, end in ran.parts(step, microbatch):
                            stream = part if streams == "duplex" else 0
                            assert start == max(due, free[stream])
                            due = free[stream] = end
                            checked += 1
    assert checked >= 5000


def test_the_critical_path_has_no_gaps() -> None:
    """Each slice ends when the next one starts, and all of them are the step: nothing starts late without a cause."""
    checked = long = 0
    for ran in runs(5, 10):
        line, path = ran.simulation.timeline, ran.simulation.critical()
        summary = critical_summary(line, path)
        assert summary.finish == ran.simulation.finish == line.end[path[-1]]
        assert summary.waiting == pytest.approx(0.0, abs=SAME)
        assert sum(summary.by_sort.values()) == pytest.approx(summary.finish, abs=SAME)
        assert sum(summary.by_owner.values()) == pytest.approx(summary.finish, abs=SAME)
        # What is synchronised behind work has this work as its cause, which ends later.
        if not any(end.behind for end in ran.program.ends):
            assert line.start[path[0]] == 0.0
            assert line.start[path[1:]].tolist() == line.end[path[:-1]].tolist()
            # Summed up one by one.
            lengths = (line.end - line.start)[path]
            assert lengths.sum() == pytest.approx(summary.finish, abs=SAME)
            checked += 1
            long += len(path) > 10
    assert checked >= 100
    assert long >= 80


def test_memory_is_what_is_held_and_comes_back() -> None:
    """Never negative, at its end what is always there, and its integral is bytes × time of everything held."""
    curves = 0
    for ran in runs(6, 6):
        program, simulation = ran.program, ran.simulation
        for use, curve in zip(simulation.uses, simulation.timeline.memory, strict=True):
            place = program.places[use.place]
            assert curve.times[0] == 0.0
            assert (np.diff(curve.times) >= 0).all()
            assert all((levels >= 0).all() for levels in curve.parts.values())
            assert curve.total[-1] == sum(place.memory.values())
            assert use.peak_memory_bytes == curve.total.max()
            own = range(use.instance, program.total, place.instances)
            mine = [number for number, step in enumerate(program.steps) if step.place == use.place]
            saving = [number for number in mine if program.steps[number].saves]
            held = sum(
                program.steps[first].saves * (ran.work(last, m)[1] - ran.work(first, m)[0])
                for first in saving
                for last in mine
                if program.steps[last].frees
                for m in own
            )
            spans = np.diff([*curve.times, simulation.finish])
            assert float((curve.parts.get("activations", 0 * spans) * spans).sum()) == pytest.approx(held, abs=1e-6)
            working = covered([ran.work(number, m) for number in mine for m in own])
            needed = float((curve.parts.get("workspace", 0 * spans) * spans).sum())
            assert needed == pytest.approx(place.workspace * working, abs=1e-6)
            # Who is said to be held at the peak is as many as the bytes say.
            at = int(curve.total.argmax())
            flying = simulation.held(use.place, use.instance, float(curve.times[at]))
            if saving and "activations" in curve.parts and curve.times[at] not in curve.times[at + 1 :]:
                assert curve.parts["activations"][at] == program.steps[saving[0]].saves * len(flying)
            curves += 1
    assert curves >= 300


def test_the_same_program_gives_the_same_bytes() -> None:
    """Arrays and trace documents, byte for byte."""
    rng = random.Random(7)
    compared = 0
    for schedule in SCHEDULES:
        for contention in CONTENTIONS:
            state = rng.getstate()
            _, first = program_of(rng, schedule, contention)
            rng.setstate(state)
            _, second = program_of(rng, schedule, contention)
            one, other = simulate(first).timeline, simulate(second).timeline
            for name in ("start", "end", "lane", "sort", "stage", "microbatch", "cause", "flows"):
                assert getattr(one, name).tobytes() == getattr(other, name).tobytes()
            for curve, again in zip(one.memory, other.memory, strict=True):
                assert curve.times.tobytes() == again.times.tobytes()
                assert curve.total.tobytes() == again.total.tobytes()
            assert msgspec.json.encode(trace_document(one)) == msgspec.json.encode(trace_document(other))
            assert one.count > 0
            compared += 1
    assert compared == 9


# -- ends of batches ---------------------------------------------------------------------------------------------------


def test_ends_come_after_the_work_and_in_their_order(everything: list[Ran]) -> None:
    """Synchronisation after all replicas' last action unless it hides behind it, then the link, then the update."""
    counted: Counter[str] = Counter()
    for ran in everything:
        program = ran.program
        for number, end in enumerate(program.ends):
            place = program.places[number]
            mine = [order for order in program.orders or () if order.place == number]
            if not mine:
                continue
            done = max(ran.ends(int(order.steps[-1]), int(order.microbatches[-1])) for order in mine)
            syncs, updates = ran.at_ends(number, SYNC), ran.at_ends(number, UPDATE)
            assert len(syncs) == place.instances * (len(end.behind) or 1) * (end.sync > 0)
            assert len(updates) == place.instances * (end.update > 0)
            if end.sync > 0 and not end.behind:
                # Each replica synchronises as soon as all have done their last action.
                assert set(syncs) == {(done, done + end.sync)}
                counted["after"] += 1
            together = end.sync > 0 or end.link_sync > 0 or place.instances == 1
            if not together:
                # See the test below.
                done = min(ran.ends(int(order.steps[-1]), int(order.microbatches[-1])) for order in mine)
            reached = max([done, *(at for _, at in syncs)])
            for began, ended in updates:
                assert began >= reached + (end.link_sync if end.link >= 0 else 0.0)
                assert ended - began == end.update
                counted["update"] += 1
    assert min(counted["after"], counted["update"]) >= 50


def test_an_update_waits_for_all_replicas() -> None:
    """A place does what it does at the end of a batch once all its replicas have done their last step."""
    program = staged_program(equal_stages(1, 1.0, 2.0, replicas=2, end=End(update=1.0)), find_schedule("1f1b"), 3)
    assert Ran(program).at_ends(0, UPDATE) == [(6.0, 7.0), (6.0, 7.0)]


def hidden_parts_begin(ran: Ran) -> Iterator[tuple[float, float]]:
    """Of each part of a synchronisation behind work: when it begins, and when the work is done that it waits for."""
    program = ran.program
    for number, end in enumerate(program.ends):
        if not end.sync or not end.behind:
            continue
        last = [(int(o.steps[-1]), int(o.microbatches[-1])) for o in program.orders or () if o.place == number]
        works = [ran.work(step, microbatch) for step, microbatch in last]
        syncs = sorted(set(ran.at_ends(number, SYNC)))
        assert len(syncs) == len(end.behind)
        for (share, time), (began, ended) in zip(end.behind, syncs, strict=True):
            assert ended - began == pytest.approx(time)
            yield began, max(start + share * (stop - start) for start, stop in works)


def test_synchronisation_hides_behind_the_last_backward_work(everything: list[Ran]) -> None:
    """A part of the weights is synchronised no sooner than the share of the work is done that makes its gradients."""
    earlier = parts = 0
    for ran in everything:
        for began, due in hidden_parts_begin(ran):
            assert began >= due - SAME
            parts += 1
        for number, end in enumerate(ran.program.ends):
            mine = [o for o in ran.program.orders or () if o.place == number]
            if end.behind and mine:
                done = max(ran.ends(int(o.steps[-1]), int(o.microbatches[-1])) for o in mine)
                earlier += min(began for began, _ in ran.at_ends(number, SYNC)) < done
    assert parts >= 100
    assert earlier >= 20


def test_no_flush_lets_batches_follow_without_a_break() -> None:
    """Of equal batches one takes as long as the next, and with equal stages as long as a device works."""
    cases = 0
    for schedule in ("pipedream", "2bw"):
        for stages in (1, 2, 3, 5):
            for replicas in (1, 2):
                program = staged_program(
                    equal_stages(stages, 1.0, 2.0, replicas=replicas), find_schedule(schedule), 8 * replicas
                )
                assert program.batches >= 4
                assert 0 < program.counted < program.batches - 1
                ran = Ran(program)
                ended = [ran.simulation.left[8 * replicas * k : 8 * replicas * (k + 1)].max() for k in range(4)]
                assert ran.simulation.step_time == 8 * 3.0
                assert ran.simulation.begin == ended[program.counted - 1]
                # The first device never waits once it has begun to go back: it works all the time of the batch.
                assert [use.idle for use in ran.simulation.uses] == [0.0] * stages * replicas
                # With a flush it takes (8 + S − 1) · 3.
                flushed = staged_program(equal_stages(stages, 1.0, 2.0), find_schedule("1f1b"), 8)
                assert simulate(flushed).step_time == (8 + stages - 1) * 3.0
                cases += 1
    assert cases == 16


def test_without_a_flush_a_device_synchronises_one_batch_after_the_other() -> None:
    """Nothing overlaps on its lane of synchronisations."""
    pipeline = equal_stages(2, 1.0, 2.0)
    first = replace(pipeline.stages[0], end=End(sync=24.0))
    program = staged_program(replace(pipeline, stages=(first, pipeline.stages[1])), find_schedule("2bw"), 4)
    assert not overlaps(Ran(program))


def test_without_a_flush_updates_are_work_of_the_device() -> None:
    """Work is conserved: a batch takes 4 · 3 of work and 6 for the update, one after the other."""
    pipeline = equal_stages(2, 1.0, 2.0)
    first = replace(pipeline.stages[0], end=End(update=6.0))
    program = staged_program(replace(pipeline, stages=(first, pipeline.stages[1])), find_schedule("2bw"), 4)
    simulation = simulate(program)
    assert simulation.step_time >= 18.0
    assert simulation.uses[0].busy == 18.0


def test_fewer_microbatches_than_replicas_have_an_end_too() -> None:
    """Of three replicas two have a microbatch; the weights are synchronised when these have gone back."""
    pipeline = equal_stages(1, 1.0, 2.0, replicas=3, end=End(sync=4.0))
    assert simulate(staged_program(pipeline, find_schedule("1f1b"), 2)).step_time == 3.0 + 4.0
    # Without a flush, too: a replica may have nothing to do in a batch, or in all.
    for microbatches in (1, 2, 4):
        ran = Ran(staged_program(pipeline, find_schedule("pipedream"), microbatches))
        assert ran.simulation.step_time >= 4.0
        assert {ended - began for began, ended in ran.at_ends(0, SYNC)} == {4.0}


def mixed_backwards(tmp_path: Path, behind: tuple[tuple[float, float], ...]) -> Ran:
    """One rank; the backward work of its first microbatch is split, that of the last one is not: F 1, B 4, sync 2."""
    path = tmp_path / "mixed.csv"
    path.write_text("0F0,0I0,0W0,0F1,0B1\n")
    pipeline = equal_stages(1, 1.0, 4.0, end=End(sync=2.0, behind=behind))
    return Ran(staged_program(pipeline, find_schedule(str(path)), 2))


def test_synchronisation_after_a_whole_backward_action(tmp_path: Path) -> None:
    """2 · (1 + 4) and 2 for the weights."""
    assert mixed_backwards(tmp_path, ()).simulation.step_time == 12.0


def test_synchronisation_hides_behind_a_whole_backward_action(tmp_path: Path) -> None:
    """Half of the weights are synchronised from half of B1 on, at 6 + 4 / 2 = 8, the others from its end at 10."""
    ran = mixed_backwards(tmp_path, ((0.5, 1.0), (1.0, 1.0)))
    assert ran.at_ends(0, SYNC) == [(8.0, 9.0), (10.0, 11.0)]
    assert ran.simulation.step_time == 11.0


def test_without_a_flush_random_batches_hold_all_that_holds_of_lanes_and_devices() -> None:
    """Work is conserved in a window between two batches that are alike: from one end to the next."""
    rng = random.Random(8)
    devices = 0
    for _ in range(40):
        schedule = rng.choice(["pipedream", "2bw"])
        pipeline = random_pipeline(rng, ends=False, links=False, streams="sum", replicas=False, traffic=False)
        microbatches = rng.randint(len(pipeline.stages), len(pipeline.stages) + 6)
        ran = Ran(staged_program(pipeline, find_schedule(schedule), microbatches))
        for lane, start, end in ran.lanes():
            assert not ran.simulation.timeline.lanes[lane].shared
            assert (start[1:] >= end[:-1]).all()
        for use in ran.simulation.uses:
            parts = use.busy, use.communication_exposed, use.idle
            assert sum(parts) == pytest.approx(ran.simulation.step_time, abs=SAME)
            mine = [step for step in ran.program.steps if step.place == use.place]
            each = sum(step.time for step in mine), sum(step.incoming + step.outgoing for step in mine)
            assert ran.simulation.step_time >= microbatches * sum(each) - SAME
            devices += 1
    assert devices >= 80


# -- arrivals ----------------------------------------------------------------------------------------------------------


def test_an_interval_delays_arrivals() -> None:
    """Microbatch m enters no sooner than m · interval; behind a slow row of arrivals none waits for another."""
    rng = random.Random(9)
    cases = 0
    for contention in CONTENTIONS:
        for _ in range(8):
            _, program = program_of(rng, "forward", contention)
            alone = simulate(replace(program, microbatches=1, orders=first_microbatch(program)))
            spaced = simulate(replace(program, interval=100.0))
            assert spaced.entered.tolist() == [100.0 * m for m in range(program.total)]
            # Nobody else is there, so each takes what one takes that is alone.
            assert spaced.latencies.tolist() == pytest.approx([float(alone.latencies[0])] * program.total)
            for interval in (0.5, 3.0):
                closer = simulate(replace(program, interval=interval))
                assert (closer.entered >= interval * np.arange(program.total)).all()
            cases += 1
    assert cases == 24


def first_microbatch(program: Program) -> Any:
    """The orders of a batch of which only the first microbatch is left."""
    return [
        replace(order, steps=order.steps[order.microbatches == 0], microbatches=order.microbatches[[0]])
        for order in program.orders or ()
        if order.instance == 0
    ]


# -- what would change the step ----------------------------------------------------------------------------------------


def test_a_faster_device_never_lengthens_a_step_in_which_nothing_takes_turns() -> None:
    """All that a task waits for is sooner, so it is, too; who does not work is not asked."""
    rng = random.Random(10)
    shorter = asked = 0
    for _ in range(40):
        _, program = program_of(rng, "1f1b", streams="sum", links=False)
        simulation = simulate(program)
        found = [change for change in changes(simulation) if change.what.endswith("faster")]
        working = [
            number
            for number, place in enumerate(program.places)
            if any(step.place == number and step.time > 0 for step in program.steps)
            or (program.ends and program.ends[number].update > 0)
        ]
        assert [change.what.split(" (")[0] for change in found] == [program.places[number].name for number in working]
        for number, change in zip(working, found, strict=True):
            assert change.before == simulation.step_time
            assert change.step_time <= change.before + SAME
            assert change.step_time == simulate(faster(program, number)).step_time
            # It cannot save more than the device works.
            most = sum(use.busy for use in simulation.uses if use.place == number)
            traffic = sum(step.time for step in program.steps if step.place == number) * program.total
            traffic += program.ends[number].update if program.ends else 0.0
            assert change.before - change.step_time <= (most + traffic) * (1 - 1 / 1.1) + SAME
            asked += 1
            shorter += change.step_time < change.before - SAME
    assert asked >= 80
    assert shorter >= 50


def test_who_has_no_work_is_not_asked() -> None:
    """Of three equal stages the second has none."""
    pipeline = equal_stages(3, 1.0, 2.0)
    nothing = replace(pipeline.stages[1], forward=replace(pipeline.stages[1].forward, time=0.0))
    nothing = replace(nothing, backward=nothing.forward)
    pipeline = replace(pipeline, stages=(pipeline.stages[0], nothing, pipeline.stages[2]))
    simulation = simulate(staged_program(pipeline, find_schedule("1f1b"), 4))
    # Two stages that matter: (4 + 2 − 1) · 3.
    assert simulation.step_time == 15.0
    assert [change.what for change in changes(simulation)] == [
        "stage 0 (device:0) 10 % faster",
        "stage 2 (device:2) 10 % faster",
    ]


def test_the_checks_see_what_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the orders of ranks, work overlaps on lanes: the checks above are no empty ones."""
    _, program = program_of(random.Random(11), "1f1b", streams="sum", replicas=False, links=False)
    assert not overlaps(Ran(program))
    monkeypatch.setattr(ProgramTasks, "chain_blocks", lambda *_: None)
    assert overlaps(Ran(program))


def overlaps(ran: Ran) -> bool:
    """Whether something overlaps on a lane that is not shared."""
    return any(
        (start[1:] < end[:-1]).any()
        for lane, start, end in ran.lanes()
        if not ran.simulation.timeline.lanes[lane].shared
    )
