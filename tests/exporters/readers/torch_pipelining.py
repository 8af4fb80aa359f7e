"""The folder for torch.distributed.pipelining: its plan, its schedule as torch's CSV format has it, its processes."""

from __future__ import annotations

import json
import re
from pathlib import Path

from exporters.readers.plan import ReadPlan

#: Stage, letters of the action, microbatch.
ACTION = re.compile(r"(\d+)(F|B|I|W)(\d+)")


def read(folder: Path) -> ReadPlan:
    """The plan; each rank's row of the schedule says which stages it has."""
    plan = json.loads((folder / "plan.json").read_text())
    rows = [
        [ACTION.fullmatch(cell) for cell in line.split(",") if cell]
        for line in (folder / "schedule.csv").read_text().splitlines()
    ]
    stages, microbatches = plan["stages"], 0
    for rank, row in enumerate(rows):
        actions = [(int(a[1]), a[2], int(a[3])) for a in row if a is not None]
        assert len(actions) == len(row)
        assert {stage for stage, _, _ in actions} == {n for n, stage in enumerate(stages) if stage["rank"] == rank}
        microbatches = max(microbatches, 1 + max(m for _, _, m in actions))
        for stage in {stage for stage, _, _ in actions}:
            assert [m for s, letter, m in actions if (s, letter) == (stage, "F")] == list(range(microbatches))
        # Without a backward part every action is forward.
        assert plan["training"] or {letter for _, letter, _ in actions} == {"F"}
    accelerators = [n for n, card in enumerate(plan["cards"]) if card["accelerator"]]
    cards = [
        [accelerators.index(place) for place in stage["places"]] if stage["accelerator"] else [] for stage in stages
    ]
    script = (folder / "run.py").read_text()
    assert 'os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")' in script
    return ReadPlan(
        modules={name: number for number, stage in enumerate(stages) for name in stage["modules"]},
        cards=cards,
        rest={
            "ranks": len(rows),
            "data": stages[0]["replicas"],
            "tensor": 1,
            "context": 1,
            "expert": 1,
            "zero": 0,
            "schedule": plan["schedule"],
            "microbatches": microbatches,
            "recompute": "none",
        },
    )
