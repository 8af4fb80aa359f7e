"""Random problems with narrow orders."""

from __future__ import annotations

import random

from partita.problems.throughput.problem import DeviceKind, MovedTensor, ThroughputProblem, TimedOperator


def drawn(seed: int, items: int, reach: int = 3, devices: int = 2) -> ThroughputProblem:
    """A graph whose tensors go a few operators further; a second kind, without all operators, in some."""
    rng = random.Random(seed)
    second = rng.random() < 0.3
    kinds = (DeviceKind(name="gpu", count=devices),) + ((DeviceKind(name="cpu", count=1),) if second else ())

    def times() -> tuple[float | None, ...]:
        slow = None if rng.random() < 0.2 else float(rng.randint(2, 30))
        return (float(rng.randint(0, 9)), *((slow,) if second else ()))

    tensors = []
    for v in range(items - 1):
        later = list(range(v + 1, min(items, v + 1 + reach)))
        consumers = tuple(sorted(rng.sample(later, rng.randint(1, len(later)))))
        tensors.append(MovedTensor(producer=v, consumers=consumers, size=float(rng.choice([0, 1, 2, 5]))))
    return ThroughputProblem(
        name=f"drawn-{seed}",
        kinds=kinds,
        operators=tuple(TimedOperator(id=v, times=times()) for v in range(items)),
        tensors=tuple(tensors),
    )
