"""A random bandwidth between every two devices (Liu et al., "Parmesan", appendix D.B: uniform_dist)."""

from __future__ import annotations

import numpy as np

from partita.nouns.topology.generators.generator import Generator
from partita.nouns.topology.generators.random_blocks import symmetric
from partita.nouns.topology.grammar import Option
from partita.nouns.topology.topology import Topology, device_names
from partita.nouns.topology.values import parse_seed


def uniform(size: tuple[int, ...], seed: int) -> Topology:
    """Every two devices from U[1e-5, 1e-2] MB/µs, all in one machine."""
    (count,) = size
    machine_of = (0,) * count
    return Topology(
        name="uniform",
        names=device_names(machine_of),
        bandwidth_bytes_per_s=symmetric(np.random.default_rng(seed), count, 1e-5, 1e-2),
        machine_of=machine_of,
        notes=(
            "Bandwidths are drawn in MB/µs with 10⁶ bytes in a MB, the same both ways; all devices are taken as one "
            "machine.",
        ),
    )


UNIFORM = Generator(
    name="uniform",
    summary="a random bandwidth between every two devices",
    example="uniform:256:seed=1",
    form="DEVICES",
    build=uniform,
    options=(Option("seed", parse_seed, "of the random numbers", "0"),),
    alias="uniform-dist",
)
