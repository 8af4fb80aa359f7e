"""Private parts of ``torch.distributed.pipelining`` and of exported programs that run a plan's stages need."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch.distributed.pipelining import _IR
from torch.distributed.pipelining.microbatch import _Replicate as Replicate
from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime as TableSchedule
from torch.distributed.pipelining.schedules import _ScheduleForwardOnly as ForwardSchedule

__all__ = ["REGIONS", "STAGE_BEGINS", "ForwardSchedule", "Replicate", "TableSchedule", "read_table"]

# Replicate: an argument that every microbatch gets whole.
# TableSchedule: what runs any table of actions; the public schedules are tables of it.
# ForwardSchedule: all microbatches forward, for inference.

#: The operator that marks where a stage begins in a graph; the public ``pipe_split()`` calls it on code alone.
STAGE_BEGINS: Any = _IR.aten_pipe_split_alias

#: Regions of an exported program that are graphs of their own, and where in their arguments the graph is.
REGIONS = {"wrap_with_autocast": 4, "wrap_with_set_grad_enabled": 1}


def read_table(schedule: Any, path: Path) -> None:
    """Let a table schedule do what a file says: a line of actions for every rank, computing alone."""
    schedule._load_csv(str(path))
