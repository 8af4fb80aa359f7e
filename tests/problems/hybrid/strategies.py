"""Random small hybrid problems."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from partita.problems.hybrid.layer import Configuration, Edge, Layer
from partita.problems.hybrid.problem import Hierarchy, HybridProblem


@st.composite
def hybrid_problems(draw: Any, max_layers: int = 5, max_devices: int = 6) -> HybridProblem:
    """Layers in any order, random degrees, options that differ in memory only or in everything, all kinds of limits."""
    count = draw(st.integers(1, max_layers))
    ids = draw(st.permutations(range(count)))
    pairs = [(a, b) for a in range(count) for b in range(a + 1, count)]
    linked = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=7)) if pairs else []
    edges = tuple(Edge(source=ids[a], target=ids[b], bytes=draw(st.integers(0, 6))) for a, b in linked)
    before = {v: [e.source for e in edges if e.target == v] for v in range(count)}
    after = {v: [e.target for e in edges if e.source == v] for v in range(count)}
    # Options of one layer and degree share weights and synchronisation in published files; both cases are exact.
    shared = draw(st.booleans())
    # Memory that replicas share out: none in published files, the same for all options of a degree in models.
    sharding = draw(st.sampled_from(("none", "none", "alike", "any")))
    amount = st.integers(0, 5)

    def tables(v: int) -> dict[str, Any]:
        return {
            "weight_bytes": draw(amount),
            "sync_in_bytes": {u: draw(amount) for u in before[v] if draw(st.booleans())},
            "sync_out_bytes": {u: draw(amount) for u in after[v] if draw(st.booleans())},
        }

    def options(v: int, degree: int) -> tuple[Configuration, ...]:
        common = tables(v)
        alike = draw(amount) if sharding == "alike" else 0
        return tuple(
            Configuration(
                id=f"{degree}.{number}",
                time=draw(st.integers(0, 12)),
                memory_per_microbatch_bytes=draw(amount),
                memory_bytes=draw(amount),
                sharded_bytes=draw(amount) * 2 if sharding == "any" else alike * 2,
                **(common if shared else tables(v)),
            )
            for number in range(draw(st.integers(1, 3)))
        )

    layers = []
    twins = draw(st.booleans())
    for v in range(count):
        degrees = draw(st.lists(st.sampled_from((1, 1, 2, 3)), min_size=1, max_size=2, unique=True))
        table = {degree: options(v, degree) for degree in degrees}
        if twins and layers and shared:
            # Layers alike, as in real models: their choices are interchangeable.
            first = layers[0].configurations
            table = {
                t: tuple(
                    Configuration(
                        id=c.id,
                        time=c.time,
                        weight_bytes=c.weight_bytes,
                        memory_per_microbatch_bytes=c.memory_per_microbatch_bytes,
                        memory_bytes=c.memory_bytes,
                        sharded_bytes=c.sharded_bytes,
                    )
                    for c in row
                )
                for t, row in first.items()
            }
        layers.append(Layer(id=v, configurations=table))
    return HybridProblem(
        name="random",
        devices=draw(st.integers(1, max_devices)),
        memory_bytes=draw(st.one_of(st.none(), st.integers(1, 60))),
        bandwidth_bytes_per_unit=draw(st.sampled_from((0.5, 1.0, 4.0))),
        microbatches=draw(st.integers(1, max_devices)),
        layers=tuple(layers),
        edges=edges,
        weight_sync_per_batch=draw(st.booleans()),
    )


@st.composite
def machine_problems(draw: Any, max_layers: int = 4, max_devices: int = 6) -> HybridProblem:
    """The same on machines of one to four devices, with whole weights given or not."""
    problem: HybridProblem = draw(hybrid_problems(max_layers, max_devices))
    size = draw(st.integers(1, 4))
    layers = tuple(
        Layer(
            id=layer.id,
            configurations=layer.configurations,
            weight_bytes=draw(st.one_of(st.none(), st.integers(0, 5))),
        )
        for layer in problem.layers
    )
    return problem.replace(
        layers=layers,
        devices=max(1, problem.devices // size) * size,
        microbatches=draw(st.integers(1, 2 * max_devices)),
        hierarchy=Hierarchy(
            devices_per_machine=size, machine_bandwidth_bytes_per_unit=draw(st.sampled_from((0.5, 1.0, 4.0, 1e6)))
        ),
    )
