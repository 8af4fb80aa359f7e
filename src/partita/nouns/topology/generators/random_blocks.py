"""Machines of random sizes with random bandwidths (Liu et al., "Parmesan", appendix D.B: random_blk_1 and 2)."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from partita.ground.errors import InputError
from partita.nouns.topology.generators.generator import Generator
from partita.nouns.topology.generators.levels import Integers
from partita.nouns.topology.grammar import Option
from partita.nouns.topology.topology import Floats, Topology, device_names
from partita.nouns.topology.values import parse_count, parse_seed

#: Bytes per second of one MB/µs.
MB_PER_US = 1e12

_NOTE = "Bandwidths are drawn in MB/µs with 10⁶ bytes in a MB, the same both ways; numbers of devices are drawn too."


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


def random_blocks(size: tuple[int, ...], nodes: int | None, seed: int, *, draw: partial[Floats]) -> Topology:
    """Devices in machines of random sizes, with bandwidths that ``draw`` takes from a generator of random numbers."""
    (count,) = size
    machines = max(1, math.isqrt(count)) if nodes is None else nodes
    if machines > count:
        raise InputError(f"{machines} nodes cannot share {count} devices; each has at least one")
    rng = np.random.default_rng(seed)
    machine = random_sizes(rng, count, machines)
    machine_of = tuple(machine.tolist())
    return Topology(
        name="random",
        names=device_names(machine_of),
        bandwidth_bytes_per_s=draw(rng, machine),
        machine_of=machine_of,
        notes=(_NOTE,),
    )


_blocks = partial(
    Generator,
    form="DEVICES",
    options=(
        Option("nodes", parse_count, "number of machines; the square root of the devices unless stated"),
        Option("seed", parse_seed, "of the random numbers", "0"),
    ),
)

RANDOM_BLOCKS_1 = _blocks(
    name="random-blk-1",
    summary="machines of random sizes, one random bandwidth in each, a slow one between them",
    example="random-blk-1:64:seed=1",
    build=partial(random_blocks, draw=partial(random_blk_1)),
)
RANDOM_BLOCKS_2 = _blocks(
    name="random-blk-2",
    summary="machines of random sizes, random bandwidths in each, falling with distance between them",
    example="random-blk-2:64:nodes=4:seed=1",
    build=partial(random_blocks, draw=partial(random_blk_2)),
)
