"""Simulate: a plan in, what happens when it runs out."""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from partita.ground.errors import InputError
from partita.ground.shown import brief
from partita.problems import kind_of
from partita.problems.facets.timeline import RunRequest
from partita.simulator.document import Holding
from partita.simulator.sensitivity import Change, affordable, changes
from partita.simulator.simulate import Simulation
from partita.simulator.simulate import simulate as run

#: Steps times microbatches of the longest run that is made to see a steady state.
_LONGEST = 500_000


@dataclass(frozen=True)
class Simulated:
    """A plan that ran through the simulator as ``request`` says, what it is worth, and what happened."""

    problem: Any
    plan: Any
    evaluation: Any
    request: RunRequest
    simulation: Simulation

    __repr__ = brief

    @property
    def expected(self) -> Mapping[str, float]:
        """What the problem's formulas say of the same run, by name."""
        timeline = kind_of(self.problem).timeline
        return timeline.expected(self.problem, self.plan, self.evaluation, self.simulation.program)

    def holdings(self, place: int) -> Sequence[Holding]:
        """What the devices of a place hold, one by one."""
        timeline = kind_of(self.problem).timeline
        return timeline.holdings(self.problem, self.plan, self.simulation.program, place)

    def again(self, microbatches: int) -> Simulated:
        """The same with another number of microbatches."""
        request = msgspec.structs.replace(self.request, microbatches=microbatches)
        return _simulated(self.problem, self.plan, self.evaluation, request)

    @property
    def turn(self) -> int:
        """The fewest microbatches that give every replica as many as its like."""
        return math.lcm(*(place.instances for place in self.simulation.program.places))

    @functools.cached_property
    def steady_period(self) -> float | None:
        """Time per microbatch in an endless run: read off one batch where it settles there, else off longer ones.

        Where a batch never settles (GPipe), this is what every further microbatch adds to its step. None if too many
        microbatches would have to run to see it, or the schedule does not take more of them.
        """
        program = self.simulation.program
        size = program.microbatches
        with contextlib.suppress(InputError):
            if program.settles:
                period = self.simulation.period
                while period is None and 2 * size * len(program.steps) <= _LONGEST:
                    size *= 2
                    period = self.again(size).simulation.period
                return period
            if (2 * size + self.turn) * len(program.steps) <= _LONGEST:
                more = -(-size // self.turn) * self.turn
                return (self.again(size + more).simulation.step_time - self.simulation.step_time) / more
        return None


def _simulated(problem: Any, plan: Any, evaluation: Any, request: RunRequest) -> Simulated:
    program = kind_of(problem).timeline.program(problem, plan, evaluation, request)
    return Simulated(problem, plan, evaluation, request, run(program))


def simulate_plan(problem: Any, plan: Any, evaluation: Any = None, **settings: Any) -> Simulated:
    """Run a plan of a problem, which need not be feasible, through the simulator.

    ``evaluation`` is what it is worth, where that is known already; settings are fields of
    ``partita.problems.facets.timeline.RunRequest``.

    Raises
    ------
    InputError
        If a setting is unknown, or the plan cannot run as asked.
    """
    try:
        request = msgspec.convert(settings, RunRequest)
    except msgspec.ValidationError as error:
        raise InputError(f"simulation of {problem.name!r}: {error}") from None
    worth = kind_of(problem).evaluate(problem, plan) if evaluation is None else evaluation
    return _simulated(problem, plan, worth, request)


def simulate(problem: Any, plan: Any, **settings: Any) -> Simulation:
    """The simulation alone of ``simulate_plan``."""
    return simulate_plan(problem, plan, **settings).simulation


def sensitivities(found: Simulated) -> list[Change]:
    """What would change the step: every device 10 % faster, every link twice as wide, one more turn of microbatches.

    Very long time lines are not simulated again.
    """
    turn, step = found.turn, found.simulation.step_time
    answers = changes(found.simulation)
    if affordable(found.simulation) < 2:
        return answers
    try:
        longer = found.again(found.simulation.program.microbatches + turn)
    except InputError:
        # Some schedules only take certain numbers.
        return answers
    what = "one more microbatch" if turn == 1 else f"{turn} more microbatches, one for every replica"
    return [*answers, Change(what, longer.simulation.step_time, step)]
