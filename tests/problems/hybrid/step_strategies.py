"""Random small problems about a step."""

from __future__ import annotations

import itertools
import math
import random

import msgspec
from hypothesis import strategies as st

from partita.problems.hybrid.layer import Configuration, ContextExpertLayers, Edge, Layer
from partita.problems.hybrid.problem import Hierarchy, HybridProblem
from partita.problems.hybrid.training import SCHEDULES, LayerState, StageLimits, Training

#: Names of configurations, as recipes know them.
WAYS = ("none", "selective", "full")


def step_problems(max_layers: int = 4) -> st.SearchStrategy[HybridProblem]:
    """Layers in a row, under any schedules."""
    schedules = st.lists(st.sampled_from(SCHEDULES), min_size=1, max_size=2, unique=True)
    return st.builds(
        lambda seed, names: random_step(seed, tuple(names), in_a_row=True, most=max_layers),
        st.integers(0, 10_000),
        schedules,
    )


def spread_step(seed: int, schedules: tuple[str, ...], *, folds: bool = False) -> HybridProblem:
    """The same, where devices may share out sequences and experts at a cost of its own for every layer.

    If it ``folds`` experts may have groups of other sizes than the tensor-parallel ones.
    """
    problem, draw = random_step(seed, schedules, most=4), random.Random(-seed)
    training = problem.training
    assert training is not None
    contexts = tuple(sorted(draw.sample((1, 2, 3), draw.randint(1, 2))))
    experts = tuple(sorted(draw.sample((1, 2, 4), draw.randint(1, 2))))
    widths = draw.choice(((1,), (0, 1), (0, 2), (2,), (0, 1, 2))) if folds else (0,)
    spreads = tuple(
        ContextExpertLayers(
            context=c,
            expert=e,
            expert_tensor=x,
            layers=tuple(_spread_layer(layer, c, e, draw, apart=x > 0) for layer in problem.layers),
            reserves={1: draw.choice((0.0, 1.0))},
        )
        for c in contexts
        for e in experts
        for x in widths
        if (c, e, x) != (1, 1, 0)
    )
    training = msgspec.structs.replace(training, context=contexts, expert=experts, expert_tensor=widths)
    return problem.replace(training=training, spreads=spreads, devices=problem.devices)


def sharded_step(seed: int, schedules: tuple[str, ...], *, spread: bool = False) -> HybridProblem:
    """The same, where groups of the same weights may share out among some what others hold, too."""
    problem = spread_step(seed, schedules, folds=True) if spread else random_step(seed, schedules, most=4)
    draw, training = random.Random(seed + 1), problem.training
    assert training is not None
    zero = tuple(sorted(draw.sample((0, 1, 2, 3), draw.randint(1, 2))))
    shards = draw.choice(((0, 2), (2,), (0, 2, 4), (3, 2), (0, 4)))
    return problem.replace(training=msgspec.structs.replace(training, zero=zero, zero_shards=shards))


def _spread_layer(layer: Layer, c: int, e: int, draw: random.Random, *, apart: bool) -> Layer:
    less, more = draw.choice((1.0, 1.0 / c)), draw.choice((0.0, 0.5, 2.0)) if c * e > 1 or apart else 0.0
    return msgspec.structs.replace(
        layer,
        configurations={
            t: tuple(
                msgspec.structs.replace(
                    choice,
                    time=choice.time * less + more,
                    forward_time=None if choice.forward_time is None else choice.forward_time * less,
                    memory_per_microbatch_bytes=choice.memory_per_microbatch_bytes * less,
                )
                for choice in row
            )
            for t, row in layer.configurations.items()
        },
        states={
            t: msgspec.structs.replace(
                state,
                optimizer_bytes=state.optimizer_bytes / e,
                experts=None
                if e == 1 and not apart
                else LayerState(
                    parameter_bytes=draw.randint(0, 3),
                    gradient_bytes=draw.randint(0, 3),
                    optimizer_bytes=draw.randint(0, 6),
                    update_time=draw.choice((0.0, 0.5)),
                ),
            )
            for t, state in layer.states.items()
        },
    )


