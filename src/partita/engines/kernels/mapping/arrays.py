"""A mapping problem as plain arrays, and what one replica takes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from partita.engines.kernels.arrays import Floats, Ints
from partita.engines.kernels.compiled import compiled, inlined


class MappingArrays(NamedTuple):
    """Stages 0, …, S − 1 of R replicas, devices 0, …, D − 1. Replica r of stage s has number s·R + r."""

    replicas: int  #: R.
    time: Floats  #: (S, D) Time of a replica of each stage on each device, without communication.
    inverse: Floats  #: (D, D) Seconds per byte from the device of the row; 0 on the diagonal.
    #: (S + 1,), (e,), (e,) For every stage those it exchanges bytes with, each once, and how many; in no order of size.
    ptr: Ints
    other: Ints
    weight: Floats
    ring: Floats  #: (S,) Bytes that the all-reduce moves over the slower link of a replica; 0 with one replica.
    #: (n,) The next and the previous replica in the ring of every replica.
    after: Ints
    before: Ints


@inlined
def partners(a: MappingArrays, x: int) -> Iterator[int]:
    """The replicas whose loads depend on the device of one: those it exchanges bytes with, and those in its ring."""
    s, r = x // a.replicas, x % a.replicas
    for k in range(a.ptr[s], a.ptr[s + 1]):
        yield a.other[k] * a.replicas + r
    if a.ring[s] > 0.0:
        yield a.after[x]
        yield a.before[x]


@compiled
def load_of(a: MappingArrays, device: Ints, x: int) -> float:
    """What a replica takes, all being placed."""
    return load_between(a, device, x, device[a.after[x]], device[a.before[x]])


@inlined
def load_between(a: MappingArrays, device: Ints, x: int, following: int, preceding: int) -> float:
    """The same with other devices beside it in its ring."""
    count = a.replicas
    s, r = x // count, x % count
    d = device[x]
    total = a.time[s, d]
    for k in range(a.ptr[s], a.ptr[s + 1]):
        total += a.weight[k] * a.inverse[d, device[a.other[k] * count + r]]
    if a.ring[s] > 0.0:
        total += a.ring[s] * max(a.inverse[d, following], a.inverse[d, preceding])
    return float(total)
