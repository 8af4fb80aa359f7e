"""A problem with identical devices as the bounds of the hierarchy see it: work, nets, the order, and nothing else.

Everything that is left out (memory limits, streaming, groups' links, GPipe's two maxima) only adds to loads or forbids
plans, so a bound on this relaxation is a bound on the problem.

Source: Archer et al., "Practical Performance Guarantees for Pipelined DNN Inference" (ICML 2024), §2 and §3, who leave
memory out of their programs in the same way.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from partita.kernels.throughput.arrays import Bools, Floats, Ints, Longs
from partita.problems.throughput.contraction.instance import Instance, build_instance
from partita.problems.throughput.problem import ThroughputProblem

__all__ = ["Uniform", "uniform", "uniform_of", "uniform_refusal"]


@dataclass(frozen=True)
class Uniform:
    """n items, m nets and k identical devices.

    A block S (a set of items) costs f(S) = Σ work + Σ cost of the nets with a pin in S and another outside. A split
    gives every item a block 1 … k; along the order the block never falls. Blocks may be empty.

    Attributes
    ----------
    work
        (n,) time of an item.
    cost
        (m,) transfer time of a net; all positive.
    net_ptr, net_pins, item_net_ptr, item_nets
        Items of each net (ascending) and nets of each item, CSR.
    succ_ptr, succ, pred_ptr, pred
        The order, a DAG with distinct edges; items are numbered along it.
    devices
        Number of devices k, at least 1.
    kept
        (m,) nets of the instance that these are.
    """

    work: Floats
    cost: Floats
    net_ptr: Ints
    net_pins: Ints
    item_net_ptr: Ints
    item_nets: Ints
    succ_ptr: Ints
    succ: Ints
    pred_ptr: Ints
    pred: Ints
    devices: int
    kept: Longs

    @property
    def items(self) -> int:
        """Number of items."""
        return int(self.work.shape[0])

    @property
    def nets(self) -> int:
        """Number of nets."""
        return int(self.cost.shape[0])

    @property
    def runs(self) -> bool:
        """Whether every item can run on the devices."""
        return self.devices > 0 and bool(np.isfinite(self.work).all())

    def pins(self, net: int) -> Ints:
        """Items of a net."""
        return self.net_pins[self.net_ptr[net] : self.net_ptr[net + 1]]

    def load(self, members: Bools) -> float:
        """f(S) of the set with this (n,) mask."""
        inside = np.add.reduceat(members[self.net_pins], self.net_ptr[:-1]) if self.nets else np.zeros(0)
        cut = (inside > 0) & (inside < np.diff(self.net_ptr))
        return float(self.work[members].sum() + self.cost[cut].sum())


def uniform_refusal(problem: ThroughputProblem) -> str | None:
    """What keeps a problem from being seen as uniform; None if nothing does."""
    used = [kind for kind in problem.kinds if kind.count > 0]
    if len(used) > 1:
        names = ", ".join(kind.name for kind in used)
        return f"it is for identical devices, and there are {names}; use `capacity`, or leave out kinds (--cpus 0)"
    if problem.communication != "sum":
        return f"it adds transfers to work, but the problem lets them overlap ({problem.communication}); use `capacity`"
    if problem.max_replicas > 1:
        return "it is for one device a stage, and stages may be replicated; use `capacity`"
    return None


def uniform(problem: ThroughputProblem, *, free: bool = False) -> Uniform:
    """The uniform relaxation, contracted to what acyclic splits keep together; infinite work where nothing can run.

    Parameters
    ----------
    problem
        The problem.
    free
        Contract only what every split keeps together. The order may then have cycles.

    Raises
    ------
    ValueError
        If ``uniform_refusal`` has something against the problem.
    """
    refusal = uniform_refusal(problem)
    if refusal is not None:
        raise ValueError(refusal)
    return uniform_of(problem, build_instance(problem, free=free))


def uniform_of(problem: ThroughputProblem, instance: Instance) -> Uniform:
    """The relaxation over the items of an instance of the problem, which ``uniform_refusal`` has nothing against.

    The instance may be contracted further, or its order say more, as long as some best split is left.
    """
    kind = next(place for place, one in enumerate(problem.kinds) if one.count > 0)
    cost = instance.net_cost[:, kind]
    kept = np.flatnonzero(cost > 0)
    sizes = np.diff(instance.net_ptr)[kept]
    net_ptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    starts = instance.net_ptr[:-1][kept]
    places = np.arange(int(sizes.sum()), dtype=np.int64) + np.repeat(starts - net_ptr[:-1], sizes)
    net_pins = instance.net_pins[places]
    owner = np.repeat(np.arange(len(kept), dtype=np.int32), sizes)
    order = np.argsort(net_pins, kind="stable")
    item_net_ptr = np.searchsorted(net_pins[order], np.arange(instance.items + 1)).astype(np.int32)
    return Uniform(
        work=np.ascontiguousarray(instance.work[:, kind]),
        cost=np.ascontiguousarray(cost[kept]),
        net_ptr=net_ptr,
        net_pins=np.ascontiguousarray(net_pins),
        item_net_ptr=item_net_ptr,
        item_nets=np.ascontiguousarray(owner[order]),
        succ_ptr=instance.succ_ptr,
        succ=instance.succ,
        pred_ptr=instance.pred_ptr,
        pred=instance.pred,
        devices=problem.device_count,
        kept=kept,
    )
