"""The run of a plan of training: time, failures and money."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

from partita.api.answer import AnyAnswer
from partita.api.loading import load
from partita.conductor.training_run import RunShape, TrainingRun, run_over
from partita.ground.errors import InputError


def training_run(
    answer: AnyAnswer | str | Path,
    tokens: float,
    *,
    device_failure_hours: float = math.inf,
    checkpoint_s: float = 60.0,
    restart_s: float = 600.0,
    interval_steps: int | None = None,
    price_per_device_hour: float | None = None,
) -> TrainingRun:
    """How long a plan trains on a number of tokens, what failures take from that, and what it costs.

    Parameters
    ----------
    answer
        Of ``plan`` with ``training=True``, or the path of a result file.
    tokens
        Of the whole run; a step more where they do not fill the last one.
    device_failure_hours
        Mean time between failures of one device, whatever stops the run counted; infinite for none.
    checkpoint_s
        Seconds for which training stops to save its state.
    restart_s
        Seconds from a failure until training goes on from what was saved last.
    interval_steps
        Steps between two checkpoints; what loses least if None.
    price_per_device_hour
        Money for one device and hour, for all devices of the cluster; None for no price.

    Raises
    ------
    InputError
        If a number is out of range, or the answer is no plan of training of a model whose tokens are known.
    """
    name = str(answer) if isinstance(answer, (str, Path)) else "the answer"
    return run_over(
        _shape(load(answer) if isinstance(answer, (str, Path)) else answer, name),
        tokens,
        device_failure_hours=device_failure_hours,
        checkpoint_s=checkpoint_s,
        restart_s=restart_s,
        interval_steps=interval_steps,
        price_per_device_hour=price_per_device_hour,
    )


def _shape(answer: AnyAnswer, name: str) -> RunShape:
    """What every step of a plan is."""
    split, cluster = answer.split, answer.cluster
    if answer.plan is None or split is None or cluster is None or not split.training:
        raise InputError(f"{name} is no plan that trains a model on a cluster; plan one for training")
    if not split.samples or not split.sequence:
        raise InputError(f"{split.model}: the trace does not say how many tokens a microbatch has")
    step: Any = answer.document(stated=False)["step"]
    first = split.stages[0]
    most = max(Counter(cluster.machine_of()).values())
    return RunShape(
        step_s=float(step["time"]),
        tokens=split.microbatches * split.samples * split.sequence,
        devices=cluster.device_count,
        replicas=first.replicas,
        replicas_of_machine=min(first.replicas, -(-most // (first.tensor * first.context))),
    )
