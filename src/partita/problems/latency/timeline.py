"""What happens when a sample passes the pieces of a plan: copies in, work, copies out, and the CPU beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from partita.problems.facets.timeline import RunRequest, TimeLine, one_sample, refuse_schedules
from partita.problems.latency.evaluate import LatencyEvaluation
from partita.problems.latency.plan import LatencyPlan, complete, homes
from partita.problems.latency.problem import LatencyProblem
from partita.simulator.program import Order, Place, Program, Step
from partita.simulator.timeline import OPERATOR


class LatencyTimeLine(TimeLine[LatencyProblem, LatencyPlan, LatencyEvaluation]):
    """One sample; every piece is invoked as a unit, operators on the CPU run as soon as they can."""

    def program(
        self, problem: LatencyProblem, plan: LatencyPlan, evaluation: LatencyEvaluation, request: RunRequest
    ) -> Program:
        refuse_schedules(problem.name, "a latency plan runs one sample", request)
        plan = complete(problem, plan)
        home = homes(problem, plan)
        places: list[Place] = []
        steps: list[Step] = []
        orders: list[Order] = []
        node: dict[tuple[int, int], int] = {}
        for device, (row, worth) in enumerate(zip(plan.accelerators, evaluation.accelerators, strict=True)):
            if not row:
                continue
            first = len(steps)
            for number, piece in enumerate(worth.pieces):
                node[device, number] = len(steps)
                name = f"piece {number} of accelerator {device}"
                steps.append(
                    Step(
                        len(places), -1, "F", OPERATOR, piece.compute, piece.transfer_in, piece.transfer_out, name=name
                    )
                )
            mine = np.arange(first, len(steps), dtype=np.int64)
            orders.append(Order(len(places), 0, mine, np.zeros(len(mine), dtype=np.int64)))
            places.append(
                Place(
                    name=f"accelerator {device}",
                    replicas=((f"accelerator:{device}",),),
                    memory={"operators": worth.memory_bytes},
                    limit=problem.memory_bytes,
                )
            )
        of: dict[int, int] = {identity: node[at] for identity, at in home.items()}
        on_cpu = [op for op in problem.operators if op.id not in home]
        if on_cpu:
            places.append(Place(name="CPU", replicas=(("cpu",),), parallel=True))
        for op in on_cpu:
            of[op.id] = len(steps)
            steps.append(Step(len(places) - 1, -1, "F", OPERATOR, op.cpu_time, name=op.label))
        edges = sorted({(of[a], of[b]) for a, b in problem.edges} - {(s, s) for s in range(len(steps))})
        return one_sample(problem.name, problem.unit, places, steps, edges, orders)

    def expected(
        self, problem: LatencyProblem, plan: LatencyPlan, evaluation: LatencyEvaluation, program: Program
    ) -> Mapping[str, float]:
        return {"the latency": evaluation.objective}

    def holdings(
        self, problem: LatencyProblem, plan: LatencyPlan, program: Program, place: int
    ) -> Sequence[tuple[str, float, bool]]:
        """Operators with what they take of the accelerator."""
        name = program.places[place].name
        home = homes(problem, complete(problem, plan))
        return [
            (op.label, op.memory_bytes, False)
            for op in problem.operators
            if op.id in home and name == f"accelerator {home[op.id][0]}"
        ]
