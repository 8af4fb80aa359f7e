"""Parts of a plan as records that are alike for all problems: what runs where, and what devices hold."""

from __future__ import annotations

import msgspec

from partita.ground.shown import brief


class StageSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What runs together on one device, or on the devices of a stage.

    Times are of a microbatch (of a sample that runs alone: of the stage), in the problem's unit; None where the problem
    does not know them.

    Attributes
    ----------
    number
        Its place in the plan, from 0.
    device
        Name of its device, or of the kind of its devices.
    devices
        Names of its devices, replica after replica, where the plan names them.
    device_count
        How many it has.
    operators
        Ids of its operators, or of its layers.
    modules
        Modules of the model that lie in it as a whole, in short (``h.0-2``); empty where no names are known.
    data_parallel, tensor_parallel, context_parallel, expert_parallel, expert_tensor_parallel
        Its degrees; the last is 0 where experts have the tensor-parallel one.
    time, compute, communication
        How long its devices are busy, and of that at work and with transfers and synchronisation.
    memory_bytes, memory_limit_bytes
        What each of its devices holds, and may hold.
    """

    number: int
    device: str = ""
    devices: tuple[str, ...] = ()
    device_count: int = 1
    operators: tuple[int, ...] = ()
    modules: tuple[str, ...] = ()
    data_parallel: int = 1
    tensor_parallel: int = 1
    context_parallel: int = 1
    expert_parallel: int = 1
    expert_tensor_parallel: int = 0
    time: float | None = None
    compute: float | None = None
    communication: float | None = None
    memory_bytes: float | None = None
    memory_limit_bytes: float | None = None

    __repr__ = brief


class MemoryUse(msgspec.Struct, frozen=True, kw_only=True):
    """What each device of a stage holds.

    Attributes
    ----------
    stage, device
        Number of the stage, and the name of its device or of their kind.
    total_bytes, limit_bytes
        What it holds and may hold; None for no limit.
    parts
        What it holds that for, by name, in bytes; empty where the problem knows the sum alone.
    """

    stage: int
    device: str
    total_bytes: float
    limit_bytes: float | None = None
    parts: dict[str, float] = {}

    __repr__ = brief


class OperatorPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Where one operator, or one layer, runs.

    Attributes
    ----------
    id, name
        In the problem; the name is empty where it has none.
    module
        The module of the model that calls it; empty where that is not known.
    stage, device
        Number of its stage, and the name of its device or of their kind.
    start, end
        When it runs, in the problem's unit; None where the plan does not say.
    time, memory_bytes
        What it takes and holds there, whatever runs beside it; None where that is not known of it alone.
    note
        How it runs, where there is a choice.
    """

    id: int
    name: str = ""
    module: str = ""
    stage: int
    device: str = ""
    start: float | None = None
    end: float | None = None
    time: float | None = None
    memory_bytes: float | None = None
    note: str = ""
