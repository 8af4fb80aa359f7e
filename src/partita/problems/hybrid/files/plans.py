"""Plans of hybrid problems in result files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec

from partita.documents.document import decode
from partita.nouns.pipeline import Plan, Stage
from partita.nouns.split import RuntimeLayer, Split
from partita.problems.facets.files import Files
from partita.problems.hybrid.evaluation import HybridEvaluation, HybridStageEvaluation, MachineGroupEvaluation
from partita.problems.hybrid.problem import HybridProblem

#: What layers of a split run again, by the plan's configuration; others keep their names.
_WAYS = {"selective": ("attention", "operators"), "offload": ("none",)}


def _worth(part: HybridStageEvaluation | MachineGroupEvaluation, samples: int) -> dict[str, Any]:
    each = part.time_per_microbatch
    return asdict(part) | {"time_per_microbatch": each, "time_per_sample": each / samples}


class _StageInFile(Stage, frozen=True, kw_only=True):
    """A stage whose degrees and configurations have to be there."""

    data_parallel: int
    tensor_parallel: int
    configurations: dict[int, str]


class _PlanInFile(msgspec.Struct):
    stages: tuple[_StageInFile, ...]


def _decode(data: bytes, path: str | Path) -> Plan:
    decode(data, _PlanInFile, f"{path}: plan")
    return decode(data, Plan, f"{path}: plan")


class HybridPlanFiles(Files[HybridProblem, Plan, HybridEvaluation]):
    """Every stage beside what it is worth; with a hierarchy, also the machine groups."""

    def plan_document(self, problem: HybridProblem, plan: Plan, evaluation: HybridEvaluation) -> dict[str, Any]:
        # What stands in every file, default or not.
        always = [
            {"data_parallel": stage.data_parallel, "tensor_parallel": stage.tensor_parallel} for stage in plan.stages
        ]
        stages = super().plan_document(problem, plan, evaluation)["stages"]
        groups = [_worth(group, problem.microbatch_samples) for group in evaluation.machine_groups]
        return {
            "devices": plan.device_count,
            "microbatches": plan.microbatches,
            **self.schedule_of(plan),
            **({"machines": plan.machines, "machine_groups": groups} if groups else {}),
            "stages": [
                stage | degrees | _worth(worth, problem.microbatch_samples)
                for stage, degrees, worth in zip(stages, always, evaluation.stages, strict=True)
            ],
        }

    def schedule_of(self, plan: Plan) -> dict[str, Any]:
        """What plans of the objective say of how they run."""
        return {}

    def decode_plan(self, data: bytes, problem: HybridProblem, path: str | Path) -> Plan:
        return _decode(data, path)

    def wrote(self, plan: dict[str, Any]) -> bool:
        stages = plan.get("stages")
        return isinstance(stages, list) and all(isinstance(s, dict) and "data_parallel" in s for s in stages)

    def contradictions(self, data: bytes, split: Split | None, path: str | Path) -> Iterator[str]:
        """Sums over stages, the parts of each, and what the split says of all of it."""
        plan = _decode(data, path)
        stated = msgspec.json.decode(data)
        sums = {"devices": plan.device_count, "microbatches": plan.microbatches, "machines": plan.machines}
        for name, there in sums.items():
            if name in stated and stated[name] != there:
                yield f"plan.{name} is {stated[name]}, and plan.stages have {there}"
        for number, stage in enumerate(plan.stages):
            if stage.chunks and sorted(v for part in stage.chunks for v in part) != sorted(stage.operators):
                yield f"plan.stages[{number}].chunks are not its operators"
            if set(stage.configurations) != set(stage.operators):
                yield f"plan.stages[{number}].configurations are not of its operators"
        if split is not None:
            yield from _split_differences(plan, split, steps="schedule" in stated)


class StepPlanFiles(HybridPlanFiles):
    """Plans of a step decide the schedule and the stage of ZeRO."""

    def schedule_of(self, plan: Plan) -> dict[str, Any]:
        shards = {"zero_shards": plan.zero_shards} if plan.zero_shards else {}
        return {"schedule": plan.schedule, "zero": plan.zero, **shards}


def _split_differences(plan: Plan, split: Split, *, steps: bool) -> Iterator[str]:
    if len(split.stages) != len(plan.stages) * plan.chunks:
        yield f"split.stages are {len(split.stages)}, and plan.stages have {len(plan.stages) * plan.chunks} parts"
        return
    # Files of earlier versions say neither degrees of context and experts nor which layers a stage has.
    whole = bool(split.cards)
    for number, there in enumerate(split.stages):
        chunk, rank = divmod(number, len(plan.stages))
        stage = plan.stages[rank]
        layers = stage.chunks[chunk] if stage.chunks else stage.operators
        pairs = [
            ("rank", rank, there.rank),
            ("data_parallel", stage.data_parallel, there.replicas),
            ("tensor_parallel", stage.tensor_parallel, there.tensor),
            ("devices", stage.device_count, len(there.devices)),
        ]
        if whole:
            pairs += [
                ("context_parallel", stage.context_parallel, there.context),
                ("expert_parallel", stage.expert_parallel, there.expert),
                ("expert_tensor_parallel", stage.expert_tensor_parallel, there.expert_tensor),
            ]
            if tuple(there.planned) != tuple(layers):
                yield f"plan.stages[{rank}].operators are not the layers of split.stages[{number}].planned"
            for layer in layers:
                found, chosen = _layer(split, layer), stage.configurations[layer]
                if found is not None and found.recompute not in _WAYS.get(chosen, (chosen,)):
                    yield (
                        f"plan.stages[{rank}].configurations has {chosen} for layer {layer}, and "
                        f"split.layers[{layer}].recompute is {found.recompute}"
                    )
        for name, mine, other in pairs:
            if mine != other:
                yield f"plan.stages[{rank}].{name} is {mine}, and split.stages[{number}] has {other}"
    for name in ("schedule", "zero", "zero_shards") if steps else ():
        mine, other = getattr(plan, name), getattr(split, name)
        if mine != other:
            yield f"plan.{name} is {mine}, and split.{name} is {other}"
    if split.chunks != plan.chunks:
        yield f"plan.stages have {plan.chunks} chunks, and split.chunks is {split.chunks}"


def _layer(split: Split, number: int) -> RuntimeLayer | None:
    """The layers of a hybrid problem are those of the model, in the same order."""
    return split.layers[number] if 0 <= number < len(split.layers) else None
