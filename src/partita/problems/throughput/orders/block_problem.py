"""Problems with identical devices as the searches over orders and partitions see them, with the way back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from partita.kernels.throughput.arrays import Floats, Ints
from partita.kernels.throughput.orders import BlockArrays
from partita.problems.throughput.bounds.uniform import Uniform, uniform_of
from partita.problems.throughput.contraction.instance import Instance, build_instance
from partita.problems.throughput.contraction.lift import operators_at
from partita.problems.throughput.contraction.sole_readers import absorb, memory_is_ample
from partita.problems.throughput.plan import Plan, Stage
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.protocol import Options
from partita.problems.throughput.variants import Variant, refuse_variants
from partita.units import up_to

__all__ = ["BlockProblem", "blocks_of", "blocks_over", "blocks_refusal", "make_blocks"]

_KNOWN: frozenset[Variant] = frozenset({"streaming"})


@dataclass(frozen=True)
class BlockProblem:
    """n items to be put into k blocks, numbered so that blocks never fall along the order.

    Attributes
    ----------
    arrays
        What the kernels read.
    devices
        Number of blocks k, at least 1 and at most n.
    group
        Item of every operator of the problem.
    """

    arrays: BlockArrays
    devices: int
    group: Ints

    @property
    def items(self) -> int:
        """Number of items."""
        return int(self.arrays.work.shape[0])

    @property
    def most(self) -> float:
        """No block costs as much as this, unless it breaks a hard memory limit."""
        a = self.arrays
        everything = float(a.work.sum() + a.cost.sum())
        if np.isfinite(a.limit[0]) and np.isfinite(a.limit[1]):
            everything += a.limit[1] * float(a.held.sum() + a.cover_bytes.sum() + a.workspace.max(initial=0.0))
        return everything * (1 + 1e-6) + 1e-30

    @property
    def low(self) -> float:
        """What no partition can be below: the largest item and the average work, infinite if an item fits nowhere."""
        a = self.arrays
        return max(float(self.singles().max()), float(a.work.sum()) / self.devices * (1 - 1e-12))

    def singles(self) -> Floats:
        """(n,) what a block costs at least that holds this item: its work, and memory that it needs by itself."""
        a = self.arrays
        if not np.isfinite(a.limit[0]):
            return a.work
        held = a.held + a.workspace
        for v in range(self.items):
            held[v] += a.cover_bytes[a.item_covers[a.item_cover_ptr[v] : a.item_cover_ptr[v + 1]]].sum()
        over = np.maximum(0.0, held - a.limit[0])
        singles: Floats = a.work + over * np.where(over > 0, a.limit[1], 0.0)
        return singles

    def costs(self, label: Ints) -> Floats:
        """(k,) cost of every block of a partition."""
        from partita.kernels.throughput.orders import block_costs

        costs = np.zeros(self.devices)
        block_costs(self.arrays, label, costs)
        return costs

    def plan(self, problem: ThroughputProblem, label: Ints) -> Plan:
        """The plan of a partition; empty blocks get no stage."""
        names = [(name, problem.kinds[kind].name) for name, kind in problem.device_names()]
        rows = [row for row in operators_at(problem, self.group, label, self.devices) if row]
        stages = [Stage(device=d, kind=k, operators=row) for (d, k), row in zip(names, rows, strict=False)]
        return Plan(stages=tuple(stages), contiguity="acyclic")


def blocks_refusal(problem: ThroughputProblem, options: Options) -> str | None:
    """Why the searches over orders and partitions do not take a problem on; None if they do."""
    if options.contiguity != "acyclic":
        return "it searches acyclic splits; use the solver 'annealing' for free ones"
    used = [kind for kind in problem.kinds if kind.count > 0]
    if len(used) != 1:
        names = ", ".join(kind.name for kind in used) or "none"
        return f"it is for identical devices, and there are {names}; use the solver 'slicing'"
    refusal = refuse_variants(problem, _KNOWN)
    if refusal is not None:
        return refusal
    limited = used[0].memory_bytes is not None
    saves = any(saved.bytes > 0 for saved in problem.saved)
    if limited and problem.training and (problem.schedule.recompute or (problem.schedule.positional and saves)):
        # Only an instance can tell whether the limit matters.
        instance = build_instance(problem)
        if (instance.positional or instance.recompute) and not memory_is_ample(instance):
            return "its memory does not depend on the stages behind, nor on what enters; use the solver 'slicing'"
    return None


def make_blocks(problem: ThroughputProblem, *, contract: bool = True) -> BlockProblem:
    """Blocks of a problem that ``blocks_refusal`` has nothing against.

    Parameters
    ----------
    problem
        The problem.
    contract
        Merge items that some optimal split keeps together (``absorb``), too. Without it the items are those of
        ``build_instance``, which the bounds know.
    """
    instance = build_instance(problem)
    return blocks_over(problem, absorb(instance) if contract else instance)


def blocks_over(problem: ThroughputProblem, instance: Instance) -> BlockProblem:
    """Blocks over the items of an instance of a problem that ``blocks_refusal`` has nothing against."""
    place = next(place for place, kind in enumerate(problem.kinds) if kind.count > 0)
    ample = memory_is_ample(instance)
    memory, reload = np.inf, 0.0
    if not ample and problem.streaming:
        memory, reload = float(instance.memory[place]), problem.kinds[place].reload_time_per_byte
    elif not ample:
        memory, reload = up_to(float(instance.memory[place])), np.inf
    share = float(instance.in_flight[1])
    plain = blocks_of(uniform_of(problem, instance))
    arrays = plain.arrays._replace(
        held=instance.fixed + share * instance.active,
        workspace=instance.workspace,
        cover_ptr=instance.cover_ptr,
        cover_pins=instance.cover_pins,
        item_cover_ptr=instance.item_cover_ptr,
        item_covers=instance.item_covers,
        cover_bytes=instance.cover_fixed + share * instance.cover_active,
        limit=np.array([memory, reload]),
    )
    return BlockProblem(arrays, plain.devices, instance.group)


def blocks_of(uniform: Uniform) -> BlockProblem:
    """Blocks of the relaxation that the bounds share: the same items, no memory."""
    none, empty = np.zeros(uniform.items), np.zeros(0, dtype=np.int32)
    pointer = np.zeros(uniform.items + 1, dtype=np.int32)
    arrays = BlockArrays(
        work=uniform.work,
        cost=uniform.cost,
        net_ptr=uniform.net_ptr,
        net_pins=uniform.net_pins,
        item_net_ptr=uniform.item_net_ptr,
        item_nets=uniform.item_nets,
        succ_ptr=uniform.succ_ptr,
        succ=uniform.succ,
        pred_ptr=uniform.pred_ptr,
        pred=uniform.pred,
        held=none,
        workspace=none,
        cover_ptr=pointer[:1],
        cover_pins=empty,
        item_cover_ptr=pointer,
        item_covers=empty,
        cover_bytes=none[:0],
        limit=np.array([np.inf, 0.0]),
    )
    return BlockProblem(arrays, min(uniform.devices, uniform.items), np.arange(uniform.items, dtype=np.int32))
