"""How long a plan of training takes for a number of tokens, what failures take from it, and what all of it costs.

Failures come at random, each independent of the others (a Poisson process). A run computes for an interval, saves, and
goes on; a failure takes it back to what was saved last, after a restart, in which it may fail again.

Source: Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps", 2006, equation 13 for the
expected time; the interval is its exact minimum rather than the paper's series.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from partita.ground.checks import check_at_least, check_number, check_positive
from partita.ground.errors import InputError
from partita.ground.shown import brief
from partita.ground.units import format_count, format_duration

_HOUR, _DAY = 3600.0, 86400.0
#: Halvings of the bracket of the best interval: beyond what a double tells apart.
_HALVINGS = 200


@dataclass(frozen=True, kw_only=True)
class RunShape:
    """What a plan says of every step, all that a run needs to know."""

    step_s: float
    tokens: int  #: Of a step.
    devices: int  #: That are paid for and may fail.
    replicas: int  #: Of the whole model, data-parallel.
    #: Of them so many stop where a machine is missing.
    replicas_of_machine: int = 1


@dataclass(frozen=True, kw_only=True)
class TrainingRun:
    """A run over a number of tokens; times are in seconds unless the name says otherwise."""

    shape: RunShape
    steps: int
    work_s: float  #: Of all steps, without failures and checkpoints.
    between_failures_s: float  #: Mean, of all devices together; infinite for none.
    checkpoint_s: float
    restart_s: float
    interval_steps: int  #: Between two checkpoints.
    #: Of the time that the run takes, the share in which it makes progress.
    goodput: float
    failures: float  #: Expected.
    #: What of its pace a run loses while one machine is missing, with a smaller global batch.
    loss_without_machine: float
    price_per_device_hour: float | None = None

    __repr__ = brief

    @property
    def days(self) -> float:
        """Of the whole run, with failures and checkpoints."""
        return self.work_s / self.goodput / _DAY if self.goodput > 0 else math.inf

    @property
    def device_hours(self) -> float:
        """Of all devices."""
        return self.days * 24 * self.shape.devices

    @property
    def tokens_per_s(self) -> float:
        """Of all devices, with failures and checkpoints."""
        return self.goodput * self.shape.tokens / self.shape.step_s

    @property
    def price(self) -> float | None:
        """Of all device-hours; None without a price."""
        return None if self.price_per_device_hour is None else self.device_hours * self.price_per_device_hour

    def sentences(self) -> list[str]:
        """For people."""
        found = [
            f"{format_count(self.steps)} steps of {format_count(self.shape.tokens)} tokens take "
            f"{format_duration(self.work_s)} on {self.shape.devices} devices, {format_duration(self.days * _DAY)} with "
            f"checkpoints and failures: {format_count(self.device_hours)} device-hours, "
            f"{format_count(self.tokens_per_s)} tokens/s"
        ]
        if math.isinf(self.between_failures_s):
            found.append("no failures were stated, so that nothing is lost but for the last checkpoint")
        else:
            interval, restart = (format_duration(s) for s in (self.interval_steps * self.shape.step_s, self.restart_s))
            found.append(
                f"a failure every {format_duration(self.between_failures_s)}, {self.failures:.4g} of them; goodput "
                f"{self.goodput:.2%} with a checkpoint of {format_duration(self.checkpoint_s)} every "
                f"{self.interval_steps} steps ({interval}) and restarts of {restart}"
            )
        found.append(
            f"while a machine is missing, {self.shape.replicas_of_machine} of {self.shape.replicas} replicas stop: "
            f"{self.loss_without_machine:.2%} of what the run does"
        )
        if self.price is not None:
            found.append(f"at {self.price_per_device_hour:g} per device-hour: {format_count(self.price)}")
        return found


def run_over(
    shape: RunShape,
    tokens: float,
    *,
    device_failure_hours: float = math.inf,
    checkpoint_s: float = 60.0,
    restart_s: float = 600.0,
    interval_steps: int | None = None,
    price_per_device_hour: float | None = None,
) -> TrainingRun:
    """The run of steps of one shape; parameters and errors as for ``partita.training_run``."""
    check_positive("the run", "tokens", tokens)
    if not device_failure_hours > 0:
        raise InputError(f"the time between failures of a device is {device_failure_hours} hours; it must be positive")
    check_number("the run", "checkpoint_s", checkpoint_s)
    check_number("the run", "restart_s", restart_s)
    if price_per_device_hour is not None:
        check_positive("the run", "price_per_device_hour", price_per_device_hour)
    steps = math.ceil(tokens / shape.tokens)
    between = device_failure_hours * _HOUR / shape.devices

    def share(count: int) -> float:
        """Goodput with so many steps between checkpoints."""
        work = count * shape.step_s
        return work / expected_s(work, checkpoint_s, restart_s, between)

    if interval_steps is None:
        near = min(best_interval_s(checkpoint_s, between) / shape.step_s, steps)
        interval_steps = max({max(1, math.floor(near)), max(1, math.ceil(near))}, key=share)
    check_at_least("the run: interval_steps", interval_steps)
    goodput, work = share(interval_steps), steps * shape.step_s
    failures = 0.0 if math.isinf(between) else work / goodput / between if goodput > 0 else math.inf
    return TrainingRun(
        shape=shape,
        steps=steps,
        work_s=work,
        between_failures_s=between,
        checkpoint_s=checkpoint_s,
        restart_s=restart_s,
        interval_steps=interval_steps,
        goodput=goodput,
        failures=failures,
        loss_without_machine=min(1.0, shape.replicas_of_machine / shape.replicas),
        price_per_device_hour=price_per_device_hour,
    )


def expected_s(work_s: float, checkpoint_s: float, restart_s: float, between_s: float) -> float:
    """Seconds in which an interval of work is done and saved, failures and what they take included.

    ``between_s`` is the mean time between failures of the whole machine, infinite for none. Infinite where failures are
    so frequent that no interval ends.
    """
    whole = work_s + checkpoint_s
    if math.isinf(between_s):
        return whole
    try:
        return between_s * math.exp(restart_s / between_s) * math.expm1(whole / between_s)
    except OverflowError:
        return math.inf


def best_interval_s(checkpoint_s: float, between_s: float) -> float:
    """Seconds of work between two checkpoints that lose least; infinite without failures, 0 where saving is free.

    The minimum of the expected time per second of work is where (1 − x)·exp(x + C/M) = 1, x being the interval over
    the time between failures M and C what a checkpoint takes; restarts do not change it.
    """
    if math.isinf(between_s):
        return math.inf
    low, high, saved = 0.0, 1.0, checkpoint_s / between_s
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if middle < 1 and math.log1p(-middle) + middle + saved > 0:
            low = middle
        else:
            high = middle
    return low * between_s
