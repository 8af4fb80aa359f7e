"""A free instance with its devices spelled out: what the annealing, the bounds and the programs read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from partita.engines.kernels.arrays import Ints, as_arrays
from partita.engines.kernels.throughput.free_splits import FreeArrays
from partita.ground.rounding import up_to
from partita.nouns.pipeline import Plan, Stage
from partita.problems.throughput.contraction.instance import Instance, build_instance, operators_at
from partita.problems.throughput.problem import ThroughputProblem


@dataclass(frozen=True)
class FreeInstance:
    """A problem for free splits."""

    problem: ThroughputProblem  #: The problem it was made from.
    instance: Instance  #: Its contraction to colocation classes.
    arrays: FreeArrays  #: The kernels' form of it; D devices, never more of one kind than there are items.
    devices: list[tuple[str, str]]  #: Name and kind name of every device.
    limited: bool  #: Whether a memory limit can bind at all.

    @property
    def items(self) -> int:
        """Number of items."""
        return int(self.arrays.work.shape[0])

    def plan(self, label: Ints) -> Plan:
        """The plan that gives item v the device ``label[v]``."""
        members = operators_at(self.problem, self.instance.group, label, len(self.devices))
        stages = tuple(
            Stage(kind=kind, devices=(name,), operators=ids)
            for (name, kind), ids in zip(self.devices, members, strict=True)
            if ids
        )
        return Plan(stages=stages, contiguity="free")

    @property
    def homeless(self) -> bool:
        """Whether some item can run on no device, or fits on none by itself."""
        arrays = self.arrays
        if not len(arrays.kind_of):
            return True
        fits = (arrays.memory + arrays.workspace)[:, None] <= arrays.limit[None, :]
        return bool((~(np.isfinite(arrays.work[:, arrays.kind_of]) & fits)).all(axis=1).any())

    def label(self, plan: Plan) -> Ints:
        """The device of every item under a plan that keeps classes together (devices of a kind are alike)."""
        place = {name: number for number, (name, _) in enumerate(self.devices)}
        free: dict[str, list[int]] = {}
        for number, (_, kind) in enumerate(self.devices):
            free.setdefault(kind, []).append(number)
        item_of = {op.id: int(v) for op, v in zip(self.problem.operators, self.instance.group, strict=True)}
        result = np.zeros(self.items, dtype=np.int32)
        kept = [stage for stage in plan.stages if stage.operators]
        for stage in kept:
            if stage.devices[0] in place:
                free[stage.kind].remove(place[stage.devices[0]])
        for stage in kept:
            # Only where a kind has more devices than items can a name be unknown.
            number = place[stage.devices[0]] if stage.devices[0] in place else free[stage.kind].pop()
            for identity in stage.operators:
                result[item_of[identity]] = number
        return result


def refusal(problem: ThroughputProblem) -> str | None:
    """Why free splits of a problem are not searched; None if they are."""
    schedule = problem.schedule
    conflicts = (
        (problem.communication != "sum", f"communication {problem.communication} does", "communication sum"),
        (problem.max_replicas > 1, "replicated stages do", "contiguity acyclic, or max_replicas=1"),
        (problem.streaming, "streaming weights does", "contiguity acyclic, or streaming=False"),
        (problem.row is not None, "stages that are runs of a row of units do", "contiguity acyclic"),
        (bool(problem.groups), "device groups do", "contiguity acyclic, or a problem without groups"),
        (
            problem.gpipe,
            "gpipe training, where forward and backward loads peak apart, does",
            "contiguity acyclic, or the 1f1b schedule",
        ),
        (schedule.recompute and problem.training, "recomputation does", "contiguity acyclic, or recompute=False"),
        (
            schedule.positional and bool(problem.saved),
            "the 1f1b schedule makes memory depend on a stage's position, which does",
            "contiguity acyclic, or microbatches=1",
        ),
    )
    for holds, what, instead in conflicts:
        if holds:
            return f"{what} not combine with free splits yet; use {instead}"
    return None


def free_instance(problem: ThroughputProblem) -> FreeInstance:
    """Arrays for free splits of a problem that ``refusal`` has nothing against."""
    instance = build_instance(problem, free=True)
    n = instance.items
    counts = [min(one.count, n) for one in problem.kinds]
    kind_of = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    pairs = zip(problem.kinds, counts, strict=True)
    devices = [(f"{one.name}:{number}", one.name) for one, count in pairs for number in range(count)]
    flight = float(instance.in_flight[1])
    limit = up_to(instance.memory[kind_of])
    memory = instance.fixed + flight * instance.active
    cover_bytes = instance.cover_fixed + flight * instance.cover_active
    most = memory.sum() + cover_bytes.sum() + instance.workspace.max()
    limited = bool((limit < most).any())
    kept = np.flatnonzero(cover_bytes > 0)
    own = {
        "cover": instance.cover.chosen(kept),
        "kind_of": kind_of,
        "memory": memory,
        "cover_bytes": cover_bytes[kept],
        "limit": limit,
    }
    arrays = as_arrays(FreeArrays, vars(instance) | own)
    return FreeInstance(problem, instance, arrays, devices, limited)