def random_step(seed: int, schedules: tuple[str, ...], *, in_a_row: bool = False, most: int = 6) -> HybridProblem:
    """Layers in a row or any graph, alike or not, with a choice of memory and exchanges between replicas."""
    draw = random.Random(seed)
    interleaved = "interleaved" in schedules
    count = min(most, draw.choice((4, 4, 6)) if interleaved else draw.randint(1, 5))
    alike, chain = draw.random() < (0.8 if interleaved else 0.4), draw.random() < 0.6 or in_a_row
    pairs = [(a, b) for a in range(count) for b in range(a + 1, count)]
    linked = [(a, a + 1) for a in range(count - 1)] if chain else [pair for pair in pairs if draw.random() < 0.5]
    ids = list(range(count))
    if not chain:
        draw.shuffle(ids)
    edges = tuple(Edge(source=ids[a], target=ids[b], bytes=draw.randint(0, 6)) for a, b in linked)
    degrees = draw.sample((1, 2, 3), draw.randint(1, 2)) if draw.random() < 0.6 else [1]

    def space() -> dict[int, list[tuple[float, float, float, float]]]:
        found = {}
        for t in degrees:
            rows, time, active = [], draw.randint(1, 12), draw.randint(0, 6)
            forward = draw.choice((None, draw.randint(0, time)))
            for _ in range(draw.randint(1, 2 if interleaved else 3)):
                rows.append((time, active, draw.randint(0, 2), forward))
                time, active = time + draw.randint(0, 4), draw.randint(0, 6)
            found[t] = rows
        return found

    def state() -> LayerState:
        return LayerState(
            parameter_bytes=draw.randint(0, 4),
            gradient_bytes=draw.randint(0, 4),
            optimizer_bytes=draw.randint(0, 9),
            update_time=draw.choice((0.0, 0.5, 3.0)),
            weight_gradient_time=draw.choice((None, 0.0, 1.0, 5.0)),
        )

    spaces, states = space(), {t: state() for t in degrees}
    layers = []
    for v in range(count):
        if not alike or v == 0:
            spaces, states = space(), {t: state() for t in degrees}
        into = {e.source: draw.randint(0, 3) for e in edges if e.target == v and draw.random() < 0.3}
        out = {e.target: draw.randint(0, 3) for e in edges if e.source == v and draw.random() < 0.3}
        layers.append(
            Layer(
                id=v,
                configurations={
                    t: tuple(
                        Configuration(
                            id=WAYS[k],
                            time=time,
                            memory_per_microbatch_bytes=active,
                            memory_bytes=fixed,
                            forward_time=forward,
                            sync_in_bytes=into,
                            sync_out_bytes=out,
                        )
                        for k, (time, active, fixed, forward) in enumerate(rows)
                    )
                    for t, rows in spaces.items()
                },
                states=states,
            )
        )
    size = draw.choice((None, 1, 2, 4))
    devices = draw.randint(1, 8)
    hierarchy = None
    if size is not None and devices >= size:
        devices = devices // size * size
        hierarchy = Hierarchy(devices_per_machine=size, machine_bandwidth_bytes_per_unit=draw.choice((0.5, 2.0, 8.0)))
    return HybridProblem(
        name=f"random {seed}",
        devices=devices,
        memory_bytes=draw.choice((None, draw.randint(10, 90), draw.randint(10, 50))),
        bandwidth_bytes_per_unit=draw.choice((0.5, 1.0, 4.0)),
        # Primes leave no replicas, so that pipelines are needed.
        microbatches=draw.choice((1, 2, 4, 6, 8, 12, 6, 12, 8) if interleaved else (1, 2, 4, 8, 12, 7, 11, 13, 17)),
        layers=tuple(layers),
        edges=edges,
        hierarchy=hierarchy,
        training=Training(
            schedules=schedules,
            zero=tuple(sorted(draw.sample((0, 1, 2, 3), draw.randint(1, 2)))),
            overlap=draw.random() < 0.7,
            occupied=draw.choice((0.0, 0.25)),
            call_times=(draw.choice((0.0, 0.25)), draw.choice((0.0, 0.5))),
            hop_times=(draw.choice((0.0, 0.125)), 0.25),
            switched=(draw.random() < 0.5, draw.random() < 0.5),
            reserves={1: draw.choice((0.0, 2.0))},
        ),
    )


