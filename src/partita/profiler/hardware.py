"""What the machine is, and what it reaches at best: large products and large copies."""

from __future__ import annotations

import os
import platform
import re
import time
from collections.abc import Callable
from pathlib import Path

import torch

from partita.costs.profile import Hardware
from partita.ground.processors import usable_cores

#: Side of the matrices, and bytes of the copy, that show what a device reaches at best.
_SIDE, _COPY = 1536, 1 << 27

#: Trials of each, of which the best counts: what disturbs a trial only makes it longer.
_TRIES = 8


def describe() -> Hardware:
    """The machine that this runs on."""
    gpu = None
    if torch.cuda.is_available():
        gpu = f"{torch.cuda.get_device_name()}, CUDA {torch.version.cuda}"
    return Hardware(
        cpu=_cpu_name(),
        cores=usable_cores(),
        memory_bytes=memory_bytes("cpu"),
        gpu=gpu,
        system=f"{platform.system()} {platform.release()}",
        python=platform.python_version(),
        torch=str(torch.__version__),
    )


def device_name(device: str, threads: int) -> str:
    """A name for the device in cluster files: letters, digits and hyphens."""
    raw = _cpu_name() if device == "cpu" else torch.cuda.get_device_name()
    name = re.sub(r"[^A-Za-z0-9]+", "-", raw).strip("-") or "CPU"
    return f"{name}-{threads}-thread{'s' if threads > 1 else ''}" if device == "cpu" else name


def memory_bytes(device: str) -> int:
    """Physical memory."""
    if device != "cpu":
        return int(torch.cuda.get_device_properties(0).total_memory)
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _cpu_name() -> str:
    info = Path("/proc/cpuinfo")
    if info.is_file():
        found = re.search(r"^model name\s*:\s*(.+)$", info.read_text(encoding="utf-8", errors="replace"), re.MULTILINE)
        if found:
            return found[1].strip()
    return platform.processor() or platform.machine()


def best_rates(device: str, together: Callable[[], None]) -> tuple[float, float]:
    """FLOP/s of a large float32 product and bytes per second of a large copy, read and written: the best of some."""
    a = torch.rand(_SIDE, _SIDE, device=device)
    source = torch.rand(_COPY // 4, device=device)
    target = torch.empty_like(source)

    def fastest(run: Callable[[], object]) -> float:
        times = []
        for _ in range(_TRIES):
            together()
            _wait(device)
            start = time.perf_counter()
            run()
            _wait(device)
            times.append(time.perf_counter() - start)
        return min(times)

    product = 2 * _SIDE**3 / fastest(lambda: torch.mm(a, a))
    copy = 2 * source.numel() * 4 / fastest(lambda: target.copy_(source))
    return product, copy


def _wait(device: str) -> None:
    if device != "cpu":
        torch.cuda.synchronize()
