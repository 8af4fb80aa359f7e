"""Fat tree: leaves, perhaps pods, and a core, thinner above by the oversubscription."""

from __future__ import annotations

from partita.ground.errors import InputError
from partita.nouns.topology.generators.generator import TopologyGenerator
from partita.nouns.topology.grammar import Option, parse_bandwidth, parse_count
from partita.nouns.topology.topology import Topology
from partita.nouns.topology.tree import MACHINE_OPTIONS, OVERSUBSCRIPTION, Switch, tree_topology


def fat_tree(
    size: tuple[int, ...], oversubscription: float, link: float, leaf: int | None, machine: int, inside: float
) -> Topology:
    """A tree of switches, each level above the leaves thinner by the oversubscription; see ``tree_topology``.

    (Leiserson, "Fat-Trees", IEEE Transactions on Computers 1985; Al-Fares, Loukissas, Vahdat, SIGCOMM 2008.) The size
    is devices, or switches of each level from the core down, and last the devices of a leaf; where it is only a number
    of devices, a leaf has ``leaf`` of them: 16 or a machine's, if that is more.
    """
    if len(size) == 1:
        leaf = min(size[0], max(16, machine) if leaf is None else leaf)
        if size[0] % leaf:
            raise InputError(
                f"fat-tree: {size[0]} devices do not fill leaves of {leaf}; state leaf=…, or a size such as 8x8"
            )
        size = (size[0] // leaf, leaf)
    elif leaf is not None:
        raise InputError("fat-tree: the size says how many devices a leaf has; leave leaf=… out")
    return tree_topology("fat-tree", _switch("core", size), oversubscription, link, machine, inside)


def _switch(name: str, size: tuple[int, ...]) -> Switch:
    if len(size) == 1:
        return Switch(name, devices=size[0])
    prefix = "switch " if name == "core" else f"{name}."
    return Switch(name, tuple(_switch(f"{prefix}{i}", size[1:]) for i in range(size[0])))


FAT_TREE = TopologyGenerator(
    name="fat-tree",
    summary="leaves of devices under a core, in two or more levels, thinner above by an oversubscription",
    example="fat-tree:64:oversubscription=4",
    form="DEVICES or [PODSx]LEAVESxDEVICES",
    build=fat_tree,
    options=(
        OVERSUBSCRIPTION,
        Option("link", parse_bandwidth, "of a device to its leaf", "infiniband-hdr"),
        Option("leaf", parse_count, "devices of a leaf; 16, or a machine's, if that is more, unless stated"),
        *MACHINE_OPTIONS,
    ),
    most=5,
    alias="fattree",
)
