"""Impossible schedules are refused with the first action that cannot run."""

from __future__ import annotations

import random
from collections import Counter
from typing import cast

import pytest

from partita.ground.errors import InputError
from partita.simulator.schedules import find_schedule
from partita.simulator.schedules.check import check_orders, find_fault
from partita.simulator.schedules.protocol import Action, Letter
from second_opinions import order_times


def row(text: str) -> list[Action]:
    """Actions as in ``0F0 0B0``; numbers have one digit."""
    return [Action(int(word[0]), cast("Letter", word[1]), int(word[2])) for word in text.split()]


POSSIBLE = {
    "whole backward": (["0F0 0F1 0B0 0B1", "1F0 1B0 1F1 1B1"], [0, 1]),
    "split backward": (["0F0 0F1 0I0 0B1 0W0", "1F0 1I0 1F1 1I1 1W1 1W0"], [0, 1]),
    "a V": (["0F0 3F0 3B0 0B0", "1F0 2F0 2B0 1B0"], [0, 1, 1, 0]),
    "one rank": (["0F0 1F0 1B0 0B0"], [0, 0]),
    "microbatches in another order": (["0F1 0F0 0B0 0B1", "1F1 1F0 1B0 1B1"], [0, 1]),
    "forward only": (["0F0 0F1", "1F0 1F1"], [0, 1]),
}

IMPOSSIBLE = {
    "later on its own rank, backward": (["0F0 0B1 0F1 0B0"], [0], "rank 0, action 2: 0B1 waits for 0F1, .* action 3"),
    "later on its own rank, forward": (
        ["0F0 2F0 1F0 1B0 2B0 0B0"],
        [0, 0, 0],
        "action 2: 2F0 waits for 1F0, .* action 3",
    ),
    "later on its own rank, backward of the next": (
        ["0F0 1F0 0B0 1B0"],
        [0, 0],
        "action 3: 0B0 waits for 1B0, .* action 4",
    ),
    "weights before inputs": (["0F0 0W0 0I0"], [0], "action 2: 0W0 waits for 0I0, .* action 3; put it before"),
    "circle of two": (
        ["0F0 0B0 0F1 0B1", "1F0 1F1 1B0 1B1"],
        [0, 1],
        "rank 0, action 2: 0B0 waits for 1B0 of rank 1; rank 1 is at 1F1, which waits for 0F1 of rank 0: no rank",
    ),
    "behind a circle": (
        ["0F0 0F1 0B0 0B1", "1F0 1B0 1F1 1B1", "2F0 2F1 2B0 2B1"],
        [0, 1, 2],
        "rank 1, action 2: 1B0 waits for 2B0 of rank 2; rank 2 is at 2F1, which waits for 1F1 of rank 1: no rank",
    ),
    "behind a circle, from its other end": (
        ["0F0 0F1 3F0 3F1 3B0 3B1 0B0 0B1", "1F0 1B0 1F1 1B1", "2F0 2F1 2B0 2B1"],
        [0, 1, 2, 0],
        "rank 1, action 2: 1B0 waits for 2B0 of rank 2; rank 2 is at 2F1, which waits for 1F1 of rank 1: no rank",
    ),
    "no such stage": (["0F0 0B0 5F0"], [0], "action 3: 5F0 is of stage 5, and stages are 0 to 0; use"),
    "another rank's stage": (["0F0 1F0 0B0", "1B0"], [0, 1], "rank 0, action 2: 1F0 is of a stage of rank 1; put"),
    "twice": (["0F0 0F1 0B0 0B1 0B0"], [0], "action 5: 0B0 is there for the second time; leave it out"),
    "no backward": (["0F0 0F1 0B1 0F2 0B2"], [0], "action 1: 0F0 has no backward action"),
    "both backwards": (["0F0 0B0 0I0 0W0"], [0], "action 2: 0B0 runs besides the I"),
    "no weights": (["0F0 0I0"], [0], "action 2: 0I0 has no W"),
    "no inputs": (["0F0 0B0 0W0"], [0], "action 3: 0W0 has no I"),
    "truncated in the forward": (
        ["0F0 0F1 0B0 0B1", "1F0 1B0"],
        [0, 1],
        "rank 1, action 3: 1F1 is missing: the order of 2",
    ),
    "truncated soon": (["0F0 0F1 0F2 0F3", "1F0"], [0, 1], "rank 1, action 2: 1F1 is missing"),
    "truncated in the backward": (["0F0 0F1 0B0", "1F0 1B0 1F1 1B1"], [0, 1], "rank 0, action 2: 0F1 has no backward"),
    "one of all": (["0F0 0B0 0F2 0B2 0F3 0B3"], [0], "0F1 is missing: .* microbatches 0 to 3; add it"),
    "huge number": ([[Action(0, "F", 10**9), Action(0, "B", 10**9)]], [0], "0F0 is missing"),
    "unknown letter": (["0F0 0X0"], [0], "action 2: 0X0 is no action that there is; use F, B, I or W"),
    "no rank": (["0F0 0B0"], [0, 3], "rank 3, action 1: stage 1 is on it, and there are 1 orders"),
    "no order": (["0F0 0B0", ""], [0, 1], "rank 1, action 1: 1F0 is missing: the order of 0 actions"),
    "no stages": ([], [], "there are no stages"),
    "negative": ([[Action(0, "F", -1), Action(0, "B", 0)]], [0], "0F-1 is not of one of the 1 microbatches"),
}


