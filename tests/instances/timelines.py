"""Time lines made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from partita.simulator.timeline import (
    BACKWARD,
    FORWARD,
    TRANSFER,
    UPDATE,
    Lane,
    MemoryCurve,
    Timeline,
)


class Slice(NamedTuple):
    """One slice of a time line."""

    lane: int
    sort: int
    start: float
    end: float
    stage: int = -1
    microbatch: int = -1
    cause: int = -1
    name: str = ""


def timeline(
    slices: Sequence[Slice],
    lanes: Sequence[Lane],
    *,
    flows: Sequence[tuple[int, int]] = (),
    memory: Sequence[MemoryCurve] = (),
    unit: str = "s",
    name: str = "by hand",
) -> Timeline:
    """A time line of these slices; the devices are the owners of the lanes of devices."""
    owners = {lane.device: lane.owner for lane in lanes if lane.device >= 0}

    def ints(key: str) -> np.ndarray:
        return np.array([getattr(slice, key) for slice in slices], dtype=np.int64)

    return Timeline(
        name=name,
        unit=unit,
        devices=tuple(owners[device] for device in sorted(owners)),
        lanes=tuple(lanes),
        start=np.array([slice.start for slice in slices], dtype=np.float64),
        end=np.array([slice.end for slice in slices], dtype=np.float64),
        lane=ints("lane"),
        sort=ints("sort"),
        stage=ints("stage"),
        microbatch=ints("microbatch"),
        names=tuple(slice.name for slice in slices) if any(slice.name for slice in slices) else (),
        cause=ints("cause"),
        flows=np.array(flows, dtype=np.int64).reshape(-1, 2),
        memory=tuple(memory),
    )


def two_devices(unit: str = "s") -> Timeline:
    """Two stages on two devices, two microbatches, 1F1B; F takes 1, B 2, a transfer 0.5 and an update 0.5.

    gpu0 has a lane of copies on which nothing runs.
    """
    lanes = [
        Lane(0, "gpu0", "compute"),
        Lane(0, "gpu0", "copy"),
        Lane(1, "gpu1", "compute"),
        Lane(-1, "machine 0", "link", shared=True),
    ]
    slices = [
        Slice(0, FORWARD, 0.0, 1.0, 0, 0),
        Slice(0, FORWARD, 1.0, 2.0, 0, 1, 0),
        Slice(3, TRANSFER, 1.0, 1.5, 0, 0, 0),
        Slice(3, TRANSFER, 2.0, 2.5, 0, 1, 1),
        Slice(2, FORWARD, 1.5, 2.5, 1, 0, 2),
        Slice(2, BACKWARD, 2.5, 4.5, 1, 0, 4),
        Slice(3, TRANSFER, 4.5, 5.0, 1, 0, 5),
        Slice(2, FORWARD, 4.5, 5.5, 1, 1, 5),
        Slice(0, BACKWARD, 5.0, 7.0, 0, 0, 6),
        Slice(2, BACKWARD, 5.5, 7.5, 1, 1, 7),
        Slice(3, TRANSFER, 7.5, 8.0, 1, 1, 9),
        Slice(0, BACKWARD, 8.0, 10.0, 0, 1, 10),
        Slice(0, UPDATE, 10.0, 10.5, 0, -1, 11),
        Slice(2, UPDATE, 7.5, 8.0, 1, -1, 9),
    ]
    flows = [(0, 2), (2, 4), (1, 3), (3, 7), (5, 6), (6, 8), (9, 10), (10, 11)]
    memory = [
        MemoryCurve(
            np.array([0.0, 1.0, 7.0, 10.0]),
            {"weights": np.full(4, 2.0**30), "activations": np.array([1.0, 2.0, 1.0, 0.0]) * 2**28},
            2.0**31,
        ),
        MemoryCurve(
            np.array([0.0, 1.5, 4.5]),
            {"weights": np.full(3, 2.0**29), "activations": np.array([0.0, 3.0, 1.0]) * 2**27},
            2.0**31,
        ),
    ]
    return timeline(slices, lanes, flows=flows, memory=memory, unit=unit, name="two stages")


def crowded() -> Timeline:
    """One device, and two links; on the first transfers overlap, never more than three at once; two take no time."""
    lanes = [Lane(0, "gpu0", "compute"), *(Lane(-1, f"machine {k}", "link", shared=True) for k in range(2))]
    times = [(0.0, 3.0), (1.0, 4.0), (2.0, 2.5), (2.5, 6.0), (3.0, 5.0), (5.5, 5.5), (6.0, 7.0), (6.0, 6.0)]
    slices = [Slice(0, FORWARD, 0.0, 7.0, 0, 0)]
    slices += [Slice(1, TRANSFER, start, end, 0, number) for number, (start, end) in enumerate(times)]
    slices += [Slice(2, TRANSFER, 0.0, 7.0, 0, 8)]
    return timeline(slices, lanes, name="crowded")
