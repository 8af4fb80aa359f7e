"""The first steps of a run, stage by stage, as a time line."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from partita.problems.facets.timeline import RunRequest, TimeLine, refuse_schedules
from partita.problems.serving.engine import units_of
from partita.problems.serving.evaluate import ServingEvaluation, simulated
from partita.problems.serving.problem import ServingPlan, ServingProblem
from partita.simulator.program import Order, Place, Program, Step
from partita.simulator.timeline import DECODE, PROMPT

#: Steps that are shown.
SHOWN = 1000


class ServingTimeLine(TimeLine[ServingProblem, ServingPlan, ServingEvaluation]):
    """Every unit with its stages; steps with prompts look unlike those that decode alone."""

    def program(
        self, problem: ServingProblem, plan: ServingPlan, evaluation: ServingEvaluation, request: RunRequest
    ) -> Program:
        refuse_schedules(problem.name, "steps follow the requests that come", request)
        units = units_of(problem, plan)
        served = simulated(problem, plan, SHOWN)
        totals, shown = served.totals, served.recorded
        places: list[Place] = []
        steps: list[Step] = []
        edges: list[tuple[int, int]] = []
        orders: list[Order] = []
        for number, unit in enumerate(units):
            mine = totals.unit[:shown] == number
            own = np.flatnonzero(mine)
            for stage in range(unit.form.prices.stages):
                span = totals.span[:shown, stage]
                size = unit.form.layout.devices // unit.form.prices.stages
                name = f"unit {number}" + (f" stage {stage}" if unit.form.prices.stages > 1 else "")
                devices = tuple(f"{unit.form.kind}:{name}:{device}" for device in range(size))
                places.append(Place(name=name, replicas=(devices,)))
                if stage:
                    edges.append((len(steps) - 1, len(steps)))
                times = np.where(mine, span[:, 1] - span[:, 0], 0.0)
                steps.append(
                    Step(
                        len(places) - 1,
                        stage,
                        "F",
                        PROMPT,
                        float(times.max(initial=0.0)),
                        times=times,
                        sorts=np.where(totals.step_prompts[:shown] > 0, PROMPT, DECODE),
                        absent=~mine,
                        not_before=np.where(mine, span[:, 0], 0.0),
                    )
                )
                orders.append(
                    Order(len(places) - 1, 0, np.full(len(own), len(steps) - 1, np.int64), own.astype(np.int64))
                )
        return Program(
            name=problem.name,
            unit="s",
            places=places,
            steps=steps,
            edges=edges,
            orders=orders,
            microbatches=max(1, shown),
            schedule="as planned",
            settles=False,
            pieces=("step", "steps"),
            notes=(f"The first {shown} steps of {int(totals.steps.sum())}.",),
        )

    def expected(
        self, problem: ServingProblem, plan: ServingPlan, evaluation: ServingEvaluation, program: Program
    ) -> Mapping[str, float]:
        return {"the whole run": evaluation.duration_s}


def shown_s(problem: ServingProblem, plan: ServingPlan) -> float:
    """When the last step of the time line ends."""
    served = simulated(problem, plan, SHOWN)
    return float(served.totals.span[: served.recorded].max(initial=0.0))
