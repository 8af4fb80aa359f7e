"""How long orders take where every stage takes the same time: the longest path, and the most that a rank holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from partita.simulator.schedules.protocol import Action


def spans(
    orders: Sequence[Sequence[Action]], stages: int, times: Mapping[str, float]
) -> list[list[tuple[float, float]]] | None:
    """Start and end of every action of every rank, each as early as its order and its inputs let it; None if stuck.

    ``times`` are those of an action of each letter; nothing is moved between ranks.
    """
    ended: dict[tuple[int, str, int], float] = {}
    ran: list[list[tuple[float, float]]] = [[] for _ in orders]
    progress = True
    while progress:
        progress = False
        for order, spent in zip(orders, ran, strict=True):
            while len(spent) < len(order):
                stage, letter, microbatch = order[len(spent)]
                needs = {
                    "F": [(stage - 1, "F", microbatch)] if stage else [],
                    "W": [(stage, "back", microbatch)],
                }.get(letter, [(stage, "F", microbatch)] + [(stage + 1, "back", microbatch)] * (stage < stages - 1))
                if not all(need in ended for need in needs):
                    break
                start = max([spent[-1][1] if spent else 0, *(ended[need] for need in needs)])
                spent.append((start, start + times[letter]))
                ended[stage, "back" if letter in "BI" else letter, microbatch] = start + times[letter]
                progress = True
    done = all(len(spent) == len(order) for order, spent in zip(orders, ran, strict=True))
    return ran if done else None


def step_time(orders: Sequence[Sequence[Action]], stages: int, times: Mapping[str, float]) -> float:
    """When the last action ends."""
    ran = spans(orders, stages, times)
    assert ran is not None
    return max(end for spent in ran for _, end in spent)


def most_held(order: Sequence[Action]) -> int:
    """The most pairs (stage, microbatch) from the start of F to the end of B or W, or of F if there is nothing else."""
    training = any(action.letter != "F" for action in order)
    held = most = 0
    for action in order:
        held += action.letter == "F"
        most = max(most, held)
        held -= action.letter in ("BW" if training else "F")
    assert held == 0
    return most
