"""What the engine takes and what it refuses."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from partita.engines.kernels.simulator.events import run_tasks
from partita.ground.errors import InputError
from partita.simulator.engine import run
from second_opinions.plain_engine import graph_of

GOOD = graph_of(
    [1, 1, 1],
    amount=[0, 2, 0],
    edges=[(0, 1)],
    held=[[0, 1], [1], []],
    used=[[], [0, 1], []],
    things=2,
    capacity=[1, 1],
)


def longs(*values: int) -> np.ndarray:
    """Whole numbers."""
    return np.array(values, np.int64)


def test_other_arrays_are_taken_without_compiling_again() -> None:
    """Smaller whole numbers, numbers that are not floats, strides, and what must not be written to."""
    expected = run(GOOD).end.tolist()
    signatures = len(run_tasks.signatures)
    frozen = GOOD.duration.copy()
    frozen.setflags(write=False)
    other = dataclasses.replace(
        GOOD,
        duration=frozen,
        amount=GOOD.amount.astype(np.int16),
        priority=np.zeros((3, 2))[:, 0],
        held=GOOD.held.astype(np.int32),
        used_offsets=GOOD.used_offsets.astype(np.uint8),
    )
    assert run(other).end.tolist() == expected
    assert len(run_tasks.signatures) == signatures == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"duration": np.array([1, -2.0, 1])}, "task 1: duration is -2.0; it must be finite and not negative"),
        ({"amount": np.array([0, 0, -1.0])}, "task 2: amount is -1.0; it must be finite and not negative"),
        ({"release": np.array([0, np.inf, 0])}, "task 1: release is inf; it must be finite"),
        ({"release": np.array([-1.0, 0, 0])}, "task 0: release is -1.0; it must be finite and not negative"),
        ({"priority": np.array([0, 0, np.nan])}, "task 2: priority is nan; it must be finite"),
        ({"priority": np.zeros(2)}, r"task graph: priority has shape \(2,\); it must be \(3,\)"),
        ({"capacity": np.array([1, 0.0])}, "link 1: capacity is 0.0; it must be finite and positive"),
        ({"capacity": np.array([np.nan, 1])}, "link 0: capacity is nan; it must be finite"),
        ({"before": longs(3)}, "edge 0: before is 3; it must be the number of one of the 3 tasks"),
        ({"after": longs(-1)}, "edge 0: after is -1; it must be the number of one of the 3 tasks"),
        ({"after": longs(1, 2)}, "task graph: before has 1 entries and after 2; each edge needs both"),
        ({"before": np.zeros((1, 1), int)}, r"task graph: before has shape \(1, 1\); it must have one dimension"),
        ({"before": np.array([0.5])}, "task graph: before has the type float64; it must hold whole numbers, as int64"),
        ({"held": longs(0, 2, 1)}, "task 0 holds thing 2; there are 2, which count from 0"),
        ({"held": longs(1, 1, 1)}, "task 0 holds thing 1 twice; name it once"),
        ({"held_offsets": longs(0, 2, 3)}, "task graph: held_offsets must be 4 numbers that never fall, from 0 to 3"),
        ({"held_offsets": longs(0, 3, 2, 3)}, "task graph: held_offsets must be 4 numbers that never fall"),
        ({"held_offsets": longs(0, 2, 3, 4)}, "task graph: held_offsets must be .* from 0 to 3, the length of held"),
        ({"used": longs(0, -1)}, "task 1 uses link -1; there are 2, which count from 0"),
        ({"used": longs(0, 0)}, "task 1 uses link 0 twice; name it once"),
        ({"used_offsets": longs(0, 2, 2, 2)}, "task 1: amount is 2.0, but it uses no link; give it one, or amount 0"),
        ({"things": -1}, "task graph: things is -1; it must not be negative"),
        ({"duration": np.full(3, 1e308)}, "task graph: it could take inf, which is beyond 1e[+]300; choose larger"),
        ({"capacity": np.full(2, 5e-324)}, "task graph: it could take inf, which is beyond 1e[+]300; choose larger"),
        ({"before": longs(2, 1), "after": longs(1, 2)}, "task 1 can never start: it is on a circle of tasks"),
        ({"before": longs(1), "after": longs(1)}, "task 1 can never start: .* take out one of the circle's edges"),
        ({"before": longs(2, 2), "after": longs(2, 0)}, "task 0 can never start: .* or waits for one"),
    ],
)
def test_bad_input_is_refused(changes: dict[str, Any], message: str) -> None:
    """With what is wrong, and what would be right."""
    run(GOOD)
    with pytest.raises(InputError, match=message):
        run(dataclasses.replace(GOOD, **changes))
