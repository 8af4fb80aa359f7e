"""Small layer placements that between them reach every compiled loop."""

from __future__ import annotations

from partita.problems.layer_placement.problem import (
    SINK,
    SOURCE,
    LayerMachine,
    LayerPlacementProblem,
    PublishedFlow,
    TokenLink,
)


def _problem(
    name: str, layers: int, tables: list[dict[int, float]], slow: float, *, overlap: bool = False
) -> LayerPlacementProblem:
    """Machines by turns in two regions, between which links are slow; the source and the sink are everywhere."""
    names = [f"m{i}" for i in range(len(tables))]
    links = [
        TokenLink(source=a, target=b, tokens_per_s=64.0 if (i - j) % 2 == 0 else slow)
        for i, a in enumerate(names)
        for j, b in enumerate(names)
        if i != j
    ]
    ends = [TokenLink(source=SOURCE, target=a, tokens_per_s=64.0) for a in names]
    ends += [TokenLink(source=a, target=SINK, tokens_per_s=64.0) for a in names]
    return LayerPlacementProblem(
        name=name,
        layers=layers,
        machines=tuple(LayerMachine(name=a, tokens_per_s=table) for a, table in zip(names, tables, strict=True)),
        links=(*ends, *links),
        overlap=overlap,
    )


_LARGE, _SMALL = {1: 12.0, 2: 6.0, 3: 4.0, 4: 2.5}, {1: 5.0, 2: 2.0}

#: Three machines for four layers.
THREE = _problem("three machines", 4, [_LARGE, _SMALL, _SMALL], 8.0)

#: The same, where one machine's links carry less than it passes, so that two stand side by side.
SLOW_LINKS = _problem("slow links", 6, [_LARGE, _LARGE, _SMALL, _SMALL], 1.5)

#: Where tokens may enter a machine in the middle of its layers.
OVERLAP = _problem("overlap", 4, [_LARGE, _SMALL, _SMALL], 8.0, overlap=True)

#: Tokens served count, in a run of six requests.
SERVED = THREE.replace(
    worth="served", output_tokens=4, layer_requests=3, run_requests=6, published=PublishedFlow(objective=5.0)
)

SAMPLES = ((THREE, SLOW_LINKS, OVERLAP, SERVED),)
