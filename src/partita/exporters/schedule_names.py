"""What torch's pipelining calls the schedules."""

from __future__ import annotations

#: As ``torch.distributed.pipelining.schedules.get_schedule_class`` knows them.
TORCH_NAMES = {
    "gpipe": "GPipe",
    "1f1b": "1F1B",
    "interleaved": "Interleaved1F1B",
    "looped-bfs": "LoopedBFS",
    "interleaved-zero-bubble": "InterleavedZeroBubble",
    "zero-bubble-v": "ZBVZeroBubble",
    "dualpipe-v": "DualPipeV",
}
