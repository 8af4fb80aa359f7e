"""Messages between processes: how long they take by size, and the line through that."""

from __future__ import annotations

import time
from collections.abc import Sequence
from statistics import median

import numpy as np
import torch
import torch.distributed as dist

from partita.costs.profile import MessageTime

#: Bytes of the messages that are timed.
SIZES = (1 << 10, 1 << 14, 1 << 17, 1 << 19, 1 << 21, 1 << 23)

#: Bytes sent per size, and limits on the number of messages.
_VOLUME, _LEAST, _MOST = 1 << 25, 8, 40


def time_messages(rank: int, device: str = "cpu") -> list[MessageTime]:
    """Half a way there and back between the first two processes, by size; the others wait, and get nothing."""
    found = []
    for size in SIZES:
        data = torch.zeros(size // 4, device=device)
        times = []
        dist.barrier()
        if rank < 2:
            for _ in range(max(_LEAST, min(_MOST, _VOLUME // size))):
                start = time.perf_counter()
                for turn in (0, 1):
                    if rank == turn:
                        dist.send(data, 1 - rank)
                    else:
                        dist.recv(data, 1 - rank)
                if device != "cpu":
                    torch.cuda.synchronize()
                times.append((time.perf_counter() - start) / 2)
        dist.barrier()
        if rank == 0:
            found.append(MessageTime(bytes=size, time_s=median(times[2:])))
    return found


def fit_line(transfers: Sequence[MessageTime]) -> tuple[float, float]:
    """Latency in seconds and bandwidth in bytes per second: the line with the least relative errors, squared."""
    sizes, times = np.array([t.bytes for t in transfers]), np.array([t.time_s for t in transfers])
    rows = np.stack([1 / times, sizes / times], axis=1)
    latency, slope = np.linalg.lstsq(rows, np.ones(len(times)), rcond=None)[0]
    if slope <= 0:
        # Noise above all: the largest message says most about bandwidth.
        slope = times[-1] / sizes[-1]
    return max(0.0, float(latency)), float(1 / slope)
