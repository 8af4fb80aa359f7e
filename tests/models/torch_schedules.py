"""What torch's pipelining schedules do, without processes: their tables, and what the single-stage ones run."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from torch.distributed.pipelining import schedules as torch_schedules

from partita.simulator.schedules.protocol import Action

#: torch's classes by partita's names; those with one stage on each rank, and those with several.
SINGLE = {"forward": "_ScheduleForwardOnly", "gpipe": "ScheduleGPipe", "1f1b": "Schedule1F1B"}
MULTI = {
    "interleaved": "ScheduleInterleaved1F1B",
    "looped-bfs": "ScheduleLoopedBFS",
    "interleaved-zero-bubble": "ScheduleInterleavedZeroBubble",
    "zero-bubble-v": "ScheduleZBVZeroBubble",
    "dualpipe-v": "ScheduleDualPipeV",
}


class RecordingStage(SimpleNamespace):
    """A stage that notes what it is asked to do, and has nothing to send."""

    def forward_one_chunk(self, microbatch: int, *args: Any, **kwargs: Any) -> None:
        self.ran.append(Action(self.stage_index, "F", microbatch))

    def backward_one_chunk(self, microbatch: int, *args: Any, **kwargs: Any) -> None:
        self.ran.append(Action(self.stage_index, "B", microbatch))

    def perform_reduce_grad(self, factor: int) -> None:
        pass

    def no_transfers(self, microbatch: int) -> list[Any]:
        return []

    get_fwd_recv_ops = get_fwd_send_ops = get_bwd_recv_ops = get_bwd_send_ops = no_transfers


def stage(index: int, ranks: int, chunks: int) -> RecordingStage:
    """A stage with the attributes that schedules ask for."""
    return RecordingStage(
        stage_index=index,
        num_stages=ranks * chunks,
        group_size=ranks,
        group_rank=index % ranks,
        is_first=index == 0,
        # The last stage would need outputs to make a loss of.
        is_last=False,
        submod=None,
        has_backward=True,
        ran=[],
    )


def make(name: str, ranks: int, chunks: int, microbatches: int, rank: int = 0) -> Any:
    """torch's schedule as a rank makes it."""
    loss = None if name == "forward" else lambda *_: None
    if name in SINGLE:
        return getattr(torch_schedules, SINGLE[name])(stage(rank, ranks, 1), microbatches, loss_fn=loss)
    stages = [stage(rank + chunk * ranks, ranks, chunks) for chunk in range(chunks)]
    return getattr(torch_schedules, MULTI.get(name, name))(stages, microbatches, loss_fn=loss)


def plain(row: list[Any]) -> list[Action]:
    """A row of torch's table without what is no computation; composite actions one after the other."""
    parts = [part for action in row if action is not None for part in action.sub_actions or (action,)]
    return [
        Action(part.stage_index, part.computation_type.value, part.microbatch_index)
        for part in parts
        if part.computation_type.value in tuple("FBIW")
    ]


def table(name: str, ranks: int, chunks: int, microbatches: int) -> list[list[Action]]:
    """The table that torch's schedule makes."""
    order = make(name, ranks, chunks, microbatches).pipeline_order
    return [plain(order[rank]) for rank in range(ranks)]


def stepped(name: str, ranks: int, microbatches: int) -> list[list[Action]]:
    """What the stages of a schedule with one stage on each rank are asked to do in a step."""
    orders = []
    for rank in range(ranks):
        schedule = make(name, ranks, 1, microbatches, rank)
        schedule._stage_forward_initialized = True
        schedule._stage_backward_initialized = name != "forward"
        schedule._step_microbatches()
        orders.append(schedule._stage.ran)
    return orders
