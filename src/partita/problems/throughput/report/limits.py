"""What limits a throughput plan."""

from __future__ import annotations

import math
from typing import Any

from partita.ground.units import format_bytes, format_time
from partita.problems.throughput.evaluation import Evaluation
from partita.problems.throughput.problem import ThroughputProblem

#: A stage whose memory is this full may owe its cut to memory.
MEMORY_FULL = 0.95


def limits(problem: ThroughputProblem, evaluation: Evaluation, without_memory: float | None = None) -> dict[str, Any]:
    """What binds a plan, as plain values; ``without_memory`` is the objective of one without memory limits, if known.

    ``stage`` is the index of the bottleneck stage, ``binding`` is ``work``, ``communication`` or ``memory``, and
    ``sentences`` are the reasons in words, most important first.
    """
    number = evaluation.bottleneck
    stage = evaluation.stages[number]
    unit = problem.unit
    share = stage.communication / stage.load if stage.load > 0 else 0.0
    gain = 0.0 if without_memory is None else 1 - without_memory / evaluation.objective
    binding = "memory" if gain > 1e-3 else "communication" if share > 0.5 else "work"
    sentences = [
        f"stage {number} on {stage.device} is the bottleneck: {format_time(stage.load, unit)}, of which "
        f"{1 - share:.1%} is work and {share:.1%} communication; {binding} binds"
    ]
    balance = _perfect_balance(problem)
    if balance is not None:
        above = evaluation.objective / balance - 1
        sentences.append(
            f"perfectly divisible work without communication would take {format_time(balance, unit)} per device; "
            f"the plan is {above:.2%} above that"
        )
    full = [(s.memory.total / s.memory.limit, i) for i, s in enumerate(evaluation.stages) if s.memory.limit]
    if full:
        fullest, where = max(full)
        memory = evaluation.stages[where].memory
        sentence = f"the fullest memory is stage {where}: {format_bytes(memory.total)} of {format_bytes(memory.limit)}"
        if gain > 1e-3:
            sentence += f"; without memory limits the plan would be {gain:.1%} faster"
        elif without_memory is not None:
            sentence += "; a plan without memory limits would not be faster"
        elif fullest < MEMORY_FULL:
            sentence += f" ({fullest:.0%}), so memory does not bind"
        sentences.append(sentence)
    return {"stage": number, "binding": binding, "sentences": sentences}


def _perfect_balance(problem: ThroughputProblem) -> float | None:
    """Total work over the accelerators' joint speed; only where every operator keeps its speed ratio is it exact."""
    place, *others = problem.present
    kind = problem.kinds[place]
    if others or not kind.accelerator:
        return None
    again = problem.schedule.recompute and problem.training
    times = [(op.times[place], 1 + (again and not op.backward)) for op in problem.operators]
    work = sum(math.inf if time is None else time * runs for time, runs in times)
    return work / kind.count if 0 < work < math.inf else None
