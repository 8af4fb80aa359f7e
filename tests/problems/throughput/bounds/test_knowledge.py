"""What the bounds tell each other: bounds, splits and refutations on their way to the incumbent, and back."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from partita.engines.search.incumbent import Incumbent
from partita.engines.search.monitor import Monitor
from partita.ground.errors import DisagreementError, SolverCrashError
from partita.problems.throughput.bounds.knowledge import Knowledge, SimpleBound, suits_programs
from partita.problems.throughput.contraction.blocks import uniform
from partita.problems.throughput.problem import DeviceKind, ThroughputProblem, TimedOperator

#: No method is run here, so nothing looks at the relaxation.
NONE: Any = None


def labels(*blocks: int) -> np.ndarray:
    return np.array(blocks, dtype=np.int32)


def test_at_first() -> None:
    known = Knowledge(NONE)
    assert (known.value, known.bound, known.label, known.charged) == (math.inf, 0.0, None, None)
    assert (known.proven, known.threads) == ([], 2)
    assert not known.done


def test_bounds_go_to_the_incumbent() -> None:
    best: Incumbent[str] = Incumbent()
    known = Knowledge(NONE, incumbent=best, to_label=lambda answer: labels(0, 1) if answer == "split" else None)
    known.prove(2.0, "capacity")
    assert (best.bound, best.proven_by, known.bound) == (2.0, "capacity", 2.0)
    best.offer(4.0, "split", "a search")
    assert known.value == 4.0
    assert known.label is not None
    assert known.label.tolist() == [0, 1]
    best.offer(3.0, "other", "a search")
    assert known.label is None, "that answer is none of the relaxation"
    with pytest.raises(DisagreementError, match=r"node claims bound 3\.5"):
        known.prove(3.5, "node")


def test_own_splits_are_labels() -> None:
    known = Knowledge(NONE)
    known.incumbent.offer(4.0, labels(0, 1, 1))
    assert known.label is not None
    assert known.label.tolist() == [0, 1, 1]


def test_labels_are_copied_on_their_way_to_answers() -> None:
    """Methods go on writing into theirs."""
    known = Knowledge(NONE)
    mine = labels(0, 1)
    found = known.from_label(mine, 4.0)
    assert found is not None
    mine[0] = 7
    assert found[0] == 4.0
    assert found[1].tolist() == [0, 1]


def test_done_when_closed_or_told_to_stop() -> None:
    """Closed at a relative distance of 1e-7."""
    told = [False]
    known = Knowledge(NONE, lambda: told[0])
    known.incumbent.offer(4.0, labels(0))
    known.prove(4.0 * (1 - 1.2e-7), "b")
    assert not known.done
    told[0] = True
    assert known.done
    told[0] = False
    known.prove(4.0 * (1 - 0.8e-7), "b")
    assert known.done


class TestRefuting:
    """Every split has a load above the target."""

    def test_the_target_is_a_bound(self) -> None:
        known = Knowledge(NONE)
        known.refute(3.0, "covering")
        assert (known.bound, known.incumbent.proven_by) == (3.0, "covering")
        known.incumbent.offer(4.0, labels(0))
        known.refute(3.5, "covering")
        assert known.bound == 3.5

    @pytest.mark.parametrize("target", [4.0, 4.0 * (1 + 1e-9), 5.0, math.nan])
    def test_a_split_that_is_known_cannot_be_refuted(self, target: float) -> None:
        """Not even by rounding: a split with exactly the target has no load above it."""
        known = Knowledge(NONE)
        known.incumbent.offer(4.0, labels(0))
        with pytest.raises(DisagreementError):
            known.refute(target, "covering")
        assert known.bound == 0.0


def test_crashes_are_noted_or_raised() -> None:
    error = SolverCrashError("highs", "it ended")
    with pytest.raises(SolverCrashError, match="highs"):
        Knowledge(NONE).lose(error, "others go on")
    notes: list[str] = []
    Knowledge(NONE, on_note=notes.append).lose(error, "others go on")
    assert notes == [f"{error}; others go on"]


def test_splits_go_to_the_incumbent_as_its_answers() -> None:
    """Only better ones are turned into answers, and some are none."""
    best: Incumbent[str] = Incumbent()
    asked: list[float] = []

    def answer(label: np.ndarray, value: float) -> tuple[float, str] | None:
        asked.append(value)
        return None if value == 3.0 else (value + 0.5, str(label.tolist()))

    known = Knowledge(NONE, incumbent=best, from_label=answer)
    known.offer(labels(0, 1), 4.0, "covering")
    assert (best.value, best.answer, best.found_by) == (4.5, "[0, 1]", "covering")
    known.offer(labels(1, 1), 4.5, "covering")
    known.offer(labels(1, 1), 5.0, "covering")
    known.offer(labels(1, 1), 3.0, "covering")
    assert asked == [4.0, 3.0]
    assert best.answer == "[0, 1]"


def test_a_monitor_stops_it_and_gets_its_notes() -> None:
    monitor = Monitor()
    known = Knowledge.watched(NONE, monitor, threads=1)
    known.on_note("three blocks")
    assert [event.note for event in monitor.statistics.events] == ["three blocks"]
    assert (known.threads, known.stop()) == (1, False)
    monitor.interrupt()
    assert known.stop()


@pytest.mark.parametrize(("devices", "items", "found"), [(5, 1, True), (6, 150, False), (6, 151, True)])
def test_programs_suit_few_or_large_blocks(devices: int, items: int, found: bool) -> None:
    assert suits_programs(SimpleNamespace(devices=devices, items=items)) is found


@pytest.mark.parametrize(("works", "bound"), [((4.0, 1.0, 1.0), 4.0), ((2.0, 2.0, 4.0), 4.0), ((3.0, 3.0, 2.0), 4.0)])
def test_the_simple_bound(works: tuple[float, ...], bound: float) -> None:
    """On two devices the largest work, or half of all."""
    problem = ThroughputProblem(
        name="row",
        kinds=(DeviceKind(name="gpu", count=2),),
        operators=tuple(TimedOperator(id=v, times=(work,)) for v, work in enumerate(works)),
    )
    method = SimpleBound()
    assert method.supports(problem) is None
    found = method.bound(problem, Monitor())
    assert (found.value, found.method, found.scope) == (pytest.approx(bound), "simple", "free")
    assert found.runtime_s > 0
    known = Knowledge(uniform(problem, free=True))
    assert method.share(known.uniform) == 1.0
    assert known.offer_blocks(labels(0, 1, 1), "by hand") == max(works[0], works[1] + works[2])
    assert known.value == max(works[0], works[1] + works[2])
