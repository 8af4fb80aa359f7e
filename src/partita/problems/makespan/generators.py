"""Makespan problems of random graphs: devices of unlike speeds, links of unlike bandwidths.

What they are like follows the published workloads: an operator takes its work divided by the device's speed, and some
devices suit it better than others; a flow takes its bytes divided by the bandwidth between two devices.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
import numpy as np

from partita.engines.kernels.arrays import Floats
from partita.ground.checks import check_at_least
from partita.ground.errors import InputError
from partita.ground.random_dags import FAMILIES, random_dag
from partita.problems.kind import ProblemFamily
from partita.problems.makespan.problem import MakespanFlow, MakespanOperator, MakespanProblem
from partita.problems.makespan.random_devices import (
    DECIMALS,
    MEAN_TIME,
    SUITS,
    Communication,
    Devices,
    Room,
    Seed,
    check_links_and_room,
    devices_with,
    limits_of,
    narrowness_of,
    slowness_of,
    tables_of,
)
from partita.problems.makespan.transformers import TRANSFORMER
from partita.problems.settings import setting

#: Deviation of the logarithms of work, bytes and memory of operators.
SPREAD = 0.8


def random_makespan_problem(
    seed: int,
    *,
    family: str = "layered",
    nodes: int = 100,
    devices: int = 4,
    communication: float = 1.0,
    room: float | None = None,
    skips: float = 0.0,
) -> MakespanProblem:
    """A random makespan problem.

    The settings of ``GENERATORS`` say what each number means; ``family`` is one of ``random_dags.FAMILIES``, of which
    ``branches`` has separators, ``layered`` and ``wide`` hardly any. Faster devices hold less than their share.

    Raises
    ------
    InputError
        If the family is unknown, or a number is out of range.
    """
    if family not in FAMILIES:
        raise InputError(f"there is no graph family {family!r}; known are {', '.join(FAMILIES)}")
    check_at_least("the seed", seed, 0)
    check_at_least("nodes", nodes)
    check_at_least("devices", devices)
    check_links_and_room(communication, room)
    if not 0 <= skips <= 1:
        raise InputError(f"skips is {skips}; it must be a fraction, 0 to 1")
    rng = np.random.default_rng(seed)
    edges = random_dag(rng, family, nodes)
    if skips > 0:
        longer = ((v, v + 1 + int(rng.integers(nodes - 1 - v))) for v in range(nodes - 1) if rng.random() < skips)
        edges = sorted({*edges, *longer})
    slowness = slowness_of(rng, devices)
    suits = np.exp(SUITS * rng.standard_normal((nodes, devices)))
    times = MEAN_TIME * _around_one(rng, nodes)[:, None] * slowness[None, :] * suits
    narrowness = narrowness_of(rng, devices)
    moved = communication * MEAN_TIME * _around_one(rng, nodes)
    held = np.ceil(1000 * _around_one(rng, nodes))
    limits = limits_of(held, slowness, room)
    tables = tables_of(moved, narrowness)
    return MakespanProblem(
        name=f"{family} n={nodes} devices={devices} seed={seed}",
        unit="ms",
        devices=devices_with(limits),
        operators=tuple(
            MakespanOperator(id=v, times=tuple(row), memory=memory)
            for v, (row, memory) in enumerate(zip(np.round(times, DECIMALS).tolist(), held.tolist(), strict=True))
        ),
        # Readers of one result share its table.
        flows=tuple(MakespanFlow(id=f, source=u, target=v, times=tables[u]) for f, (u, v) in enumerate(edges)),
        notes=(f"made by `partita generate makespan`: family {family}, {nodes} operators, seed {seed}",),
    )


def _around_one(rng: np.random.Generator, count: int) -> Floats:
    """Lognormal numbers of mean 1."""
    found: Floats = np.exp(SPREAD * rng.standard_normal(count) - SPREAD**2 / 2)
    return found


class _Random(msgspec.Struct, frozen=True, kw_only=True):
    seed: Seed = 0
    family: Annotated[str, setting("Of graphs.")] = "layered"
    nodes: Annotated[int, setting("Operators.", metavar="N", least=1)] = 100
    devices: Devices = 4
    communication: Communication = 1.0
    room: Room = None
    skips: Annotated[
        float, setting("Fraction of operators with one more flow, to any later one.", metavar="X", least=0, most=1)
    ] = 0.0


GENERATORS = (
    ProblemFamily(
        "makespan",
        "A random graph over devices of unlike speeds and links of unlike bandwidths (docs/makespan.md).",
        _Random,
        lambda settings: random_makespan_problem(**msgspec.structs.asdict(settings)),
    ),
    TRANSFORMER,
)
