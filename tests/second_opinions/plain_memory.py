"""What a device holds at its peak, as plainly as it can be said: go through what it does, in its order."""

from __future__ import annotations

from collections.abc import Sequence

from partita.simulator.schedules.protocol import Action


def plain_peak(order: Sequence[Action], sizes: Sequence[float], *, fixed: float = 0.0, workspace: float = 0.0) -> float:
    """The most bytes that a device holds, which does one thing after the other.

    A stage holds a microbatch from the start of its forward action to the end of the action that ends its backward part
    (without backward parts, to the end of the forward action), however long these take: a device that makes room in no
    time has needed it all the same.

    Parameters
    ----------
    order
        What the device does; of several stages, if it has these.
    sizes
        By stage, bytes of each microbatch.
    fixed, workspace
        Bytes that are held all the time, and while the device works.
    """
    last = "BW" if any(action.letter != "F" for action in order) else "F"
    held: list[float] = []
    most = fixed
    for action in order:
        if action.letter == "F":
            held.append(sizes[action.stage])
        most = max(most, fixed + sum(held) + workspace)
        if action.letter in last:
            held.remove(sizes[action.stage])
    assert not held
    return most
