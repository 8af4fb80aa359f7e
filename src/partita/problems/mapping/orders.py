"""Mappings without search: replicas in one order, devices in another, side by side.

Orders of replicas split the grid of stages and replicas again and again; orders of devices split the devices again and
again so that links inside the halves are fast. Both only see traffic and bandwidth: no topology is known by name.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from partita.engines.kernels.arrays import Floats, Ints
from partita.problems.mapping.instance import MappingInstance, MappingReplicas

#: Swaps that improve the halves of a split, at most, as a share of its devices.
_SWAPS = 0.5
#: Replicas up to which every order of them is much the same ring, and turns that improve a tour, at most, for each.
_TOURED, _TURNS = 3, 10


def consecutive(instance: MappingReplicas) -> Ints:
    """All replicas of the first stage on the first devices, then those of the second: all-reduce first."""
    return np.arange(instance.count, dtype=np.int32)


def chains(instance: MappingReplicas) -> Ints:
    """All stages of the first replica on the first devices, then those of the second: point-to-point first."""
    found = np.empty(instance.count, dtype=np.int32)
    found[in_turn(instance)] = np.arange(instance.count, dtype=np.int32)
    return found


def in_turn(instance: MappingReplicas) -> Ints:
    """Numbers of all replicas, one replica of all stages after another; of many replicas as many as their share."""
    counts = instance.problem.counts
    turns = [(r / counts[s], s) for s, r in instance.turns]
    return np.array(sorted(range(instance.count), key=turns.__getitem__), dtype=np.int32)


def by_exchanges(instance: MappingReplicas, first: int | None = None) -> list[int]:
    """Stages by what they exchange with those before them, from the one that exchanges most on, or from ``first``."""
    found: list[int] = [] if first is None else [first]
    while len(found) < instance.stages:
        worth = {
            s: (sum(moved for t, moved in row if t in found), sum(moved for _, moved in row))
            for s, row in enumerate(instance.exchanges_of)
            if s not in found
        }
        found.append(max(worth, key=lambda s: (*worth[s], -s)))
    return found


def constructions(instance: MappingInstance) -> Iterator[Ints]:
    """Mappings from traffic and bandwidth."""
    devices = device_order(instance)
    for policy in ("traffic", "stages", "replicas", "alternate"):
        replicas = replica_order(instance, policy)
        found = np.empty(instance.count, dtype=np.int32)
        found[replicas] = devices
        yield found
        if policy == "replicas" and instance.even and instance.replicas > _TOURED:
            yield toured(instance, found)


def toured(instance: MappingInstance, device: Ints) -> Ints:
    """The same places for every replica's column, with columns in the order of a short tour: nearest first, and 2-opt.

    Between two columns it is as far as rings of all stages take from one to the other.
    """
    places, count = device.reshape(instance.stages, instance.replicas), instance.replicas
    far = np.zeros((count, count))
    for s, row in enumerate(places):
        links = instance.arrays.inverse[np.ix_(row, row)]
        far += instance.arrays.ring[s] * np.maximum(links, links.T)
    left, tour = np.ones(count, dtype=bool), [0]
    left[0] = False
    while len(tour) < count:
        tour.append(int(np.argmin(np.where(left, far[tour[-1]], np.inf))))
        left[tour[-1]] = False
    order = np.array(tour)
    for _ in range(_TURNS * count):
        following = np.roll(order, -1)
        now = far[order, following]
        # Turning the run after i up to j: i is followed by j, and what follows i by what follows j.
        gain = now[:, None] + now[None, :] - far[np.ix_(order, order)] - far[np.ix_(following, following)]
        np.fill_diagonal(gain, 0.0)
        i, j = sorted(map(int, np.unravel_index(int(np.argmax(gain)), gain.shape)))
        if gain[i, j] <= 1e-12 * now.sum():
            break
        order[i + 1 : j + 1] = order[i + 1 : j + 1][::-1].copy()
    return np.ascontiguousarray(places[:, order].ravel())


def replica_order(instance: MappingReplicas, policy: str) -> Ints:
    """Numbers of all replicas, halves of halves one after the other.

    A split parts ``stages`` first, ``replicas`` first, in turn (``alternate``), or what costs less ``traffic``. Where
    stages have different numbers of replicas, only the first two differ.
    """
    if not instance.even:
        return in_turn(instance) if policy == "replicas" else np.arange(instance.count, dtype=np.int32)
    found: list[int] = []

    def split(stages: range, replicas: range, depth: int) -> None:
        if len(stages) == 1 and len(replicas) == 1:
            found.append(stages[0] * instance.replicas + replicas[0])
            return
        middle = len(stages) // 2
        crossing = sum(
            moved for s in stages[:middle] for t, moved in instance.exchanges(s) if t in stages[middle:]
        ) * len(replicas)
        reduced = sum(float(instance.ring[s]) for s in stages) * (2.0 if len(replicas) == instance.replicas else 1.0)
        by_stages = {"traffic": crossing <= reduced, "stages": True, "replicas": False, "alternate": depth % 2 == 0}[
            policy
        ]
        if len(replicas) == 1 or (by_stages and len(stages) > 1):
            split(stages[:middle], replicas, depth + 1)
            split(stages[middle:], replicas, depth + 1)
        else:
            half = len(replicas) // 2
            split(stages, replicas[:half], depth + 1)
            split(stages, replicas[half:], depth + 1)

    split(range(instance.stages), range(instance.replicas), 0)
    return np.array(found, dtype=np.int32)


def device_order(instance: MappingInstance) -> Ints:
    """As many devices as there are replicas, halves of halves one after the other, near halves side by side."""
    apart = instance.arrays.inverse + instance.arrays.inverse.T
    found: list[int] = []

    def split(members: Ints) -> None:
        if len(members) <= 2:
            found.extend(members.tolist())
            return
        left, right = _halves(apart[np.ix_(members, members)])
        one, other = members[left], members[right]
        if found:
            # The half that is nearer to what came last goes first.
            last = np.array(found[-max(1, len(members) // 2) :], dtype=np.int32)
            if apart[np.ix_(last, other)].mean() < apart[np.ix_(last, one)].mean():
                one, other = other, one
        split(one)
        split(other)

    chosen = np.arange(instance.devices, dtype=np.int32)
    if instance.devices > instance.count:
        # The device whose nearest are nearest, with these.
        reach = np.sort(apart, axis=1)[:, : instance.count].sum(axis=1)
        centre = int(np.argmin(reach))
        chosen = np.sort(np.argsort(apart[centre], kind="stable")[: instance.count]).astype(np.int32)
    split(chosen)
    return np.array(found, dtype=np.int32)


def _halves(apart: Floats) -> tuple[Ints, Ints]:
    """Two halves of the devices of a symmetric matrix of seconds per byte, with small sums inside."""
    count = len(apart)
    first, second = np.unravel_index(int(np.argmax(apart)), apart.shape)
    lean = np.argsort(apart[first] - apart[second], kind="stable")
    inside = np.zeros(count, dtype=bool)
    inside[lean[: count // 2]] = True
    for _ in range(max(1, int(_SWAPS * count))):
        mine = np.where(inside, 1.0, -1.0)
        # How much nearer each device is to the other half.
        pull = mine * (apart @ mine)
        a, b = np.flatnonzero(inside), np.flatnonzero(~inside)
        gain = pull[a][:, None] + pull[b][None, :] + 2.0 * apart[np.ix_(a, b)]
        best = int(np.argmax(gain))
        if gain.flat[best] <= 1e-12 * apart.max():
            break
        inside[a[best // len(b)]], inside[b[best % len(b)]] = False, True
    return np.flatnonzero(inside).astype(np.int32), np.flatnonzero(~inside).astype(np.int32)
