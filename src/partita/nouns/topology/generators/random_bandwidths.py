"""Random bandwidths, in machines of random sizes or everywhere (Liu et al., "Parmesan", appendix D.B)."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from partita.ground.errors import InputError
from partita.nouns.topology.generators.generator import Integers, TopologyGenerator
from partita.nouns.topology.grammar import Option, parse_count, parse_seed
from partita.nouns.topology.topology import Floats, Topology, of_machines

#: Bytes per second of one MB/µs.
MB_PER_US = 1e12

#: What takes the bandwidths from a generator of random numbers, given the machine of every device.
Draw = Callable[[np.random.Generator, Integers], Floats]

_NOTE = "Bandwidths are drawn in MB/µs with 10⁶ bytes in a MB, the same both ways; "


def random_sizes(rng: np.random.Generator, count: int, machines: int) -> Integers:
    """The machine of every device: all ways to cut a row of devices into that many machines are equally likely."""
    cuts = np.sort(rng.choice(np.arange(1, count), machines - 1, replace=False))
    return np.searchsorted(cuts, np.arange(count), side="right").astype(np.int64)


def symmetric(rng: np.random.Generator, count: int, least: float, most: float) -> Floats:
    """A bandwidth for every two devices, drawn once for both ways; MB/µs in, bytes per second out."""
    upper = np.triu(rng.uniform(least, most, (count, count)), 1)
    matrix: Floats = (upper + upper.T) * MB_PER_US
    np.fill_diagonal(matrix, np.inf)
    return matrix


def random_blk_1(rng: np.random.Generator, machine: Integers) -> Floats:
    """One bandwidth for each machine from U[1e-4, 1e-2] MB/µs, and 1e-4 between machines."""
    own = rng.uniform(1e-4, 1e-2, int(machine[-1]) + 1) * MB_PER_US
    return np.where(machine[:, None] == machine[None, :], own[machine][:, None], 1e-4 * MB_PER_US)


def random_blk_2(rng: np.random.Generator, machine: Integers) -> Floats:
    """Every two devices of a machine from U[1e-5, 1e-2] MB/µs; a tenth of the mean of these, over |i − j|, between."""
    matrix = symmetric(rng, len(machine), 1e-5, 1e-2)
    together = machine[:, None] == machine[None, :]
    pairs = together & ~np.eye(len(machine), dtype=bool)
    if not pairs.any():
        raise InputError("random-blk-2: no two devices are in one machine; state fewer machines with nodes=…")
    apart = np.abs(np.subtract.outer(machine, machine))
    base = matrix[pairs].mean() / 10
    return np.where(together, matrix, base / np.maximum(apart, 1))


def random_blocks(size: tuple[int, ...], nodes: int | None, seed: int, *, draw: Draw) -> Topology:
    """Devices in machines of random sizes: the source's random_blk_1 and 2, by what draws."""
    (count,) = size
    machines = max(1, math.isqrt(count)) if nodes is None else nodes
    if machines > count:
        raise InputError(f"{machines} nodes cannot share {count} devices; each has at least one")
    rng = np.random.default_rng(seed)
    machine = random_sizes(rng, count, machines)
    return of_machines(machine, draw(rng, machine), notes=(_NOTE + "numbers of devices are drawn too.",))


def uniform(size: tuple[int, ...], seed: int) -> Topology:
    """Every two devices from U[1e-5, 1e-2] MB/µs, all in one machine: the source's uniform_dist."""
    (count,) = size
    matrix = symmetric(np.random.default_rng(seed), count, 1e-5, 1e-2)
    return of_machines([0] * count, matrix, notes=(_NOTE + "all devices are taken as one machine.",))


_SEED = Option("seed", parse_seed, "of the random numbers", "0")

_blocks = partial(
    TopologyGenerator,
    form="DEVICES",
    options=(
        Option("nodes", parse_count, "number of machines; the square root of the devices unless stated"),
        _SEED,
    ),
)

RANDOM_BLOCKS_1 = _blocks(
    name="random-blk-1",
    summary="machines of random sizes, one random bandwidth in each, a slow one between them",
    example="random-blk-1:64:seed=1",
    build=partial(random_blocks, draw=random_blk_1),
)
RANDOM_BLOCKS_2 = _blocks(
    name="random-blk-2",
    summary="machines of random sizes, random bandwidths in each, falling with distance between them",
    example="random-blk-2:64:nodes=4:seed=1",
    build=partial(random_blocks, draw=random_blk_2),
)
UNIFORM = TopologyGenerator(
    name="uniform",
    summary="a random bandwidth between every two devices",
    example="uniform:256:seed=1",
    form="DEVICES",
    build=uniform,
    options=(_SEED,),
    alias="uniform-dist",
)
