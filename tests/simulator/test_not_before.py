"""Steps that start when something from outside was there."""

from __future__ import annotations

import numpy as np

from partita.simulator.program import Order, Place, Program, Step
from partita.simulator.simulate import simulate
from partita.simulator.timeline import FORWARD


def test_a_step_waits_for_its_time_and_for_its_place() -> None:
    """The second one would start at 1, and may at 5; the third may at once, and waits for the second."""
    step = Step(0, 0, "F", FORWARD, 1.0, not_before=np.array([0.0, 5.0, 0.0]))
    program = Program(
        name="late",
        unit="s",
        places=[Place(name="one", replicas=(("gpu:0",),))],
        steps=[step],
        edges=[],
        orders=[Order(0, 0, np.zeros(3, np.int64), np.arange(3))],
        microbatches=3,
    )
    assert simulate(program).timeline.start.tolist() == [0.0, 5.0, 6.0]
