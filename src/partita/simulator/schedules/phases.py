"""What the schedules of the 1F1B family share: a warm-up, one forward and one backward in turn, and a drain."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from partita.simulator.schedules.protocol import Action

#: A microbatch's part in a stage: (stage, microbatch).
Unit = tuple[int, int]


def one_each(forwards: Sequence[Unit], backwards: Sequence[Unit], warm_up: int) -> list[Action]:
    """Forward and backward actions in turn after a warm-up of so many forward actions, all if there are fewer."""
    ahead = min(warm_up, len(forwards))
    forward = [Action(stage, "F", microbatch) for stage, microbatch in forwards]
    backward = [Action(stage, "B", microbatch) for stage, microbatch in backwards]
    in_turn = chain.from_iterable(zip(forward[ahead:], backward, strict=False))
    return [*forward[:ahead], *in_turn, *backward[len(forward) - ahead :]]


def split_each(forwards: Sequence[Unit], backwards: Sequence[Unit], warm_up: int, delay: int) -> list[Action]:
    """The same with a split backward: a weight gradient follows the input gradient that is ``delay`` places later.

    Those for which there is none any more stand at the end.
    """
    order: list[Action] = []
    done = 0
    for action in one_each(forwards, backwards, warm_up):
        if action.letter == "F":
            order.append(action)
            continue
        order.append(Action(action.stage, "I", action.microbatch))
        if done >= delay:
            order.append(weights(backwards[done - delay]))
        done += 1
    order += [weights(unit) for unit in backwards[max(0, done - delay) :]]
    return order


def weights(unit: Unit) -> Action:
    """The action that makes the gradients of the weights."""
    return Action(unit[0], "W", unit[1])
