"""Lossless contraction: operators that some optimal split keeps with their only reader (or their only source).

Let A be items whose only successor is w. If A is cut from w, moving the missing ones to w's stage saves their private
transfers to w and costs their work and, at worst, the transfer of everything else they read. Where no stage can lose by
that, some optimal acyclic split keeps A with w, so they become one item:

- w's stage, for every B ⊆ A that is moved there:  Σ_B (time − private) + what only B reads ≤ 0;
- (with replicas, which synchronise weights, the time of what is moved there includes what its weights can cost;)
- a stage that gives B' up:  Σ_B' (time + private) ≥ what B' reads, which may now be cut for it.

The conditions hold on every device kind that has devices. Stages that neither give nor take see no change: a net they
cut stays cut. The order stays acyclic, because A feeds nothing but w. Memory moves along, so the rule needs devices of
which any one could hold everything. The mirror image merges items into their only predecessor. Typical cases are the
query, key and value projections of an attention layer over a slow link.

Interchangeable items get an order, so that searches do not try them in every one. Two items are twins if swapping them
changes nothing: equal times, predecessors and successors, nets that become each other's, and equal memory (unless any
one device could hold everything). From any acyclic split in which the first of two twins lies behind the second,
swapping them gives a split with the same loads in which it does not. So an edge between consecutive twins loses no
optimum. Examples are the key and value projections of an attention layer that reads another layer's output.
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace

import numpy as np

from partita.engines.kernels.arrays import Bools, Floats, Longs
from partita.engines.kernels.graph_arrays import Sets, lists, sets_of
from partita.ground.rounding import TOLERANCE
from partita.problems.throughput.contraction.instance import Instance, ordered_graph, pooled

#: Items merged at once; all their subsets are checked.
_MOST_TOGETHER = 6
#: Larger instances are left alone: looking for rules would take longer than searching gains.
_MOST_ITEMS = 4_000
#: Times that all rules are looked for, both ways.
_ROUNDS = 8


def memory_is_ample(instance: Instance) -> bool:
    """Whether any one device could hold everything, so that memory cannot shape a plan."""
    share = int(instance.in_flight.max(initial=1))
    once = instance.fixed.sum() + instance.cover_fixed.sum() + instance.workspace.max(initial=0.0)
    each = instance.active.sum() + instance.cover_active.sum() + instance.net_entering.sum()
    return bool(once + share * each <= instance.memory[instance.count > 0].min(initial=float("inf")))


def absorb(instance: Instance, *, sync_time: Floats | None = None) -> Instance:
    """Merge items until no rule applies; ``Instance.group`` leads back to the operators.

    ``sync_time`` is, for every kind, the most that a stage's time may rise for each byte that its replicas synchronise,
    counted over all replicas: (most replicas − 1) · time per byte. None where there are no replicas.

    The instance is returned as it is where memory could bind, where a stage keeps what enters it, or where it is large.
    """
    if instance.items > _MOST_ITEMS or instance.recompute or not memory_is_ample(instance):
        return instance
    for _ in range(_ROUNDS):
        before = instance.items
        instance = _merge(instance, _partners(instance, sync_time), into_later=True)
        instance = _merge(instance, _partners(instance.reverse(), sync_time), into_later=False)
        if instance.items == before:
            break
    return instance


def _partners(instance: Instance, sync_time: Floats | None) -> dict[int, int]:
    """Item to the item it is merged into, each used in one role only."""
    candidates: dict[int, list[int]] = {}
    for item in np.flatnonzero(_saves_alone(instance)).tolist():
        readers = instance.graph.after(item)
        if len(readers) == 1:
            candidates.setdefault(int(readers[0]), []).append(item)
    result: dict[int, int] = {}
    for target, items in candidates.items():
        if target in result:
            continue
        chosen = items if len(items) <= _MOST_TOGETHER and _harmless(instance, items, target, sync_time) else []
        if not chosen:
            # Each alone is harmless whatever the others do: what it reads is counted in full.
            chosen = [item for item in items if _harmless(instance, [item], target, sync_time)]
        result.update(dict.fromkeys(chosen, target))
    return result


def _saves_alone(instance: Instance) -> Bools:
    """Whether an item's transfers to one other item exceed its work on every kind: without that no rule applies."""
    pair = np.diff(instance.net.ptr) == 2
    saved = np.zeros_like(instance.work)
    ends = instance.net.pins[np.flatnonzero(np.repeat(pair, np.diff(instance.net.ptr)))].reshape(-1, 2)
    for side in (0, 1):
        np.add.at(saved, ends[:, side], instance.net_cost[pair])
    return np.asarray((instance.work <= saved)[:, instance.count > 0].all(axis=1))


def _harmless(instance: Instance, items: list[int], target: int, sync_time: Floats | None) -> bool:
    kinds = np.flatnonzero(instance.count > 0)
    times = instance.work[items][:, kinds]
    if not np.isfinite(times).all() or not np.isfinite(instance.work[target][kinds]).all():
        return False
    weights = np.zeros_like(times)
    if sync_time is not None:
        covers = [instance.cover.holding(v) for v in items]
        shared = np.array([instance.cover_sync[row].sum() for row in covers])
        weights = (instance.sync[items] + shared)[:, None] * sync_time[kinds]
    private: list[Floats] = []
    read: list[set[int]] = []
    for item in items:
        own = np.zeros(len(kinds))
        others: set[int] = set()
        for net in instance.net.holding(item):
            pins = instance.net.members(net)
            if target not in pins:
                others.add(int(net))
            elif len(pins) == 2:
                own += instance.net_cost[net][kinds]
        private.append(own)
        read.append(others)
    everyone = range(len(items))
    for size in range(1, len(items) + 1):
        for moved in itertools.combinations(everyone, size):
            chosen = list(moved)
            work = times[chosen].sum(axis=0)
            saved = np.sum([private[i] for i in chosen], axis=0)
            nets = set().union(*(read[i] for i in chosen))
            staying = set().union(*(read[i] for i in everyone if i not in moved))
            # A rule must hold with this much to spare.
            margin = TOLERANCE * (work + saved)
            burden = work + weights[chosen].sum(axis=0)
            if (burden - saved + _cost(instance, nets - staying, kinds) + margin > 0).any():
                return False
            if (_cost(instance, nets, kinds) + margin > work + saved).any():
                return False
    return True


