"""Whatever the node bound proves of identical devices is shown by paths, work alone, or both."""

from __future__ import annotations

import random
from collections import Counter

import pytest

import partita
from partita.checker.certificate import as_in_file, check
from partita.checker.throughput.downsets import Downsets
from partita.engines.search.result import Bound
from partita.problems.throughput import certifying
from partita.problems.throughput.problem import DeviceKind, MovedTensor, ThroughputProblem, TimedOperator


def drawn(seed: int) -> ThroughputProblem:
    """Some operators in an order, with tensors that several read; times and sizes of no round numbers."""
    rng = random.Random(seed)
    count = rng.randint(3, 14)
    tensors = []
    for v in range(count - 1):
        readers = rng.sample(range(v + 1, count), min(count - v - 1, rng.choice((1, 1, 1, 2, 3))))
        tensors.append(
            MovedTensor(producer=v, consumers=tuple(sorted(readers)), size=rng.random() * rng.choice((0.1, 1, 3)))
        )
    tied = rng.random() < 0.3
    return ThroughputProblem(
        name=f"drawn {seed}",
        kinds=(DeviceKind(name="gpu", count=rng.randint(2, 6)),),
        operators=tuple(
            TimedOperator(id=v, times=(rng.random() * rng.choice((0.1, 1, 4)),), colocation=v // 2 if tied else None)
            for v in range(count)
        ),
        tensors=tuple(tensors),
    )


@pytest.mark.parametrize("name", ["node", "node-free"])
def test_every_node_bound_has_a_certificate(name: str) -> None:
    """One operator's flow, taken apart; its amounts are what the bound says, exactly within work and transfers."""
    kinds: Counter[str] = Counter()
    for seed in range(60):
        problem = drawn(seed)
        bound = partita.bound(problem, name)
        if bound.certificate is None:
            # What an order merges has no order inside, so that a step there may need one that the checker has not.
            assert any(op.colocation is not None for op in problem.operators), seed
            continue
        assert check(bound.certificate, as_in_file(problem)) >= bound.value * (1 - 1e-9)
        assert bound.certificate.scope(as_in_file(problem)) in ("", "free", bound.scope)
        kinds[str(bound.certificate.__struct_config__.tag)] += 1
    assert kinds["transfer-paths"] >= 20, kinds
    assert sum(kinds.values()) >= 45, kinds


def test_a_row_of_operators() -> None:
    """A flow along the order, where going back along it has no limit: the last one's work and those before it."""
    problem = ThroughputProblem(
        name="row",
        kinds=(DeviceKind(name="gpu", count=4),),
        operators=tuple(TimedOperator(id=v, times=(t,)) for v, t in enumerate((1.0, 1.0, 0.1, 0.1, 8.0))),
        tensors=tuple(MovedTensor(producer=v, consumers=(v + 1,), size=s) for v, s in enumerate((2.0, 2.0, 3.0, 3.0))),
    )
    bound = partita.bound(problem, "node")
    assert bound.value == pytest.approx(8 + 0.1 + 0.1 + 2)
    assert bound.certificate is not None
    assert check(bound.certificate, as_in_file(problem)) == pytest.approx(10.2)


def test_a_count_that_is_surely_too_long_is_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of three equal operators share a device, which only a count of all stages shows."""
    problem = ThroughputProblem(
        name="three",
        kinds=(DeviceKind(name="gpu", count=2),),
        operators=tuple(TimedOperator(id=v, times=(1.0,)) for v in range(3)),
        tensors=tuple(MovedTensor(producer=v, consumers=(v + 1,), size=0.1) for v in range(2)),
    )
    bound = Bound(2.0, "exact", "acyclic")
    assert isinstance(certifying.certify(problem, bound), Downsets)
    monkeypatch.setattr(certifying, "MOST_STAGES", 0)
    monkeypatch.setattr(Downsets, "proves", lambda self, stated: pytest.fail("it was begun"))
    assert certifying.certify(problem, bound) is None
