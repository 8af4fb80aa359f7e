"""Rounds: random graphs of steps whose places are passed again and again keep the pace of their busiest stream."""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict
from itertools import pairwise

import numpy as np
import pytest

from instances.pipelines import Ran, halves
from partita.ground.errors import InputError
from partita.simulator import rounds
from partita.simulator.program import End, Place, Program, Step
from partita.simulator.rounds import in_rounds, offsets
from partita.simulator.simulate import simulate
from partita.simulator.timeline import FORWARD, TRANSFER

#: Paces are compared within this share.
SAME = 1e-9

STREAMS = ("sum", "overlap", "duplex")

#: Enough microbatches for every pace to settle.
LONG = 240


def random_graph(rng: random.Random, microbatches: int = LONG, *, links: bool = True, replicas: bool = True) -> Program:
    """Up to 12 steps on up to 4 places, some of them links; every edge goes from a step to a later one."""
    count = rng.choice([1, 2, 2, 3, 3, 4])
    places = []
    for number in range(count):
        instances = rng.choice([1, 1, 2, 3]) if replicas else 1
        devices = tuple((f"device:{number}.{k}",) for k in range(instances))
        link = links and number > 0 and rng.random() < 0.25
        streams = rng.choice(STREAMS)
        places.append(Place(f"place {number}", () if link else devices, instances, streams))  # type: ignore[arg-type]
    steps = []
    for number in range(rng.randint(3, 12)):
        place = rng.randrange(count)
        if places[place].is_link:
            steps.append(Step(place, -1, "=", TRANSFER, halves(rng, 0, 3), outward=rng.random() < 0.5))
            continue
        moved = [rng.choice([0.0, 0.0, halves(rng, 0, 3)]) for _ in range(2)]
        steps.append(Step(place, number, "F", FORWARD, halves(rng, 0, 4), *moved))
    ends = range(len(steps))
    edges = [(a, b) for a in ends for b in ends if a < b and rng.random() < 0.3]
    return Program("graph", "ms", places, steps, edges, None, microbatches)


def busiest(program: Program) -> float:
    """What the busiest stream takes for a microbatch: worked out by hand from the places."""
    spent: dict[tuple[int, str], float] = defaultdict(float)
    for step in program.steps:
        place = program.places[step.place]
        times = {"in": step.incoming, "work": step.time, "out": step.outgoing}
        for part, time in times.items():
            if place.is_link:
                # Its transfers run one after the other, but in both directions at once with a lane for each.
                stream = str(step.outward) if place.streams == "duplex" else "all"
            else:
                copies = {"sum": "work", "overlap": "copy", "duplex": part}[place.streams]
                stream = "work" if part == "work" else copies
            spent[step.place, stream] += time / place.instances
    return max(spent.values())


def pace(program: Program, turns: int = 60) -> float:
    """Time that a microbatch adds to a run: what further microbatches do, as many for every instance."""
    more = turns * math.lcm(*(place.instances for place in program.places))
    longer = Program(**{**vars(program), "microbatches": program.microbatches + more})
    return (simulate(longer).step_time - simulate(program).step_time) / more


@pytest.fixture(scope="module")
def graphs() -> list[Program]:
    """Random programs, among which everything is."""
    rng = random.Random(1)
    found = [random_graph(rng) for _ in range(180)]
    streams = Counter(place.streams for program in found for place in program.places)
    assert min(streams[name] for name in STREAMS) >= 80
    assert sum(place.is_link for program in found for place in program.places) >= 40
    assert sum(place.instances > 1 for program in found for place in program.places) >= 100
    # Graphs that go back to a place that they have left.
    assert sum(returns(program) for program in found) >= 60
    return found


def returns(program: Program) -> bool:
    """Whether a microbatch leaves a place and comes back to it."""
    after: dict[int, set[int]] = defaultdict(set)
    for a, b in sorted(program.edges, reverse=True):
        after[a] |= {b} | after[b]
    place = [step.place for step in program.steps]
    return any(
        place[a] == place[c] != place[b] for a in range(len(place)) for b in after[a] for c in after[b] if c != a
    )


def test_by_hand() -> None:
    """A device that is passed before and after another one: 2 + 1 a microbatch, and the other 2.5."""
    places = [Place("a", (("device:0",),)), Place("b", (("device:1",),))]
    times = ((0, 2.0), (1, 2.5), (0, 1.0))
    steps = [Step(place, number, "F", FORWARD, time) for number, (place, time) in enumerate(times)]
    program = Program("there and back", "ms", places, steps, [(0, 1), (1, 2)], None, LONG)
    assert busiest(program) == 3.0
    assert pace(program) == 3.0
    # Rounds 0, 1, 2: the first device is at microbatch m + 2 when it sees m again.
    assert offsets(program).max(axis=1).tolist() == [0, 1, 2]
    simulation = simulate(program)
    assert simulation.period == 3.0
    # 0 and 1 go at 0 and 2; 0 is back at 2 + 2.5, and from then on one comes back before the next goes.
    first = [simulation.worked[0][step, :4].tolist() for step in (0, 2)]
    assert first == [[0.0, 2.0, 5.5, 8.5], [4.5, 7.5, 10.5, 13.5]]