def _cost(instance: Instance, nets: set[int], kinds: Longs) -> Floats:
    return np.asarray(instance.net_cost[sorted(nets)][:, kinds].sum(axis=0), dtype=np.float64)


def _merge(instance: Instance, partner: dict[int, int], *, into_later: bool) -> Instance:
    """Merge every item into its partner, and number the items topologically again."""
    if not partner:
        return instance
    n = instance.items
    home = np.arange(n)
    # Partners may themselves be merged further on: follow the chain from its end.
    for item in sorted(partner, reverse=into_later):
        home[item] = home[partner[item]]
    kept = np.unique(home)
    number = np.full(n, -1, dtype=np.int64)
    number[kept] = np.arange(len(kept))
    label = number[home]
    count = len(kept)

    workspace = np.zeros(count)
    np.maximum.at(workspace, label, instance.workspace)
    edges = label[instance.graph.edges]
    nets: dict[tuple[int, ...], list[int]] = {}
    for net, pins in enumerate(_renamed(instance.net, label)):
        nets.setdefault(tuple(pins), []).append(net)
    kept_nets = [(pins, members) for pins, members in nets.items() if len(pins) > 1]
    rows = [members for _, members in kept_nets]
    return replace(
        instance,
        group=label[instance.group].astype(np.int32),
        work=pooled(instance.work, label, count),
        work_backward=pooled(instance.work_backward, label, count),
        graph=ordered_graph(edges[edges[:, 0] != edges[:, 1]], count),
        net=sets_of([pins for pins, _ in kept_nets], count),
        cover=sets_of(_renamed(instance.cover, label), count),
        net_cost=_added(instance.net_cost, rows),
        net_backward=_added(instance.net_backward, rows),
        net_totals=_added(instance.net_totals, rows),
        net_source=np.full(len(rows), -1, dtype=np.int32),
        net_maker=np.full(len(rows), -1, dtype=np.int32),
        net_entering=np.zeros(len(rows)),
        fixed=pooled(instance.fixed, label, count),
        sync=pooled(instance.sync, label, count),
        active=pooled(instance.active, label, count),
        workspace=workspace,
    )


def _renamed(sets: Sets, label: Longs) -> list[list[int]]:
    """Distinct labels of the members of each set, ascending."""
    return [sorted(set(row)) for row in lists(sets.ptr, label[sets.pins])]


def _added(values: Floats, rows: list[list[int]]) -> Floats:
    return np.array([values[members].sum(axis=0) for members in rows]).reshape(-1, values.shape[1])


def _profile(instance: Instance, item: int, ample: bool) -> tuple[object, ...]:
    """What twins have in common apart from their nets."""
    memory = () if ample else (instance.fixed[item], instance.active[item], instance.workspace[item])
    return (
        instance.work[item].tobytes(),
        instance.work_backward[item].tobytes(),
        memory,
        tuple(sorted(instance.graph.before(item).tolist())),
        tuple(sorted(instance.graph.after(item).tolist())),
        len(instance.net.holding(item)),
        0 if ample else len(instance.cover.holding(item)),
    )


def _surroundings(instance: Instance, item: int, other: int, ample: bool) -> Counter[tuple[object, ...]]:
    """Nets and covers of an item, with the item and its possible twin taken out of their pins."""
    pair = {item, other}
    found: Counter[tuple[object, ...]] = Counter()
    for net in instance.net.holding(item).tolist():
        pins = instance.net.members(net).tolist()
        source = int(instance.net_source[net])
        found[
            "net",
            tuple(sorted(set(pins) - pair)),
            other in pins,
            "self" if source == item else source,
            instance.net_cost[net].tobytes(),
            instance.net_backward[net].tobytes(),
            instance.net_entering[net],
        ] += 1
    for cover in () if ample else instance.cover.holding(item).tolist():
        pins = instance.cover.members(cover).tolist()
        bytes_ = (instance.cover_fixed[cover], instance.cover_active[cover])
        found["cover", tuple(sorted(set(pins) - pair)), other in pins, bytes_] += 1
    return found


def twins(instance: Instance) -> list[list[int]]:
    """Classes of two or more mutual twins, each ascending."""
    ample = memory_is_ample(instance)
    alike: dict[tuple[object, ...], list[int]] = {}
    for item in range(instance.items):
        alike.setdefault(_profile(instance, item, ample), []).append(item)
    classes: list[list[int]] = []
    for group in alike.values():
        found: list[list[int]] = []
        for item in group if len(group) > 1 else ():
            for known in found:
                first = known[0]
                if _surroundings(instance, first, item, ample) == _surroundings(instance, item, first, ample):
                    known.append(item)
                    break
            else:
                found.append([item])
        classes += [members for members in found if len(members) > 1]
    return classes


def order_twins(instance: Instance) -> Instance:
    """The instance with an edge from each twin to the next; items are numbered topologically, so no cycle arises."""
    new = [pair for members in twins(instance) for pair in itertools.pairwise(members)]
    if not new:
        return instance
    edges = np.concatenate([instance.graph.edges, np.array(new)])
    return replace(instance, graph=ordered_graph(edges, instance.items))
