"""What limits a throughput plan."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from partita.problems.throughput.evaluation import Evaluation
from partita.problems.throughput.problem import ThroughputProblem
from partita.units import format_bytes, format_time

#: A stage whose memory is this full may owe its cut to memory.
MEMORY_FULL = 0.95


@dataclass(frozen=True)
class Limits:
    """What binds.

    Attributes
    ----------
    stage
        Index of the bottleneck stage.
    binding
        ``work``, ``communication`` or ``memory``.
    sentences
        The reasons in words, most important first.
    """

    stage: int
    binding: str
    sentences: tuple[str, ...]


def limits(problem: ThroughputProblem, evaluation: Evaluation, without_memory: float | None = None) -> Limits:
    """Say which stage is the bottleneck and whether work, communication or memory binds.

    Parameters
    ----------
    problem, evaluation
        The problem and its plan's evaluation.
    without_memory
        Objective of a plan for the same problem without memory limits, if it was computed.
    """
    number = evaluation.bottleneck
    stage = evaluation.stages[number]
    unit = problem.unit
    share = stage.communication / stage.load if stage.load > 0 else 0.0
    full = [(s.memory.total / s.memory.limit, i) for i, s in enumerate(evaluation.stages) if s.memory.limit]
    fullest, where = max(full, default=(0.0, 0))
    gain = 0.0 if without_memory is None else 1 - without_memory / evaluation.objective
    if gain > 1e-3:
        binding = "memory"
    elif share > 0.5:
        binding = "communication"
    else:
        binding = "work"
    sentences = [
        f"stage {number} on {stage.device} is the bottleneck: {format_time(stage.load, unit)}, of which "
        f"{1 - share:.1%} is work and {share:.1%} communication; {binding} binds"
    ]
    balance = _perfect_balance(problem)
    if balance is not None and balance > 0:
        above = evaluation.objective / balance - 1
        sentences.append(
            f"perfectly divisible work without communication would take {format_time(balance, unit)} per device; "
            f"the plan is {above:.2%} above that"
        )
    if full:
        memory = evaluation.stages[where].memory
        sentence = f"the fullest memory is stage {where}: {format_bytes(memory.total)} of {format_bytes(memory.limit)}"
        if gain > 1e-3:
            sentence += f"; without memory limits the plan would be {gain:.1%} faster"
        elif without_memory is not None:
            sentence += "; a plan without memory limits would not be faster"
        elif fullest < MEMORY_FULL:
            sentence += f" ({fullest:.0%}), so memory does not bind"
        sentences.append(sentence)
    return Limits(number, binding, tuple(sentences))


def _perfect_balance(problem: ThroughputProblem) -> float | None:
    """Total work over the accelerators' joint speed; only where every operator keeps its speed ratio is it exact."""
    kinds = [(i, kind) for i, kind in enumerate(problem.kinds) if kind.accelerator and kind.count > 0]
    if not kinds or any(kind.count > 0 and not kind.accelerator for kind in problem.kinds):
        return None
    times = np.array(
        [[op.times[i] if op.times[i] is not None else np.inf for i, _ in kinds] for op in problem.operators]
    )
    totals = times.sum(axis=0)
    if problem.schedule.recompute and problem.training:
        forward = np.array([not op.backward for op in problem.operators])
        totals = totals + times[forward].sum(axis=0)
    if not np.isfinite(totals).all() or (totals <= 0).any() or len(kinds) > 1:
        return None
    return float(totals[0]) / kinds[0][1].count
