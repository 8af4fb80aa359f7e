"""Random layer placements like the published ones: kinds of machines, regions with slow links between them.

The table of a machine follows from its memory and speed. With k layers of a model, of its memory for R layers R − k is
left for the cache of requests; so b = (R − k)/k requests of some size run at once, and a step of a layer takes 1 + b/s
units of time, s being its speed: it passes b/(k·(1 + b/s)) tokens in a unit. Measured tables are not as smooth:
a part of the numbers is drawn.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
import numpy as np

from partita.ground.checks import check_at_least
from partita.ground.errors import InputError
from partita.problems.kind import ProblemFamily
from partita.problems.layer_placement.problem import SINK, SOURCE, LayerMachine, LayerPlacementProblem, TokenLink
from partita.problems.settings import setting

#: Tokens per second of a machine of speed 1 with one layer that is never idle.
_UNIT = 1000.0
#: Layers' weights that the kinds' memory has room for, and their speeds.
_ROOM, _SPEED = (5, 22), (2.0, 24.0)
#: How far tables are off the formula, and links off their mean.
_ROUGH, _LINKS = 0.12, 0.1
#: Tokens per second of links inside a region.
_FAST = 60.0 * _UNIT


def random_layer_placement(
    seed: int,
    *,
    machines: int = 24,
    layers: int | None = None,
    kinds: int = 3,
    regions: int = 1,
    slow: float = 0.5,
    kept: float = 1.0,
    overlap: bool = False,
) -> LayerPlacementProblem:
    """A random problem; the settings of ``GENERATORS`` say what each number means.

    Raises ``InputError`` if a number is out of range.
    """
    check_at_least("the seed", seed, 0)
    for name, value in (("machines", machines), ("kinds", kinds), ("regions", regions)):
        check_at_least(name, value)
    if not (0 < slow < np.inf and 0 < kept <= 1):
        raise InputError(f"slow is {slow} and kept {kept}; the one must be finite and above 0, the other 0 to 1")
    rng = np.random.default_rng(seed)
    tables = [_table(rng) for _ in range(kinds)]
    kind = np.sort(rng.integers(kinds, size=machines))
    room = sum(max(tables[t]) for t in kind)
    # About two thirds of what fits: then machines pass a good part of what they can.
    count = max(1, round(0.65 * room)) if layers is None else layers
    region = rng.permutation(np.arange(machines) % regions)
    names = [str(i) for i in range(machines)]
    # Links between regions are measured by what a typical machine passes at its part of the layers.
    usual = float(np.median([_at(tables[t], max(tables[t]) * 0.65) for t in kind]))
    links = []
    for i in range(machines):
        for j in range(machines):
            near = region[i] == region[j]
            if i != j and (near or rng.random() < kept):
                mean = _FAST if near else slow * usual
                links.append(_link(names[i], names[j], mean * float(1 + _LINKS * rng.uniform(-1, 1))))
    fed = [i for i in range(machines) if rng.random() < kept] or [0]
    taken = [i for i in range(machines) if rng.random() < kept] or [machines - 1]
    links += [_link(SOURCE, names[i], 1e3 * _FAST) for i in fed] + [_link(names[i], SINK, 1e3 * _FAST) for i in taken]
    return LayerPlacementProblem(
        name=f"{machines} machines, {kinds} kinds, {regions} regions, seed {seed}",
        layers=count,
        machines=tuple(
            LayerMachine(name=names[i], type=f"kind {kind[i]}", tokens_per_s=tables[kind[i]]) for i in range(machines)
        ),
        links=tuple(links),
        overlap=overlap,
        notes=(f"made by `partita generate layer-placement`, seed {seed}",),
    )


def _link(source: str, target: str, rate: float) -> TokenLink:
    return TokenLink(source=source, target=target, tokens_per_s=round(rate, 3))


def _at(table: dict[int, float], layers: float) -> float:
    return table[max(1, min(max(table), round(layers)))]


def _table(rng: np.random.Generator) -> dict[int, float]:
    """Tokens per second by number of layers, for one kind of machine."""
    room, speed = int(rng.integers(*_ROOM)), float(rng.uniform(*_SPEED))
    found = {}
    for k in range(1, max(2, int(0.8 * room))):
        requests = (room - k) / k
        rough = 1 + _ROUGH * float(rng.uniform(-1, 1))
        found[k] = round(_UNIT * requests / (k * (1 + requests / speed)) * rough, 3)
    return found


class _RandomPlacement(msgspec.Struct, frozen=True, kw_only=True):
    seed: Annotated[int, setting("Same seed, same problem.", metavar="N", least=0)] = 0
    machines: Annotated[int, setting("Machines.", metavar="N", least=1)] = 24
    layers: Annotated[
        int | None, setting("Of the model; two thirds of what fits if not given.", metavar="N", least=1)
    ] = None
    kinds: Annotated[int, setting("Kinds of machines, of unlike memory and speed.", metavar="N", least=1)] = 3
    regions: Annotated[int, setting("Regions, between which links are slow.", metavar="N", least=1)] = 1
    slow: Annotated[
        float, setting("A link between regions by what a typical machine passes.", metavar="X", above=0)
    ] = 0.5
    kept: Annotated[
        float,
        setting(
            "Fraction of the links between regions, of source and of sink that there are.",
            metavar="X",
            above=0,
            most=1,
        ),
    ] = 1.0


GENERATORS = (
    ProblemFamily(
        "layer-placement",
        "Machines of unlike memory and speed that serve the layers of a model (docs/layer-placement.md).",
        _RandomPlacement,
        lambda settings: random_layer_placement(**msgspec.structs.asdict(settings)),
    ),
)
