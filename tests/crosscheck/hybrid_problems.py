"""Hybrid instances for the cross-check: endless streams and steps, machines and kinds of devices, hard numbers.

Numbers of an instance come from few pools, each with another way to go wrong; limits on memory are what some plan needs
exactly, a share of a billionth more or less, or plain. Instances are small enough for everything to be tried unless
their family says otherwise.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from partita.problems.hybrid.layer import Configuration, ContextExpertLayers, Edge, Layer
from partita.problems.hybrid.problem import Hierarchy, HybridProblem
from partita.problems.hybrid.training import SCHEDULES, LayerState, StageLimits, Training

__all__ = ["FAMILIES", "problems"]

#: Names of configurations, as recipes know them.
WAYS = ("none", "selective", "full")

#: Pools of numbers: sums that tie, vanish, round, or swallow each other.
POOLS: dict[str, Callable[[random.Random], float]] = {
    "ties": lambda rng: float(rng.choice((1, 1, 2))),
    "zeros": lambda rng: float(rng.choice((0, 0, 0, 1, 3))),
    "nothing": lambda rng: 0.0,
    "whole": lambda rng: float(rng.randint(1, 12)),
    "tenths": lambda rng: rng.randint(0, 30) / 10,
    "thirds": lambda rng: rng.randint(1, 20) / 3,
    "smooth": lambda rng: rng.random(),
    "wide": lambda rng: 10.0 ** rng.uniform(-6.0, 6.0),
    "extreme": lambda rng: rng.choice((0.0, 1e-6, 1.0, 1e6)),
    "one large": lambda rng: _odd(rng, rng.choice((1e9, 1e12))),
    "one small": lambda rng: _odd(rng, rng.choice((1e-9, 1e-12))),
}


def _odd(rng: random.Random, factor: float) -> float:
    """Mostly a number of the usual size."""
    return factor * rng.random() if rng.random() < 0.3 else rng.randint(1, 20) / 10


@dataclass(frozen=True)
class Draws:
    """The pools of one instance: times, bytes of memory, bytes that travel, what is exchanged once."""

    rng: random.Random
    time: Callable[[], float]
    memory: Callable[[], float]
    moved: Callable[[], float]
    update: Callable[[], float]

    @classmethod
    def of(cls, rng: random.Random) -> Draws:
        """Any pools."""

        def pool() -> Callable[[], float]:
            draw = POOLS[rng.choice(list(POOLS))]
            return lambda: draw(rng)

        return cls(rng, pool(), pool(), pool(), pool())

    def forward(self, time: float) -> float | None:
        """Of a time what is forward; none of it, all, any part, or nothing said."""
        return self.rng.choice((None, None, 0.0, time, time * self.rng.random()))


def _edges(rng: random.Random, count: int, draws: Draws) -> tuple[Edge, ...]:
    """A row, a row with skips, or any graph, over numbers in any order."""
    ids = rng.sample(range(count), count) if rng.random() < 0.5 else list(range(count))
    shape, pairs = rng.random(), list(itertools.combinations(range(count), 2))
    if shape < 0.6:
        linked = [pair for pair in pairs if pair[1] == pair[0] + 1 or (shape < 0.15 and rng.random() < 0.4)]
    else:
        linked = [pair for pair in pairs if rng.random() < 0.4]
    return tuple(Edge(source=ids[a], target=ids[b], bytes=draws.moved()) for a, b in linked)


def _choices(draws: Draws, *, shared: bool, neighbours: tuple[list[int], list[int]]) -> tuple[Configuration, ...]:
    """Ways to run a layer at one degree; with ``shared`` they differ in time and memory only."""
    rng = draws.rng

    def common() -> dict[str, object]:
        return {
            "weight_bytes": draws.moved(),
            "sync_in_bytes": {u: draws.moved() for u in neighbours[0] if rng.random() < 0.3},
            "sync_out_bytes": {u: draws.moved() for u in neighbours[1] if rng.random() < 0.3},
            "sharded_bytes": draws.memory() if rng.random() < 0.3 else 0.0,
        }

    first, found = common(), []
    for way in WAYS[: rng.randint(1, 3)]:
        time = draws.time()
        found.append(
            Configuration(
                id=way,
                time=time,
                forward_time=draws.forward(time),
                memory_per_microbatch_bytes=rng.choice((0.0, draws.memory())),
                memory_bytes=rng.choice((0.0, draws.memory())),
                **(first if shared else common()),
            )
        )
    return tuple(found)


def _layers(rng: random.Random, count: int, edges: tuple[Edge, ...], draws: Draws) -> tuple[Layer, ...]:
    """Layers of their own, or alike: then all have the same choices."""
    degrees = rng.choice(((1,), (1,), (1, 2), (2,), (1, 3), (2, 3)))
    shared, alike = rng.random() < 0.6, rng.random() < 0.3
    spaces: dict[int, tuple[Configuration, ...]] = {}
    layers = []
    for v in range(count):
        neighbours = ([e.source for e in edges if e.target == v], [e.target for e in edges if e.source == v])
        kept = degrees if rng.random() < 0.8 else rng.sample(degrees, 1)
        if not alike:
            spaces = {t: _choices(draws, shared=shared, neighbours=neighbours) for t in kept}
        elif not spaces:
            spaces = {t: _choices(draws, shared=True, neighbours=([], [])) for t in degrees}
        whole = draws.moved() if rng.random() < 0.3 else None
        layers.append(Layer(id=v, configurations=spaces, weight_bytes=whole))
    return tuple(layers)


def _limit(rng: random.Random, layers: tuple[Layer, ...]) -> float | None:
    """What some layers with some choices and some microbatches in flight need, or nearly, or none."""
    if rng.random() < 0.2:
        return None
    held = [
        choice.held_bytes(rng.randint(1, 3), rng.randint(1, 2))
        for layer in rng.sample(layers, rng.randint(1, len(layers)))
        for choice in rng.sample(rng.choice([row for row in layer.configurations.values() if row]), 1)
    ]
    state = [s.parameter_bytes + s.gradient_bytes + s.optimizer_bytes for v in layers for s in v.states.values()]
    held += rng.sample(state, min(len(state), rng.randint(0, 3)))
    near = rng.choice((1.0, 1.0, 1.0, 1.5, 1 - 1e-9, 1 - 4e-10, 1 - 8e-10, 1 - 1e-12, 1 - 1.1e-9, 1 + 1e-12))
    # Nothing holds something only if nothing needs anything.
    return sum(held) * near


def _steady(rng: random.Random, most: int) -> HybridProblem:
    draws, count = Draws.of(rng), rng.randint(1, most)
    edges = _edges(rng, count, draws)
    layers = _layers(rng, count, edges, draws)
    return HybridProblem(
        name="drawn",
        unit="s",
        devices=rng.randint(1, 4),
        memory_bytes=_limit(rng, layers),
        bandwidth_bytes_per_unit=rng.choice((0.5, 1.0, 3.0, 1000.0, 1e9)),
        microbatches=rng.randint(1, 5),
        layers=layers,
        edges=edges,
        weight_sync_per_batch=rng.random() < 0.4,
    )


def _on_machines(rng: random.Random, problem: HybridProblem) -> HybridProblem:
    size = rng.randint(1, 3)
    return problem.replace(
        devices=size * rng.randint(1, 3),
        hierarchy=Hierarchy(devices_per_machine=size, machine_bandwidth_bytes_per_unit=rng.choice((0.5, 2.0, 1e6))),
    )


def steady(rng: random.Random) -> HybridProblem:
    """An endless stream on one level of links."""
    return _steady(rng, 4)


def machines(rng: random.Random) -> HybridProblem:
    """An endless stream on machines."""
    return _on_machines(rng, _steady(rng, 3))


def many_layers(rng: random.Random) -> HybridProblem:
    """An endless stream of more layers than can be tried, some of them alike."""
    problem = _steady(rng, 10).replace(devices=rng.randint(1, 12), microbatches=rng.choice((2, 4, 8, 12)))
    return _on_machines(rng, problem) if rng.random() < 0.3 else problem


def _state(draws: Draws, *, experts: bool = False) -> LayerState:
    rng = draws.rng
    return LayerState(
        parameter_bytes=rng.choice((0.0, draws.memory())),
        gradient_bytes=rng.choice((0.0, draws.memory())),
        optimizer_bytes=rng.choice((0.0, draws.memory())),
        update_time=rng.choice((0.0, draws.update())),
        weight_gradient_time=rng.choice((None, 0.0, draws.time())),
        experts=_state(draws) if experts else None,
    )


def _of_step(layers: tuple[Layer, ...], draws: Draws, *, experts: bool = False) -> tuple[Layer, ...]:
    """The same layers with states; their choices of one degree share synchronisation."""
    found, known = [], {}
    for layer in layers:
        key = id(layer.configurations)
        if key not in known:
            spaces = {
                t: tuple(
                    msgspec.structs.replace(
                        choice, sync_in_bytes=row[0].sync_in_bytes, sync_out_bytes=row[0].sync_out_bytes
                    )
                    for choice in row
                )
                for t, row in layer.configurations.items()
            }
            states = {t: _state(draws, experts=experts) for t in spaces if draws.rng.random() < 0.9}
            known[key] = spaces, states
        spaces, states = known[key]
        found.append(msgspec.structs.replace(layer, configurations=spaces, states=states))
    return tuple(found)


def _training(rng: random.Random, draws: Draws, mesh: str) -> Training:
    return Training(
        schedules=tuple(rng.sample(SCHEDULES, rng.randint(1, 3))),
        zero=tuple(rng.sample((0, 1, 2, 3), rng.randint(1, 3))),
        zero_shards=(0,) if mesh == "free" else rng.choice(((0,), (0,), (0, 2), (2,), (0, 3), (0, 2, 4))),
        mesh=mesh,
        overlap=rng.random() < 0.6,
        occupied=rng.choice((0.0, 0.2, 1.0)),
        call_times=(rng.choice((0.0, draws.update())), rng.choice((0.0, 0.5))),
        hop_times=(rng.choice((0.0, draws.update())), rng.choice((0.0, 0.25))),
        switched=(rng.random() < 0.5, rng.random() < 0.5),
        reserves={1: rng.choice((0.0, draws.memory()))},
    )


def _step(rng: random.Random, most: int, mesh: str) -> HybridProblem:
    draws, count = Draws.of(rng), rng.randint(1, most)
    edges = _edges(rng, count, draws)
    layers = _of_step(_layers(rng, count, edges, draws), draws)
    problem = HybridProblem(
        name="drawn",
        unit="s",
        devices=rng.randint(1, 4),
        memory_bytes=_limit(rng, layers),
        bandwidth_bytes_per_unit=rng.choice((0.5, 1.0, 3.0, 1000.0, 1e9)),
        microbatches=rng.choice((1, 2, 3, 4, 6, 8)),
        layers=layers,
        edges=edges,
        training=_training(rng, draws, mesh),
    )
    problem = _dealt_out_in_a_row(problem)
    if rng.random() < 0.5:
        problem = _on_machines(rng, problem)
    return _limited(rng, problem) if rng.random() < 0.3 else problem


def _dealt_out_in_a_row(problem: HybridProblem) -> HybridProblem:
    """Without interleaved schedules where layers are free to change places: they deal out layers in their order."""
    training, order = problem.training, [problem.layers[place].id for place in problem.order()]
    assert training is not None
    if set(itertools.pairwise(order)) <= {(edge.source, edge.target) for edge in problem.edges}:
        return problem
    kept = tuple(name for name in training.schedules if name != "interleaved") or ("1f1b",)
    return problem.replace(training=msgspec.structs.replace(training, schedules=kept))


def _limited(rng: random.Random, problem: HybridProblem) -> HybridProblem:
    """With layers that share a stage, or hand over to the next one at most."""
    order = [problem.layers[place].id for place in problem.order()]
    pairs = list(itertools.combinations(order, 2))
    if not pairs or problem.training is None:
        return problem
    limits = StageLimits(
        together=tuple(rng.sample(pairs, rng.randint(0, 1))), handed=tuple(rng.sample(pairs, rng.randint(0, 1)))
    )
    return problem.replace(training=msgspec.structs.replace(problem.training, limits=limits))


def steps(rng: random.Random) -> HybridProblem:
    """A step whose stages all have the same degrees."""
    return _step(rng, 4, "uniform")


def blocks(rng: random.Random) -> HybridProblem:
    """A step of equal blocks, which interleaved schedules deal out."""
    draws, count = Draws.of(rng), rng.choice((4, 4, 6))
    space = _choices(draws, shared=True, neighbours=([], []))[:2]
    layer = Layer(id=0, configurations={1: space}, states={1: _state(draws)})
    layers = tuple(msgspec.structs.replace(layer, id=v) for v in range(count))
    training = _training(rng, draws, "uniform")
    return HybridProblem(
        name="drawn",
        unit="s",
        devices=rng.randint(2, 4),
        memory_bytes=_limit(rng, layers),
        bandwidth_bytes_per_unit=rng.choice((1.0, 1000.0)),
        microbatches=rng.choice((2, 4, 6)),
        layers=layers,
        edges=tuple(Edge(source=v, target=v + 1, bytes=draws.moved()) for v in range(count - 1)),
        training=msgspec.structs.replace(training, schedules=("interleaved", rng.choice(("1f1b", "zero-bubble")))),
    )


def spreads(rng: random.Random) -> HybridProblem:
    """A step whose devices may share out sequences and experts, at other costs and degrees of every layer."""
    problem, draws = _step(rng, 3, rng.choice(("uniform", "uniform", "free"))), Draws.of(rng)
    assert problem.training is not None
    contexts = tuple(rng.sample((1, 2, 3), rng.randint(1, 2)))
    experts = tuple(rng.sample((1, 2, 3), rng.randint(1, 2)))
    widths = rng.choice(((0,), (0,), (1,), (0, 2), (0, 1)))
    found = []
    for context, expert, width in itertools.product(contexts, experts, widths):
        if (context, expert, width) == (1, 1, 0):
            continue
        apart = expert > 1 or width > 0
        layers = _of_step(_layers(rng, len(problem.layers), problem.edges, draws), draws, experts=apart)
        of = {layer.id: layer for layer in layers}
        reserves = {1: rng.choice((0.0, draws.memory()))}
        found.append(
            ContextExpertLayers(
                context=context,
                expert=expert,
                expert_tensor=width,
                layers=tuple(of[layer.id] for layer in problem.layers),
                reserves=reserves,
            )
        )
    training = msgspec.structs.replace(problem.training, context=contexts, expert=experts, expert_tensor=widths)
    return problem.replace(training=training, spreads=tuple(found))


def rows(rng: random.Random) -> HybridProblem:
    """A step whose stages have degrees of their own."""
    return _step(rng, 3, "free")


def kinds(rng: random.Random) -> HybridProblem:
    """A step on two kinds of devices, with degrees of their own or not."""
    first = _step(rng, 3, rng.choice(("uniform", "free")))
    assert first.training is not None
    # Of several kinds all replicas share out.
    first = first.replace(training=msgspec.structs.replace(first.training, zero_shards=(0,)))
    assert first.training is not None
    draws = Draws.of(rng)
    if rng.random() < 0.5:
        layers = first.layers
    else:
        layers = _of_step(_layers(rng, len(first.layers), first.edges, draws), draws)
    machine = rng.choice((1, 2))
    training = msgspec.structs.replace(
        first.training,
        call_times=(rng.choice((0.0, draws.update())), rng.choice((0.0, 0.5))),
        reserves={1: rng.choice((0.0, draws.memory()))},
    )
    second = msgspec.structs.replace(
        first,
        device="second",
        devices=machine * rng.choice((1, 2)),
        memory_bytes=rng.choice((_limit(rng, layers), first.memory_bytes, None)),
        bandwidth_bytes_per_unit=rng.choice((1.0, 1000.0)),
        hierarchy=Hierarchy(devices_per_machine=machine, machine_bandwidth_bytes_per_unit=rng.choice((0.5, 2.0))),
        layers=layers,
        training=training,
    )
    return first.replace(device="first", devices=first.devices, others=(second,))


def many_steps(rng: random.Random) -> HybridProblem:
    """A step of more layers, devices and choices than can be tried."""
    problem = _step(rng, 8, rng.choice(("uniform", "uniform", "free")))
    size = problem.devices_per_machine
    return problem.replace(devices=size * rng.randint(1, 3), microbatches=rng.choice((2, 4, 8, 12)))


FAMILIES: dict[str, Callable[[random.Random], HybridProblem]] = {
    "steady": steady,
    "machines": machines,
    "many layers": many_layers,
    "steps": steps,
    "blocks": blocks,
    "spreads": spreads,
    "rows": rows,
    "kinds": kinds,
    "many steps": many_steps,
}


def problems(rng: random.Random) -> HybridProblem:
    """One of any family."""
    return FAMILIES[rng.choice(list(FAMILIES))](rng)
