"""The families of topologies that can be asked for by name."""

import re
from collections.abc import Iterable

from partita.ground.registry import Shelf
from partita.nouns.topology.generators.dragonfly import DRAGONFLY
from partita.nouns.topology.generators.fat_tree import FAT_TREE
from partita.nouns.topology.generators.generator import TopologyGenerator
from partita.nouns.topology.generators.grid import MESH, TORUS
from partita.nouns.topology.generators.machines import (
    DGX1,
    DGX_A100,
    DGX_H100,
    FLAT,
    GB200_NVL72,
    GB300_NVL72,
    TWO_LEVEL,
)
from partita.nouns.topology.generators.random_bandwidths import RANDOM_BLOCKS_1, RANDOM_BLOCKS_2, UNIFORM

#: In the order of listings.
GENERATORS: tuple[TopologyGenerator, ...] = (
    FLAT,
    TWO_LEVEL,
    DGX1,
    DGX_A100,
    DGX_H100,
    GB200_NVL72,
    GB300_NVL72,
    MESH,
    TORUS,
    FAT_TREE,
    DRAGONFLY,
    RANDOM_BLOCKS_1,
    RANDOM_BLOCKS_2,
    UNIFORM,
)


class _Families(Shelf[TopologyGenerator]):
    """The families, by all their names."""

    def named(self, component: TopologyGenerator) -> Iterable[str]:
        return filter(None, (component.name, component.alias))

    def unfit(self, component: TopologyGenerator) -> str:
        for name in self.named(component):
            if not re.fullmatch(r"[a-z][a-z0-9-]*", name):
                return f"{name!r} cannot be written in a short form; use small letters, digits and hyphens"
        return ""


#: Those of the list and those that were added.
FAMILIES = _Families("topology", TopologyGenerator, lambda: GENERATORS, ("name", "summary", "example", "form", "build"))
