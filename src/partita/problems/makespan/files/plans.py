"""Plans of makespan problems in result files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from partita.documents.document import decode
from partita.nouns.split import Split
from partita.problems.facets.files import Files
from partita.problems.makespan.evaluate import MakespanEvaluation
from partita.problems.makespan.problem import MakespanPlan, MakespanProblem


class MakespanPlanFiles(Files[MakespanProblem, MakespanPlan, MakespanEvaluation]):
    """Every operator with its device and time, field by field."""

    def wrote(self, plan: dict[str, Any]) -> bool:
        return isinstance(plan.get("operators"), dict)

    def contradictions(self, data: bytes, split: Split | None, path: str | Path) -> Iterator[str]:
        """The device of every operator that both have; the pricing adds operators, the split those that are free."""
        if split is None:
            return
        plan = decode(data, MakespanPlan, f"{path}: plan")
        known = max((v for stage in split.stages for v in stage.operators), default=-1)
        used = {placed.device for v, placed in plan.operators.items() if v <= known}
        if len(used) != len(split.stages):
            yield f"plan.operators are on {len(used)} devices, and split.stages are {len(split.stages)}"
            return
        for number, stage in enumerate(split.stages):
            held = set(stage.operators)
            devices = {plan.operators[v].device for v in held if v in plan.operators}
            # Files of earlier versions do not say the number of a device.
            if len(devices) > 1 or (stage.places and devices != set(stage.places)):
                yield (
                    f"plan.operators has those of split.stages[{number}] on {_listed(devices)}, and it is on "
                    f"{_listed(set(stage.places) or {number})}"
                )


def _listed(devices: set[int]) -> str:
    return ("device " if len(devices) == 1 else "devices ") + ", ".join(map(str, sorted(devices)))