def test_the_pace_is_that_of_the_busiest_stream(graphs: list[Program]) -> None:
    """Exactly, in the long run, however the graph is: never below it, and not above."""
    met: Counter[str] = Counter()
    for program in graphs:
        expected = busiest(program)
        if expected == 0:
            continue
        assert pace(program) == pytest.approx(expected, rel=SAME)
        period = simulate(program).period
        assert period is not None
        assert period == pytest.approx(expected, rel=SAME)
        met["returning" if returns(program) else "onward"] += 1
        met["replicas"] += any(place.instances > 1 for place in program.places)
    assert min(met["returning"], met["onward"], met["replicas"]) >= 50
    assert met["returning"] + met["onward"] >= 140


def test_no_pace_is_better_than_the_busiest_stream(graphs: list[Program]) -> None:
    """Of whole runs: all that it has to do, after nothing at all."""
    for program in graphs:
        assert simulate(program).step_time >= LONG * busiest(program) - SAME


def test_a_plain_order_does_not_keep_the_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Microbatch by microbatch, a device that is passed twice waits for the other: rounds are needed."""

    def one_by_one(
        units: list[tuple[int, int]], instance: int, instances: int, total: int
    ) -> tuple[np.ndarray, np.ndarray]:
        mine = np.arange(instance, total, instances)
        columns = np.array([column for _, column in sorted(units)])
        return np.tile(columns, len(mine)), np.repeat(mine, len(units))

    places = [Place("a", (("device:0",),)), Place("b", (("device:1",),))]
    times = ((0, 2.0), (1, 2.5), (0, 1.0))
    steps = [Step(place, number, "F", FORWARD, time) for number, (place, time) in enumerate(times)]
    program = Program("there and back", "ms", places, steps, [(0, 1), (1, 2)], None, LONG)
    monkeypatch.setattr("partita.simulator.builder.in_rounds", one_by_one)
    # 2 + 2.5 + 1, as if nothing overlapped.
    assert pace(program) == 5.5


def test_what_is_in_a_round_lies_behind_what_it_waits_for(graphs: list[Program]) -> None:
    """By as many rounds as the place has replicas at which the last part of the other one is."""
    edges = 0
    for program in graphs:
        depth = offsets(program)
        for source, target in program.edges:
            place = program.places[program.steps[source].place]
            first = min(offset for offset in depth[target].tolist() if offset >= 0)
            assert first >= depth[source].max() + place.instances
            edges += 1
        for number, step in enumerate(program.steps):
            parts = [offset for offset in depth[number].tolist() if offset >= 0]
            place = program.places[step.place]
            apart = 0 if place.streams == "sum" else place.instances
            assert [b - a for a, b in pairwise(parts)] == [apart] * (len(parts) - 1)
    assert edges >= 500


def test_the_order_of_a_stream() -> None:
    """Microbatch m of a unit is due in round m + offset; of what is due at once the deepest is first."""
    columns, microbatches = in_rounds([(0, 7), (2, 9)], 0, 1, 4)
    # Rounds 0 to 5: 0, 1, then 2 with 0 behind it, 3 with 1, and the rest.
    assert columns.tolist() == [7, 7, 9, 7, 9, 7, 9, 9]
    assert microbatches.tolist() == [0, 1, 0, 2, 1, 3, 2, 3]
    # The second of two instances has every other microbatch.
    assert in_rounds([(0, 7)], 1, 2, 5)[1].tolist() == [1, 3]


def test_lanes_and_edges_of_graphs(graphs: list[Program]) -> None:
    """Nothing overlaps, and what waits starts when what it waits for has ended."""
    checked = 0
    for program in graphs[:40]:
        ran = Ran(Program(**{**vars(program), "microbatches": 12}))
        for _, start, end in ran.lanes():
            assert (start[1:] >= end[:-1]).all()
        for source, target in program.edges:
            for microbatch in range(12):
                assert ran.begins(target, microbatch) >= ran.ends(source, microbatch)
                checked += 1
    assert checked >= 1000


def test_a_barrier_keeps_all_that_goes_back_behind_all_that_goes_forward() -> None:
    """Also in rounds, where both pass the same places."""
    rng = random.Random(2)
    checked = 0
    for _ in range(30):
        program = random_graph(rng, 12, links=False)
        back = [step for step in program.steps if step.stage % 2]
        steps = [Step(**{**vars(step), "letter": "B" if step in back else "F"}) for step in program.steps]
        # What goes back is behind what goes forward.
        edges = [(a, b) for a, b in program.edges if steps[a].letter == "F" or steps[b].letter == "B"]
        ran = Ran(Program(**{**vars(program), "steps": steps, "edges": edges, "barrier": True, "settles": False}))
        ahead = [ran.ends(s, m) for s, step in enumerate(steps) if step.letter == "F" for m in range(12)]
        behind = [ran.begins(s, m) for s, step in enumerate(steps) if step.letter == "B" for m in range(12)]
        if ahead and behind:
            assert min(behind) >= max(ahead)
            checked += 1
    assert checked >= 20


def test_far_is_further_than_any_graph_is_deep(graphs: list[Program]) -> None:
    """Steps behind a barrier get rounds that nothing before it has."""
    for program in graphs:
        most = max(3 * place.instances for place in program.places)
        assert int(offsets(program).max()) <= most * len(program.steps) < rounds._FAR * program.total


def test_rounds_have_no_end_of_a_batch() -> None:
    """Without orders there is no last action to wait for."""
    places = [Place("a", (("device:0",),))]
    program = Program(
        "end", "ms", places, [Step(0, 0, "F", FORWARD, 1.0)], [], None, 4, ends=[End(update=1.0)], settles=False
    )
    with pytest.raises(InputError, match="a program without orders has no end of a batch; leave its ends out"):
        simulate(program)
