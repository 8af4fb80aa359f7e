"""The families of topologies that can be asked for by name."""

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