@pytest.mark.parametrize("case", POSSIBLE)
def test_possible(case: str) -> None:
    """Also where no schedule of the list is like it."""
    rows, rank_of = POSSIBLE[case]
    check_orders([row(text) for text in rows], rank_of, training=case != "forward only")


@pytest.mark.parametrize("case", IMPOSSIBLE)
def test_impossible(case: str) -> None:
    """The message has the rank, the action, its place, and what it waits for or lacks."""
    rows, rank_of, message = IMPOSSIBLE[case]
    with pytest.raises(InputError, match=f"^the schedule cannot run: .*{message}"):
        check_orders([row(text) if isinstance(text, str) else text for text in rows], rank_of, training=True)


def test_what_a_schedule_may_do() -> None:
    """No backward in one that runs forward only, none split in one that does not split; no other microbatches."""
    with pytest.raises(InputError, match="action 2: 0B0 is a backward action in a schedule that runs forward only"):
        check_orders([row("0F0 0B0")], [0], training=False)
    with pytest.raises(InputError, match=r"action 2: 0I0 is half a backward action .* use B"):
        check_orders([row("0F0 0I0 0W0")], [0], training=True, splits_backward=False)
    check_orders([row("0F0 0I0 0W0")], [0], training=True, microbatches=1)
    with pytest.raises(InputError, match="action 4: 0F1 is missing"):
        check_orders([row("0F0 0I0 0W0")], [0], training=True, microbatches=2)
    with pytest.raises(InputError, match="action 1: 0F1 is not of one of the 1 microbatches; leave it out"):
        check_orders([row("0F1 0F0 0B0 0B1")], [0], training=True, microbatches=1)


def test_long_circle() -> None:
    """Four of its ranks are named, and how many there are."""
    orders = [[Action(stage, "F", 0) for stage in (rank, rank + 6)] for rank in range(6)]
    check_orders(orders, [*range(6), *range(6)], training=False)
    orders[0].reverse()
    fault = find_fault(orders, [*range(6), *range(6)], training=False)
    assert fault is not None
    assert (fault.rank, fault.place) == (0, 0)
    assert fault.text == (
        "6F0 waits for 5F0 of rank 5; rank 5 is at 5F0, which waits for 4F0 of rank 4; "
        "rank 4 is at 4F0, which waits for 3F0 of rank 3; rank 3 is at 3F0, which waits for 2F0 of rank 2; "
        "and so on over 6 ranks: no rank of this circle can go on; reorder one of them"
    )


def test_against_running_the_orders() -> None:
    """Of shuffled orders those are refused that get stuck; of orders that lack an action all."""
    rng = random.Random(3)
    seen: Counter[bool] = Counter()
    for name, ranks, chunks, count in (
        ("1f1b", 3, 1, 4),
        ("zero-bubble", 3, 1, 4),
        ("interleaved", 2, 2, 4),
        ("zero-bubble-v", 2, 2, 3),
        ("dualpipe-v", 2, 2, 4),
    ):
        schedule = find_schedule(name)
        rank_of = schedule.rank_of(ranks, chunks)
        for _ in range(150):
            orders = schedule.orders(ranks, chunks, count)
            for _ in range(rng.randint(1, 3)):
                order = rng.choice(orders)
                first = rng.randrange(len(order) - 1)
                order[first], order[first + 1] = order[first + 1], order[first]
            ran = order_times.spans(orders, ranks * chunks, dict.fromkeys("FBIW", 1))
            fault = find_fault(orders, rank_of, training=True)
            assert (fault is None) == (ran is not None)
            seen[fault is None] += 1
            order = rng.choice(orders)
            del order[rng.randrange(len(order))]
            assert find_fault(orders, rank_of, training=True) is not None
    assert seen[True] > 150
    assert seen[False] > 150


def test_large_orders_are_made_and_checked() -> None:
    """512 ranks and 512 microbatches: 524,288 actions, all possible, and one that is missing is noticed."""
    orders = find_schedule("1f1b").orders(512, 1, 512)
    assert sum(map(len, orders)) == 524_288
    check_orders(orders, range(512), training=True, splits_backward=False, microbatches=512)
    orders[300].pop()
    with pytest.raises(InputError, match="rank 300"):
        check_orders(orders, range(512), training=True, splits_backward=False, microbatches=512)
