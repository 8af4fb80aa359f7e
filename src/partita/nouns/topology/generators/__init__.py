"""The families of topologies that can be asked for by name."""

from partita.nouns.topology.generators.dgx import DGX_A100, DGX_H100
from partita.nouns.topology.generators.dgx1 import DGX1
from partita.nouns.topology.generators.dragonfly import DRAGONFLY
from partita.nouns.topology.generators.fat_tree import FAT_TREE
from partita.nouns.topology.generators.flat import FLAT
from partita.nouns.topology.generators.generator import Generator
from partita.nouns.topology.generators.grid import MESH, TORUS
from partita.nouns.topology.generators.random_blocks import RANDOM_BLOCKS_1, RANDOM_BLOCKS_2
from partita.nouns.topology.generators.two_level import TWO_LEVEL
from partita.nouns.topology.generators.uniform import UNIFORM

#: In the order of listings.
GENERATORS: tuple[Generator, ...] = (
    FLAT,
    TWO_LEVEL,
    DGX1,
    DGX_A100,
    DGX_H100,
    MESH,
    TORUS,
    FAT_TREE,
    DRAGONFLY,
    RANDOM_BLOCKS_1,
    RANDOM_BLOCKS_2,
    UNIFORM,
)