def limited(problem: HybridProblem, seed: int) -> HybridProblem:
    """A problem whose stages have something to keep, in two of three cases in a row."""
    assert problem.training is not None
    draw = random.Random(seed)
    order = [problem.layers[place].id for place in problem.order()]
    known = {(edge.source, edge.target) for edge in problem.edges}
    row = [pair for pair in itertools.pairwise(order) if pair not in known] if draw.random() < 0.7 else []
    pairs = list(itertools.combinations(order, 2))
    some = draw.sample(pairs, min(len(pairs), draw.randint(0, 2)))
    limits = StageLimits(
        together=tuple(draw.sample(pairs, min(len(pairs), draw.randint(0, 1)))),
        handed=tuple(some),
    )
    return problem.replace(
        edges=(*problem.edges, *(Edge(source=a, target=b, bytes=0.0) for a, b in row)),
        training=msgspec.structs.replace(problem.training, limits=limits),
    )


def random_mixed(seed: int, schedules: tuple[str, ...], kinds: int = 2, mesh: str = "uniform") -> HybridProblem:
    """A model on a few devices of several kinds, each with its own times, memory and links."""
    draw = random.Random(seed)
    base = random_step(seed, schedules, in_a_row=draw.random() < 0.8, most=3)
    assert base.training is not None
    found = []
    for number in range(kinds):
        slower, narrower = draw.choice((1.0, 1.0, 2.5)), draw.choice((1.0, 0.5))
        layers = tuple(
            msgspec.structs.replace(
                layer,
                configurations={
                    t: tuple(
                        msgspec.structs.replace(
                            c,
                            time=c.time * slower,
                            forward_time=None if c.forward_time is None else c.forward_time * slower,
                        )
                        for c in row
                    )
                    for t, row in layer.configurations.items()
                },
            )
            for layer in base.layers
        )
        training = msgspec.structs.replace(
            base.training, mesh=mesh, call_times=(draw.choice((0.0, 0.25)), draw.choice((0.0, 0.5)))
        )
        machine = draw.choice((1, 2))
        found.append(
            base.replace(
                name=f"kind {number}",
                device=f"kind {number}",
                devices=machine * draw.choice((1, 2)),
                memory_bytes=draw.choice((math.inf, draw.randint(10, 60))),
                bandwidth_bytes_per_unit=base.bandwidth_bytes_per_unit * narrower,
                hierarchy=Hierarchy(
                    devices_per_machine=machine, machine_bandwidth_bytes_per_unit=draw.choice((0.5, 2.0, 8.0))
                ),
                layers=layers,
                training=training,
            )
        )
    return found[0].replace(name=f"mixed {seed}", others=tuple(found[1:]))


def in_threes(problem: HybridProblem) -> HybridProblem:
    """The problem on two machines of three devices, which groups of two do not fill."""
    return problem.replace(devices=6, hierarchy=Hierarchy(devices_per_machine=3, machine_bandwidth_bytes_per_unit=2.0))


def random_row_problem(seed: int, schedules: tuple[str, ...]) -> HybridProblem:
    """A few layers on a few devices, with degrees of each stage's own."""
    problem = random_step(seed, schedules, most=3)
    assert problem.training is not None
    size = 1 if problem.hierarchy is None else problem.hierarchy.devices_per_machine
    return problem.replace(
        devices=min(problem.devices, 4 // size * size),
        training=msgspec.structs.replace(problem.training, mesh="free"),
    )


def row_problems() -> st.SearchStrategy[HybridProblem]:
    """Layers on devices of one kind, with degrees of each stage's own."""
    return st.builds(random_row_problem, st.integers(0, 10_000), st.sampled_from([("1f1b",), ("gpipe",)]))


def mixed_problems() -> st.SearchStrategy[HybridProblem]:
    """Layers on devices of two kinds."""
    return st.builds(random_mixed, st.integers(0, 10_000), st.sampled_from([("1f1b",), ("gpipe",)]))
